"""A deployment without workers: real Redis, router, publisher, coordinator. Tests play workers."""

from __future__ import annotations

import random
from typing import Any

import redis

from hexgen_celery.app import create_app, use_route
from hexgen_celery.coordination import Coordinator, RequestRef
from hexgen_celery.instances import InstanceDirectory, InstanceRecord
from hexgen_celery.keys import Keys
from hexgen_celery.learning import Learner
from hexgen_celery.publisher import CeleryPublisher
from hexgen_celery.router import LiveRouter
from hexgen_celery.settings import Settings
from hexgen_celery.transport.scripts import QueueScripts
from hexgen_celery.upkeep.rescoring import Rescorer
from hexgen_celery.upkeep.stranded import Rescuer
from hexgen_celery.workflows.definition import Json
from tests.integration.coordination.support import Dag, make_submission

FAST, SLOW = "a100-80g-x1-qwen3-30b-a3b", "a6000-x1-qwen3-30b-a3b"
RESULT = {"text": "t", "input_tokens": 100, "output_tokens": 40, "cached_tokens": 0, "seconds": 0.5}


def instance(name: str, gpu: str = "a100", **values: Any) -> InstanceRecord:
    """An instance of pool `x` of that GPU, ready unless said otherwise."""
    profile = FAST if gpu == "a100" else SLOW
    return InstanceRecord(
        name,
        f"gpu.{gpu}.x",
        gpu,
        **{
            "model": "m",
            "profile": profile,
            "url": "http://1",
            "worker": f"{name}@h",
            "concurrency": 64,
            **values,
        },
    )


class LiveWorld:
    """One deployment on the test's Redis."""

    def __init__(self, client: redis.Redis, keys: Keys, settings: Settings) -> None:
        self.client, self.keys, self.settings = client, keys, settings
        self.binary = redis.Redis.from_url(settings.broker.url.get_secret_value())
        self.directory = InstanceDirectory(client, keys)
        self._routers: list[LiveRouter] = []
        self.router = self.another_router(random.Random(0))
        self.app = create_app(settings)
        use_route(self.app, self.router.route)
        publisher = CeleryPublisher(self.app, self.router)
        self.coordinator = Coordinator(client, keys, settings, {"dag": Dag()}, publisher)
        self.rescuer = Rescuer(client, self.binary, keys, settings, self.router)
        self.rescorer = Rescorer(client, self.binary, keys, self.router)
        self.learner = Learner(client, keys, "learner-1")
        self.queues = QueueScripts(self.binary, keys.queue_root)

    def another_router(self, rng: random.Random | None = None) -> LiveRouter:
        """A router like that of another process, closed with this world."""
        router = LiveRouter(self.client, self.keys, self.settings, rng)
        self._routers.append(router)
        return router

    def close(self) -> None:
        for router in self._routers:
            router.close()
        self.app.close()
        self.binary.close()

    def ask(self, slo: float = 600.0, **options: Any) -> str:
        """Begin a question with one request, `a`."""
        submission = make_submission(slo=slo, nodes={"a": []}, **options)
        self.coordinator.start(submission)
        return submission.workflow_id

    def queue_of(self, workflow_id: str, node_id: str = "a") -> str:
        return str(self.coordinator.record(workflow_id).nodes[node_id].record.get("queue", ""))

    def sent(self, workflow_id: str) -> list[Json]:
        events = self.coordinator.trace(workflow_id)
        return [event for event in events if event["event"] == "sent"]

    def work(self, workflow_id: str, node_id: str = "a", **result: Any) -> None:
        """Claim and complete a request where it waits."""
        queue = self.queue_of(workflow_id, node_id)
        ref = RequestRef(workflow_id, node_id, 1)
        name = queue.rpartition(".")[2]
        assert self.coordinator.claim(ref, worker="w", instance=name, queue=queue) is not None
        self.coordinator.first_token(ref)
        self.coordinator.complete(ref, {**RESULT, **result})

    def waiting(self, queue: str) -> int:
        return len(self.queues.peek(queue, 1000))
