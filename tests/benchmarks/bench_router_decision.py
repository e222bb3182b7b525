"""One routing decision: the score alone, and the whole decision with Redis; hot α; idle traffic."""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import redis

from hexgen_celery.core.dispatch import build_dispatch
from hexgen_celery.core.prefix import PrefixPart
from hexgen_celery.core.views import ClusterView, InstanceView, RequestView
from hexgen_celery.instances import InstanceDirectory, InstanceRecord
from hexgen_celery.keys import Keys
from hexgen_celery.outbox import OutboxEntry
from hexgen_celery.policies import PolicyChoice, PolicyStore
from hexgen_celery.profiles_io import load_profile
from hexgen_celery.references import RequestRef
from hexgen_celery.router import LiveRouter
from hexgen_celery.settings import Settings, WorkerSettings
from hexgen_celery.workflows.definition import LlmCall, NodeKind, NodeSpec, PartRef, Submission
from tests.benchmarks.rows import Row, measured
from workers.embedded_redis import EmbeddedRedis

PROFILES = ("a100-80g-x1-qwen3-30b-a3b", "l40s-x1-qwen3-30b-a3b", "a6000-x1-qwen3-30b-a3b")
REPEATS = 5
DECISIONS = 300
IDLE_SECONDS = 3.0
BARS_US = {8: 300.0, 64: 1000.0}
# Nobody renews the announcements while a slow machine measures.
SETTINGS = Settings(workers=WorkerSettings(dead_after_seconds=3600.0))


def run() -> list[Row]:
    """All rows; a few seconds."""
    with (
        tempfile.TemporaryDirectory(prefix="hexgen-bench-") as directory,
        EmbeddedRedis(Path(directory)) as server,
        redis.Redis.from_url(server.url, decode_responses=True) as client,
    ):
        whole = [_whole_decision(client, count) for count in BARS_US]
        return [_score(), *whole, _round_trip(client), _hot_alpha(client), _idle_traffic(client)]


def _score() -> Row:
    policy = build_dispatch("alpha", random.Random(0))
    cluster = ClusterView(0.0, [_busy_view(number) for number in range(8)])
    request = _request()
    seconds = _medians(lambda: policy.choose(request, cluster))
    return measured("router.score_8_pools", [s * 1e6 for s in seconds], "µs", bar=30.0)


def _whole_decision(client: redis.Redis, instances: int) -> Row:
    keys = Keys(f"decide{instances}")
    router = LiveRouter(client, keys, SETTINGS, random.Random(0))
    _announce(client, keys, instances)
    entries = iter([_entry(number) for number in range(DECISIONS * (REPEATS + 1))])
    seconds = _medians(lambda: router.place(next(entries)))
    name = f"router.decision_with_redis_{instances}_instances"
    return measured(name, [s * 1e6 for s in seconds], "µs", bar=BARS_US[instances])


def _round_trip(client: redis.Redis) -> Row:
    """What asking Redis costs here when it has nothing to do; every decision asks once."""
    seconds = _medians(client.ping)
    return measured("router.redis_round_trip", [s * 1e6 for s in seconds], "µs")


def _hot_alpha(client: redis.Redis) -> Row:
    """Seconds from writing another policy until a router that is in use decides by it."""
    keys = Keys("hot")
    router = LiveRouter(client, keys, SETTINGS, random.Random(0))
    _announce(client, keys, 2)
    store, waits = PolicyStore(client, keys), []
    for number in range(REPEATS):
        wanted = "fastest" if number % 2 == 0 else "least-outstanding"
        store.set(PolicyChoice(wanted))
        began = time.perf_counter()
        while router.place(_entry(number)).reasons["policy"] != wanted:
            time.sleep(0.001)
        waits.append(time.perf_counter() - began)
    return measured("router.alpha_reload_seconds", waits, "s", bar=2.0)


def _idle_traffic(client: redis.Redis) -> Row:
    """Commands that a router sends while it decides nothing, after it was in use."""
    keys = Keys("idle")
    router = LiveRouter(client, keys, SETTINGS, random.Random(0))
    _announce(client, keys, 2)
    router.place(_entry(0))
    time.sleep(0.2)
    before = _commands(client)
    time.sleep(IDLE_SECONDS)
    # Asking for the count is a command itself.
    extra = _commands(client) - before - 1
    return measured("router.idle_redis_commands", [extra], "commands", bar=0.0)


def _commands(client: redis.Redis) -> int:
    return int(cast("dict[str, int]", client.info("stats"))["total_commands_processed"])


def _announce(client: redis.Redis, keys: Keys, count: int) -> None:
    """Instances of eight pools with something running and waiting on each."""
    directory = InstanceDirectory(client, keys)
    for number in range(count):
        profile = PROFILES[number % len(PROFILES)]
        pool = f"gpu.t{number % 3}.p{number % 8}"
        name = f"i{number:02}"
        directory.announce(
            InstanceRecord(name, pool, "t", "m", profile, "http://1", f"llm-{name}@h", 64)
        )
        work = {"prefill_tokens": 900, "output_tokens": 1200, "context_tokens": 40_000}
        for scope, state in ((f"instance/{name}", "running"), (f"{pool}.{name}", "waiting")):
            for measure, value in {**work, state: 3}.items():
                client.hset(keys.load, f"{scope}:{measure}", str(value))
            if state == "running":
                client.hset(keys.load, f"{pool}.{name}:running", "3")


def _busy_view(number: int) -> InstanceView:
    profile = load_profile(PROFILES[number % len(PROFILES)])
    return InstanceView(
        instance=f"i{number}",
        pool=f"gpu.t.p{number}",
        gpu="t",
        profile=profile,
        running=3,
        waiting=3,
        outstanding_prefill_tokens=900,
        outstanding_output_tokens=1200,
        running_context_tokens=40_000,
    )


def _request() -> RequestView:
    prefix = (PrefixPart("template", 9000), PrefixPart("schema", 2000))
    fields = ("r", "w", "candidate_generation", "candidate", "db", "t", "m", 12_000, 680.0)
    return RequestView(*fields, prefix, 0.0, 60.0, 1.0, 20.0, 12.0)


def _entry(number: int) -> OutboxEntry:
    """Candidates of one question after another, over eleven databases."""
    parts = (PartRef("template", 9000), PartRef(f"schema{number % 11}", 2000))
    call = LlmCall(parts, "q", 12_000, 680.0, 1024)
    spec = NodeSpec(
        f"candidate.{number % 3}",
        NodeKind.LLM,
        "candidate_generation",
        "candidate",
        call,
    )
    workflow = f"w{number // 3}"
    now = time.time()
    submission = Submission(workflow, "text_to_sql", "q", "db", 60.0, now, now + 60.0)
    return OutboxEntry(RequestRef(workflow, spec.id, 1), spec, submission)


def _medians(decide: Callable[[], object]) -> list[float]:
    """Median seconds of a call, once per repeat, after some calls to warm up."""
    for _ in range(DECISIONS // 5):
        decide()
    return [_median(decide) for _ in range(REPEATS)]


def _median(decide: Callable[[], object]) -> float:
    spent = []
    for _ in range(DECISIONS):
        began = time.perf_counter()
        decide()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent)
