"""The load of the queue benchmarks: stage messages as the coordinator sends them, over Kombu.

`python -m tests.benchmarks.queue_load URL TRANSPORT CYCLES` is one process of the cycle benchmark:
it says `ready`, waits for a line, works, and answers with its seconds as JSON.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import kombu
import redis
from celery import Celery

from hexgen_celery.transport.messages import HEADER, Urgency, outgoing
from hexgen_celery.transport.scripts import queue_script
from tests.integration.transport.probe import ROOT
from tests.integration.transport.probe_app import URGENCY

QUEUES = {"urgency": "gpu.a100.bench", "kombu": "bench"}
TRANSPORTS = tuple(QUEUES)
BLOCK = 50
FILL_BATCH = 1000
HORIZON_SECONDS = 100_000.0


@dataclass(frozen=True, slots=True)
class Seconds:
    """What one process spent on its cycles."""

    put: float
    get: float

    @property
    def cycle(self) -> float:
        return self.put + self.get


class Stage:
    """Messages of one stage, each with its own ids and urgency."""

    def __init__(self, seed: int) -> None:
        self._celery = Celery("bench", set_as_current=False)
        self._random = random.Random(seed)

    def message(self, number: int) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        """Body, headers and properties of a stage task's message, as Celery builds them."""
        workflow = f"{number:08x}-1111-4222-8333-444444444444"
        built = self._celery.amqp.as_task_v2(
            f"{workflow}/candidate.1/1",
            "hexgen.candidate_generation",
            kwargs={"workflow_id": workflow, "node_id": "candidate.1", "attempt": 1},
            root_id=workflow,
            parent_id=workflow,
            ignore_result=True,
        )
        return built.body, dict(built.headers), dict(built.properties)

    def urgency(self) -> Urgency:
        now = time.time()
        key = now + self._random.random() * HORIZON_SECONDS
        return Urgency(key, key + HORIZON_SECONDS, now, 12_000, 11_000, 500_000, 20_000_000)


@contextmanager
def connected(url: str, transport: str) -> Iterator[kombu.Connection]:
    """A connection with the transport's default options; ours with those of the application."""
    ours = {"body_encoding": "utf-8", "max_connections": 50}
    with kombu.Connection(
        url,
        transport=URGENCY if transport == "urgency" else None,
        transport_options=ours if transport == "urgency" else {},
    ) as connection:
        yield connection


def cycles(url: str, transport: str, count: int, seed: int) -> Seconds:
    """Put, claim and acknowledge `count` messages, a block after the other."""
    stage, put, get = Stage(seed), 0.0, 0.0
    queue = QUEUES[transport]
    received: list[Any] = []

    def receive(message: kombu.Message) -> None:
        received.append(message)
        message.ack()

    with (
        connected(url, transport) as sending,
        connected(url, transport) as receiving,
        sending.Producer() as producer,
        receiving.Consumer(kombu.Queue(queue), on_message=receive, prefetch_count=1),
    ):
        for first in range(0, count, BLOCK):
            began = time.perf_counter()
            for number in range(first, first + BLOCK):
                _publish(producer, stage, transport, queue, seed * count + number)
            between = time.perf_counter()
            put += between - began
            while len(received) < first + BLOCK:
                receiving.drain_events(timeout=10)
            get += time.perf_counter() - between
    return Seconds(put, get)


def _publish(
    producer: kombu.Producer, stage: Stage, transport: str, queue: str, number: int
) -> None:
    body, headers, properties = stage.message(number)
    if transport == "urgency":
        headers[HEADER] = stage.urgency().to_header()
    producer.publish(
        body, routing_key=queue, exchange="", headers=headers, serializer="json", **properties
    )


def fill(url: str, transport: str, count: int) -> None:
    """Let `count` messages wait, as they would wait when sent one by one."""
    stage, queue = Stage(0), QUEUES[transport]
    template = _prepared(url, transport, stage)
    script = queue_script("put")
    with redis.Redis.from_url(url) as client:
        client.script_load(script.text)
        for first in range(0, count, FILL_BATCH):
            with client.pipeline(transaction=False) as pipeline:
                for number in range(first, min(count, first + FILL_BATCH)):
                    text = template.replace("00000000-1111", f"{number + 2**31:08x}-1111")
                    if transport == "kombu":
                        pipeline.lpush(queue, text)
                        continue
                    message = json.loads(text)
                    message["headers"][HEADER] = stage.urgency().to_header()
                    sent = outgoing(queue, message, 0.0)
                    pipeline.evalsha(script.sha, 1, ROOT, sent.token, sent.value)
                pipeline.execute()


def _prepared(url: str, transport: str, stage: Stage) -> str:
    """One message as the transport's channel would write it."""
    body, headers, properties = stage.message(0)
    with connected(url, transport) as connection:
        channel = connection.default_channel
        message = channel.prepare_message(
            json.dumps(body),
            content_type="application/json",
            content_encoding="utf-8",
            headers=headers,
            properties={**properties, "delivery_mode": 2},
        )
        channel._inplace_augment_message(message, "", QUEUES[transport])
    return json.dumps(message)


def in_processes(url: str, transport: str, count: int, processes: int) -> Seconds:
    """The same cycles in several processes at once; the mean of what each of them spent."""
    command = [sys.executable, "-m", "tests.benchmarks.queue_load", url, transport, str(count)]
    children = [
        subprocess.Popen(
            [*command, str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for seed in range(1, processes + 1)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == "ready"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    answers = [child.communicate()[0].splitlines()[-1] for child in children]
    spent = [Seconds(**json.loads(answer)) for answer in answers]
    return Seconds(
        sum(one.put for one in spent) / processes, sum(one.get for one in spent) / processes
    )


def main(arguments: Sequence[str]) -> None:
    """One process of `in_processes`."""
    url, transport, count, seed = arguments
    print("ready", flush=True)
    sys.stdin.readline()
    spent = cycles(url, transport, int(count), int(seed))
    print(json.dumps({"put": spent.put, "get": spent.get}))


if __name__ == "__main__":
    main(sys.argv[1:])
