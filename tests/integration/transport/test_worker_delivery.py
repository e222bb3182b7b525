"""Real Celery workers on the transport, nothing going wrong: order, prefetch, lists, control."""

from __future__ import annotations

import random
import signal
import time

import pytest
from celery import Celery

from tests.integration.transport.probe import Broker, Probe, wait_for

pytestmark = pytest.mark.integration


def test_tasks_run_in_the_order_of_their_latest_start(probe: Probe) -> None:
    keys = random.Random(1).sample(range(1000), 40)
    for key in keys:
        probe.send(str(key), key=float(key))
    probe.worker(concurrency=1)
    probe.wait_ended(len(keys))
    assert [int(name) for name in probe.names("start")] == sorted(keys)


def test_a_worker_serves_several_sorted_sets_as_one(probe: Probe) -> None:
    for key in range(12):
        probe.send(str(key), key=float(key), queue="gpu.a100.x" if key % 3 else "gpu.a100.x.1")
    probe.worker(queues="gpu.a100.x,gpu.a100.x.1")
    probe.wait_ended(12)
    assert [int(name) for name in probe.names("start")] == list(range(12))


def test_nothing_is_prefetched(probe: Probe, broker: Broker) -> None:
    for number in range(5):
        probe.send(f"t{number}", 1.5, key=float(number))
    probe.worker(concurrency=2)
    probe.wait_started(2)
    time.sleep(0.3)
    assert (broker.held(), broker.waiting()) == (2, 3)
    probe.send("urgent", key=-1.0)
    probe.wait_ended(6)
    assert probe.names("start").index("urgent") == 2
    assert wait_for(broker.is_empty)


def test_messages_of_a_stock_client_on_a_list_are_leased_too(probe: Probe, broker: Broker) -> None:
    stock = Celery("stock", broker=probe.url, set_as_current=False)
    for number in range(3):
        stock.send_task("probe.run", args=(f"t{number}", 1.0), queue="hexgen.ask")
    assert broker.waiting("hexgen.ask") == 3
    probe.worker(queues="hexgen.ask", concurrency=2)
    probe.wait_started(2)
    assert (broker.held(), broker.waiting("hexgen.ask")) == (2, 1)
    probe.wait_ended(3)
    assert wait_for(broker.is_empty)
    assert set(probe.runs().values()) == {1}
    stock.close()


def test_priorities_of_a_list_are_kept(probe: Probe) -> None:
    """celery 8673, 8967: priorities ignored or scrambled. 0 is the most urgent in Kombu's lists."""
    for priority in (9, 0, 6, 3, 0, 9, 3, 6):
        probe.send(str(priority), queue="hexgen.ask", priority=priority)
    probe.worker(queues="hexgen.ask", concurrency=1)
    wait_for(lambda: len(probe.names("end")) == 8)
    assert probe.names("start") == ["0", "0", "3", "3", "6", "6", "9", "9"]


def test_an_idle_worker_of_each_kind_of_queue_is_woken(probe: Probe) -> None:
    probe.worker(queues="sql,hexgen.ask")
    delays = []
    for number in range(6):
        sent = time.time()
        probe.send(f"t{number}", queue=("sql", "hexgen.ask")[number % 2])
        probe.wait_ended(number + 1)
        delays.append(probe.lines("start")[-1].at - sent)
    # The wait of an idle worker lasts a second: whoever is not woken is found by that.
    assert sorted(delays)[3] < 0.5


def test_remote_control_sees_what_runs(probe: Probe) -> None:
    probe.worker(concurrency=2)
    probe.send("long", 3.0)
    probe.wait_started(1)
    active = probe.client.control.inspect(timeout=2).active()
    assert [task["args"] for task in active["w1@probe"]] == [["long", 3.0]]
    assert probe.client.control.ping(timeout=1) == [{"w1@probe": {"ok": "pong"}}]
    replies = probe.client.control.cancel_consumer("sql", reply=True, timeout=2)
    assert "ok" in replies[0]["w1@probe"]
    probe.send("later")
    time.sleep(1.5)
    assert probe.names("start") == ["long"]
    probe.client.control.add_consumer("sql", reply=True, timeout=2)
    probe.wait_ended(2)


def test_a_task_that_is_longer_than_its_lease_runs_once(probe: Probe, broker: Broker) -> None:
    """kombu 337, celery 2481, 9882: long or ETA tasks run again and again."""
    probe.worker("w1", concurrency=2)
    probe.worker("w2", concurrency=2)
    probe.send("long", 5.0)
    probe.send("later", countdown=4)
    probe.wait_ended(2)
    time.sleep(1.0)
    assert probe.runs() == {"long": 1, "later": 1}
    assert wait_for(broker.is_empty)


def test_a_refused_message_is_a_dead_letter_and_can_be_driven_again(
    probe: Probe, broker: Broker
) -> None:
    probe.worker()
    task_id = probe.send("no", task="probe.refuse", args=("no", False))
    (dead,) = wait_for(broker.inspector.dead_letters)
    assert (dead.task_id, dead.task, dead.queue) == (task_id, "probe.refuse", "sql")
    assert broker.inspector.redrive([dead.token]) == 1
    wait_for(lambda: probe.runs()["no"] == 2)
    (dead,) = wait_for(broker.inspector.dead_letters)
    assert broker.inspector.drop([dead.token]) == 1
    assert wait_for(broker.is_empty)


def test_an_unknown_task_is_kept_as_a_dead_letter(probe: Probe, broker: Broker) -> None:
    probe.worker()
    task_id = probe.send("x", task="probe.unknown")
    (dead,) = wait_for(broker.inspector.dead_letters)
    assert dead.task_id == task_id


def test_a_message_put_back_by_its_task_runs_again(probe: Probe) -> None:
    probe.worker()
    probe.send("again", task="probe.refuse", args=("again", True))
    wait_for(lambda: probe.runs()["again"] >= 3)


@pytest.mark.parametrize("pool", ["prefork", "solo"])
def test_other_pools_work_too(probe: Probe, broker: Broker, pool: str) -> None:
    probe.worker(pool=pool, concurrency=2, queues="sql,hexgen.ask")
    for number in range(6):
        probe.send(f"t{number}", queue=("sql", "hexgen.ask")[number % 2])
    probe.wait_ended(6)
    assert wait_for(broker.is_empty)
    probe.stop("w1", signal.SIGTERM)
    assert set(probe.runs().values()) == {1}
