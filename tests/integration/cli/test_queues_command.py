"""`hexgen queues`: lengths, the most urgent requests, dead letters."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from hexgen_celery.keys import Keys
from hexgen_celery.redis_client import connect
from hexgen_celery.transport.messages import HEADER, Urgency

from .conftest import RunningCluster

pytestmark = pytest.mark.integration

NOBODY = "gpu.h100.nobody"


def wait_for(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    until = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < until
        time.sleep(0.05)
    return value


def test_the_most_urgent_requests_are_shown_with_their_laxity(
    cluster: RunningCluster, shown: Any
) -> None:
    now = time.time()
    for number, laxity in enumerate((300.0, 100.0, -50.0)):
        header = Urgency(now + laxity, since=now, prefill_us=1_000_000).to_header()
        cluster.client.app.send_task(
            "hexgen.other", task_id=f"r{number}", queue=NOBODY, headers={HEADER: header}
        )
    assert cluster.hexgen("queues", "--urgent", "2", "--json") == 0
    (queue,) = [entry for entry in shown.json if entry["name"] == NOBODY]
    assert (queue["waiting"], queue["running"], queue["prefill_seconds"]) == (3, 0, 3.0)
    assert [request["task_id"] for request in queue["most_urgent"]] == ["r2", "r1"]
    assert 80 < queue["most_urgent"][1]["laxity"] < 101
    assert cluster.hexgen("queues") == 0
    text = shown.text
    assert "most urgent" in text
    assert "r2" in text
    with cluster.client.app.connection_for_write() as connection:
        assert connection.default_channel.queue_purge(NOBODY) == 3


def test_dead_letters_are_shown_put_back_and_removed(cluster: RunningCluster, shown: Any) -> None:
    sent = cluster.client.app.send_task("hexgen.nonsense", queue="sql")

    def letters() -> Any:
        assert cluster.hexgen("queues", "dead", "--json") == 0
        return [letter for letter in shown.json if letter["task_id"] == sent.id]

    (letter,) = wait_for(letters)
    assert (letter["queue"], letter["task"]) == ("sql", "hexgen.nonsense")
    assert cluster.hexgen("queues", "dead") == 0
    text = shown.text
    assert "refused by a worker" in text
    assert re.search(r"^\d+ dead letters$", text, re.MULTILINE)
    with connect(cluster.client.settings) as redis:
        dropped = f"{Keys(cluster.client.settings.broker.prefix).queue_root}:dead:dropped"
        redis.set(dropped, 7)
        assert cluster.hexgen("queues", "dead") == 0
        redis.delete(dropped)
    assert "7 older ones were dropped" in " ".join(shown.text.split())
    assert cluster.hexgen("queues", "redrive", letter["token"]) == 0
    assert "1 put back" in shown.text
    wait_for(letters)
    assert cluster.hexgen("queues", "drop", "--all") == 0
    assert not letters()


def test_a_token_that_no_dead_letter_has_is_told(cluster: RunningCluster) -> None:
    assert cluster.hexgen("queues", "redrive", "nobodys") == 2
    assert cluster.hexgen("queues", "drop", "nobodys") == 2


def test_nothing_is_put_back_without_saying_what(cluster: RunningCluster) -> None:
    assert cluster.hexgen("queues", "redrive") != 0
