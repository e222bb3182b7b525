"""A deployment whose questions end when a test says so."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import Any

import redis

from hexgen_celery.coordination import Coordinator
from hexgen_celery.core.clock import ManualClock
from hexgen_celery.instances import InstanceDirectory, InstanceRecord
from hexgen_celery.keys import Keys
from hexgen_celery.live_tuning import LiveTuner, TuningStore
from hexgen_celery.policies import PolicyStore
from hexgen_celery.settings import Settings, TunerSettings
from hexgen_celery.workflows.definition import Definition, LlmCall
from hexgen_celery.workflows.output_lengths import TabledLengths
from hexgen_celery.workflows.trace import Trace
from tests.integration.coordination.support import MemoryBroker, make_submission

LINE: dict[str, Any] = {
    "question": "q",
    "database": "shop",
    "requests": [
        {"id": 0, "stage": "schema_linking", "step": "link", "after": [], "input_tokens": 4000,
         "output_tokens": 30, "template_tokens": 2000, "schema_tokens": 1000},
        {"id": 1, "stage": "candidate_generation", "step": "candidate", "after": [0],
         "input_tokens": 6000, "output_tokens": 200, "template_tokens": 3000,
         "schema_tokens": 1000},
    ],
}  # fmt: skip
PROFILE = "a100-80g-x1-qwen3-30b-a3b"


class Ground:
    """A deployment with one instance, whose questions take as long as a test says."""

    def __init__(self, client: redis.Redis, keys: Keys, settings: Settings) -> None:
        self.client, self.keys = client, keys
        self.settings = settings.model_copy(
            update={"tuner": TunerSettings(least_questions=40, interval_seconds=10)}
        )
        self.broker = MemoryBroker()
        definitions: dict[str, Definition] = {"trace": Trace(TabledLengths())}
        self.coordinator = Coordinator(client, keys, self.settings, definitions, self.broker)
        record = InstanceRecord("i1", "gpu.a.x", "a", "m", PROFILE, "http://1", "w@h", 64)
        InstanceDirectory(client, keys).announce(record)
        self.clock = ManualClock(time.time())
        self.policies = PolicyStore(client, keys)
        self.entries = TuningStore(client, keys)
        self.rng = random.Random(1)

    def tuner(self, simulator: Any) -> LiveTuner:
        return LiveTuner(self.client, self.keys, self.settings, self.clock, simulator)

    def answer(
        self,
        count: int = 40,
        *,
        seconds: float = 1.0,
        every: float = 0.05,
        tenant: str = "default",
        model: str = "",
    ) -> None:
        """`count` questions, one `every` so many seconds, the last of which took `seconds`."""
        now = time.time()
        for number in range(count):
            at = now - seconds - (count - number) * every * self.rng.uniform(0.9, 1.1)
            options = {"model": model} if model else {}
            asked = replace(
                make_submission("trace", slo=600, line=LINE, **options),
                submitted_at=at,
                deadline=at + 600,
                tenant=tenant,
            )
            self.coordinator.start(asked)
            while self.broker.messages:
                self._serve()

    def _serve(self) -> None:
        entry = self.broker.take()
        assert self.coordinator.claim(entry.ref, worker="w", instance="i1") is not None
        self.coordinator.first_token(entry.ref)
        assert isinstance(entry.spec.call, LlmCall)
        tokens = {
            "input_tokens": entry.spec.call.input_tokens,
            "output_tokens": entry.spec.call.max_tokens,
        }
        self.coordinator.complete(entry.ref, {"text": "", **tokens})

    def forget(self) -> None:
        """Begin a new window."""
        self.client.delete(self.keys.events)
