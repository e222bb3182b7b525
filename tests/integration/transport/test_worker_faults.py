"""Real Celery workers on the transport when something breaks or ends.

Each test names the public reports whose behaviour would make it fail.
"""

from __future__ import annotations

import os
import signal
import time

import pytest
import redis

from tests.integration.transport.probe import Broker, Probe, wait_for
from workers.embedded_redis import EmbeddedRedis

pytestmark = pytest.mark.integration

LEASE = 2.0


def cut_connections(client: redis.Redis) -> None:
    """Close every other connection to the server."""
    client.client_kill_filter(_type="normal", skipme=True)
    client.client_kill_filter(_type="pubsub", skipme=True)


def test_a_lost_connection_repeats_nothing_and_the_ack_arrives_later(
    probe: Probe, broker: Broker
) -> None:
    """kombu 1836; celery 1810, 10345: messages vanish or run twice on a Redis flap."""
    for number in range(3):
        probe.send(f"t{number}", 4.0)
    probe.worker("w1", concurrency=3)
    probe.worker("w2", concurrency=3)
    probe.wait_started(3)
    for _ in range(3):
        cut_connections(broker.client)
        time.sleep(0.7)
    probe.send("after")
    probe.wait_ended(4)
    assert wait_for(broker.is_empty)
    assert set(probe.runs().values()) == {1}


def test_a_redis_that_is_full_ends_no_worker_and_repeats_nothing(
    probe: Probe, broker: Broker
) -> None:
    """A claim that Redis refuses (out of memory, disk full, a replica) used to end the process."""
    probe.send("t0", 3.0)
    probe.worker("w1")
    probe.wait_started(1)
    broker.client.config_set("maxmemory-policy", "noeviction")
    broker.client.config_set("maxmemory", 1)
    time.sleep(2 * LEASE)
    assert probe.workers["w1"].poll() is None
    assert probe.log("w1").count("Redis refuses to hand out messages") == 1
    cut_connections(broker.client)
    time.sleep(1.0)
    broker.client.config_set("maxmemory", 0)
    probe.send("after")
    probe.wait_ended(2)
    assert wait_for(broker.is_empty)
    assert set(probe.runs().values()) == {1}


def test_what_runs_still_counts_after_a_reconnect(probe: Probe, broker: Broker) -> None:
    """celery 10346, 10383: reservations are lost on reconnect, and the worker takes too much."""
    for number in range(6):
        probe.send(f"t{number}", 4.0, key=float(number))
    probe.worker(concurrency=2)
    probe.wait_started(2)
    cut_connections(broker.client)
    time.sleep(2.0)
    assert (broker.held(), broker.waiting()) == (2, 4)
    probe.wait_ended(6)
    assert wait_for(broker.is_empty)
    assert set(probe.runs().values()) == {1}


def test_workers_consume_again_after_redis_restarts(
    probe: Probe, broker: Broker, server: EmbeddedRedis
) -> None:
    """celery 8030, 8091, 10205, 10502: connected, but consuming no more. kombu 2561 ends it."""
    probe.worker("w1", concurrency=2, queues="sql,hexgen.ask")
    probe.send("running", 5.0)
    probe.wait_started(1)
    server.restart(crash=True)
    probe.send("sorted")
    probe.send("list", queue="hexgen.ask")
    probe.wait_ended(3, 40.0)
    server.restart()
    probe.send("sorted-again")
    probe.send("list-again", queue="hexgen.ask")
    probe.wait_ended(5, 40.0)
    assert wait_for(broker.is_empty)
    assert set(probe.runs().values()) == {1}


def test_a_pause_longer_than_a_lease_repeats_nothing(
    probe: Probe, broker: Broker, server: EmbeddedRedis
) -> None:
    probe.worker("w1", concurrency=2)
    probe.worker("w2", concurrency=2)
    probe.send("running", 6.0)
    probe.wait_started(1)
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    time.sleep(2 * LEASE)
    os.kill(server.pid, signal.SIGCONT)
    probe.wait_ended(1)
    assert wait_for(broker.is_empty)
    assert probe.runs() == {"running": 1}


def test_what_a_killed_worker_held_runs_elsewhere_within_the_lease(
    probe: Probe, broker: Broker
) -> None:
    """celery 4354, 7950: a popped task is lost."""
    probe.send("sorted", 30.0, key=1.0)
    probe.send("list", 30.0, queue="hexgen.ask")
    probe.worker("w1", queues="sql,hexgen.ask", concurrency=2)
    probe.wait_started(2)
    probe.worker("w2", queues="sql,hexgen.ask", concurrency=2)
    probe.kill("w1")
    killed = time.time()
    probe.wait_started(4)
    assert sorted(probe.names("redelivered")) == ["list", "sorted"]
    assert max(line.at for line in probe.lines()) - killed < LEASE + 2.0


def test_a_killed_process_at_each_fault_point_loses_nothing(probe: Probe, broker: Broker) -> None:
    for point in ("after-claim", "before-ack"):
        for queue in ("sql", "hexgen.ask"):
            probe.send(f"{point} {queue}".replace(" ", "/"), queue=queue)
        doomed = probe.worker(
            point, queues="sql,hexgen.ask", environment={"HEXGEN_FAULTS": f"{point}=1"}, ready=False
        )
        assert doomed.wait(30) == -signal.SIGKILL
    probe.worker("w1", queues="sql,hexgen.ask")
    probe.wait_ended(4)
    assert wait_for(broker.is_empty, 3 * LEASE)


def test_a_message_that_kills_its_workers_becomes_a_dead_letter(
    probe: Probe, broker: Broker
) -> None:
    probe.conf["broker_transport_options"] = {"lease_seconds": 1.0, "max_deliveries": 2}
    task_id = probe.send("poison")
    doom = {"HEXGEN_FAULTS": "after-claim=1"}
    for name in ("d1", "d2"):
        assert probe.worker(name, environment=doom, ready=False).wait(30) == -signal.SIGKILL
        wait_for(lambda: broker.held() == 1)
        if name == "d1":
            probe.worker("idle", queues="hexgen.ask")
            wait_for(lambda: broker.waiting() == 1)
    (dead,) = wait_for(broker.inspector.dead_letters)
    assert dead.task_id == task_id
    assert "ended 2 times" in dead.cause
    assert broker.held() == broker.waiting() == 0


def test_a_warm_shutdown_finishes_what_runs_and_leaves_the_rest(
    probe: Probe, broker: Broker
) -> None:
    """celery 3802: a finished late-ack task is run again. celery 4354: a popped one is lost."""
    for number in range(6):
        probe.send(f"t{number}", 2.0, key=float(number))
    probe.send("scheduled", countdown=60)
    probe.worker(concurrency=2)
    probe.wait_started(2)
    time.sleep(0.5)
    probe.stop()
    assert sorted(probe.names("end")) == ["t0", "t1"]
    assert (broker.held(), broker.waiting()) == (0, 5)
    probe.worker("w2", concurrency=4)
    probe.wait_ended(6)
    assert {probe.runs()[f"t{number}"] for number in range(6)} == {1}


def test_an_idle_worker_ends_at_once(probe: Probe, broker: Broker) -> None:
    probe.worker(queues="sql,hexgen.ask")
    assert probe.stop() < 5.0
    assert broker.held() == 0


@pytest.mark.parametrize("signals", [(signal.SIGTERM, signal.SIGQUIT), (signal.SIGQUIT,)])
def test_a_cold_shutdown_hands_back_at_once(
    probe: Probe, broker: Broker, signals: tuple[int, ...]
) -> None:
    """kombu 305: messages vanish on SIGTERM."""
    probe.send("sorted", 60.0, key=1.0)
    probe.send("list", 60.0, queue="hexgen.ask")
    probe.worker(queues="sql,hexgen.ask", concurrency=2, pool="custom")
    probe.wait_started(2)
    for number in signals:
        probe.workers["w1"].send_signal(number)
        time.sleep(0.3)
    wait_for(lambda: broker.held() == 0, 30.0)
    assert broker.waiting() + broker.waiting("hexgen.ask") == 2
    assert probe.workers["w1"].wait(30) != 0
    assert probe.names("end") == []


def test_a_soft_shutdown_waits_and_then_hands_back(probe: Probe, broker: Broker) -> None:
    probe.conf.update(worker_soft_shutdown_timeout=1.5)
    probe.send("short", 1.0, key=1.0)
    probe.send("long", 8.0, key=2.0)
    probe.worker(concurrency=2, pool="custom", environment={"REMAP_SIGTERM": "SIGQUIT"})
    probe.wait_started(2)
    probe.workers["w1"].send_signal(signal.SIGTERM)
    wait_for(lambda: broker.held() == 0, 6.0)
    assert probe.names("end") == ["short"]
    assert broker.waiting() == 1
