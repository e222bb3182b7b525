"""What `hexgen doctor` finds in the figures of a deployment."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from hexgen_celery.health.deployment import check_deployment, check_strangers
from hexgen_celery.health.outcome import Check, Verdict
from hexgen_celery.health.store import check_store
from hexgen_celery.instances import InstanceRecord, InstanceState
from hexgen_celery.metrics.endpoint import Endpoint
from hexgen_celery.overview.counts import (
    ClusterCounts,
    InstanceCounts,
    OutboxCounts,
    PoolCounts,
)
from hexgen_celery.processes import ProcessRecord
from hexgen_celery.settings import InstanceSettings, MetricsSettings, PoolSettings, Settings
from hexgen_celery.store.engine import open_store
from hexgen_celery.store.schema import migrate
from hexgen_celery.store.stream import LATELY_SECONDS, Backlog

QUEUE = "gpu.a100.x"


def _instance(name: str, state: InstanceState = InstanceState.READY) -> InstanceCounts:
    record = InstanceRecord(
        name, QUEUE, "a100", "m", "p", "http://a", f"llm-{name}@h", 8, str(state), reason="why"
    )
    return InstanceCounts(record, state, 0, 0, 0, 1.0)


def _process(kind: str, name: str = "", version: str = "1", prints: str = "f") -> ProcessRecord:
    return ProcessRecord(f"{name or kind}@h", kind, version, prints)


HEALTHY = ClusterCounts(
    now=100.0,
    instances=(_instance("a1"), _instance("a2")),
    pools=(PoolCounts("sql"), PoolCounts(QUEUE)),
    processes=tuple(map(_process, ("control", "llm", "recorder", "sql"))),
    timers_age_seconds=0.2,
)
DECLARED = Settings(
    pools=(
        PoolSettings(
            name="x",
            gpu="a100",
            model="m",
            profile="p",
            instances=tuple(InstanceSettings(name=n, url="http://a") for n in ("a1", "a2")),
        ),
    )
)


def _found(counts: ClusterCounts) -> dict[str, Check]:
    return {check.name: check for check in check_deployment(DECLARED, counts)}


def test_a_healthy_deployment_passes() -> None:
    assert {check.verdict for check in _found(HEALTHY).values()} == {Verdict.OK}


@pytest.mark.parametrize(
    ("counts", "name", "verdict"),
    [
        (replace(HEALTHY, timers_age_seconds=60.0), "timers", Verdict.FAILED),
        (replace(HEALTHY, timers_age_seconds=None), "timers", Verdict.FAILED),
        (
            replace(HEALTHY, processes=(*HEALTHY.processes, _process("sql", "old", "0"))),
            "worker versions",
            Verdict.WARNING,
        ),
        (
            replace(HEALTHY, processes=(*HEALTHY.processes, _process("sql", "odd", "1", "g"))),
            "worker settings",
            Verdict.WARNING,
        ),
        (replace(HEALTHY, instances=(_instance("a1"),)), "worker of a2", Verdict.WARNING),
        (
            replace(HEALTHY, instances=(_instance("a1"), _instance("a2", InstanceState.DOWN))),
            "state of a2",
            Verdict.WARNING,
        ),
        (
            replace(
                HEALTHY,
                instances=tuple(_instance(n, InstanceState.SUSPECT) for n in ("a1", "a2")),
            ),
            "state of a1",
            Verdict.FAILED,
        ),
        (
            replace(HEALTHY, pools=(*HEALTHY.pools, PoolCounts("gpu.b.y", waiting=3))),
            "queue gpu.b.y",
            Verdict.FAILED,
        ),
        (
            replace(
                HEALTHY,
                pools=(PoolCounts("sql", waiting=2),),
                processes=(_process("control"), _process("llm")),
            ),
            "queue sql",
            Verdict.FAILED,
        ),
        (
            replace(HEALTHY, submissions_waiting=1, processes=(_process("llm"),)),
            "queue hexgen.ask",
            Verdict.FAILED,
        ),
        (replace(HEALTHY, outbox=OutboxCounts(4, 4, 30.0)), "outbox", Verdict.FAILED),
        (replace(HEALTHY, leases_overdue=2), "leases", Verdict.WARNING),
        (replace(HEALTHY, dead_letters=2), "dead letters", Verdict.WARNING),
    ],
)
def test_each_trouble_has_its_verdict_and_a_way_to_mend_it(
    counts: ClusterCounts, name: str, verdict: Verdict
) -> None:
    check = _found(counts)[name]
    assert check.verdict is verdict
    assert check.hint


def test_an_empty_pool_is_told_until_an_instance_joined_it() -> None:
    declared = DECLARED.pools[0].model_copy(update={"instances": ()})
    empty = DECLARED.model_copy(update={"pools": (declared,)})
    found = {check.name: check for check in check_deployment(empty, replace(HEALTHY, instances=()))}
    assert found[f"pool {QUEUE}"].verdict is Verdict.WARNING
    assert f"--pool {QUEUE} --url URL" in found[f"pool {QUEUE}"].hint
    joined = {check.verdict for check in check_deployment(empty, HEALTHY)}
    assert joined == {Verdict.OK}


def test_who_differs_from_the_others_is_named() -> None:
    odd = _process("sql", "odd", "1", "other")
    check = _found(replace(HEALTHY, processes=(*HEALTHY.processes, odd)))["worker settings"]
    assert "odd@h (other)" in check.detail
    assert "control@h" not in check.detail


def test_an_instance_that_fell_silent_says_for_how_long() -> None:
    silent = replace(_instance("a2", InstanceState.DOWN), beat_age_seconds=42.0)
    silent = replace(silent, record=replace(silent.record, state="ready"))
    check = _found(replace(HEALTHY, instances=(_instance("a1"), silent)))["state of a2"]
    assert "not heard of for 42 s" in check.detail


def test_endpoints_are_asked() -> None:
    running = Endpoint(MetricsSettings(enabled=True, port=0), CollectorRegistry())
    running.start()
    try:
        shown = replace(_process("sql"), endpoint=running.address)
        assert _found(replace(HEALTHY, processes=(shown,)))["metrics"].verdict is Verdict.OK
    finally:
        running.stop()
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        gone = replace(_process("sql"), endpoint=f"127.0.0.1:{silent.getsockname()[1]}")
        check = _found(replace(HEALTHY, processes=(gone,)))["metrics"]
    assert check.verdict is Verdict.WARNING
    assert "sql@h" in check.detail


def _store_checks(settings: Settings, counts: ClusterCounts) -> dict[str, Check]:
    return {check.name: check for check in check_store(settings, counts)}


def test_a_store_that_is_behind_or_lost_something_is_told(settings: Settings) -> None:
    behind = replace(HEALTHY, store=Backlog(9, 300.0, 5, 2, 120.0))
    found = _store_checks(settings, behind)
    assert found["recorder"].verdict is Verdict.WARNING
    assert "300 s" in found["recorder"].detail
    assert found["store losses"].detail == "5 dropped unrecorded (the last 2 min ago), 2 set aside"
    assert found["store"].verdict is Verdict.WARNING, "there is no file yet"


@pytest.mark.parametrize(
    ("backlog", "told"),
    [
        (Backlog(dropped=5, dropped_seconds=LATELY_SECONDS), True),
        (Backlog(dropped=5, dropped_seconds=LATELY_SECONDS + 1), False),
        (Backlog(dropped=5), False),
        (Backlog(aside=1), True),
        (Backlog(), False),
    ],
)
def test_losses_are_told_until_an_hour_after_the_last_or_something_is_done(
    settings: Settings, backlog: Backlog, told: bool
) -> None:
    found = _store_checks(settings, replace(HEALTHY, store=backlog))
    assert ("store losses" in found) is told


def test_the_version_of_the_store_is_compared(settings: Settings) -> None:
    settings.up.directory.mkdir(parents=True)
    engine = open_store(settings, writing=True)
    migrate(engine)
    assert _store_checks(settings, HEALTHY)["store"].verdict is Verdict.OK
    migrate(engine, "base")
    engine.dispose()
    outdated = _store_checks(settings, HEALTHY)["store"]
    assert outdated.verdict is Verdict.FAILED
    assert outdated.hint == "run `hexgen store migrate`"


def test_a_store_that_cannot_be_reached_is_told(settings: Settings) -> None:
    url = type(settings.broker.url)("postgresql://hexgen@127.0.0.1:1/hexgen")
    away = settings.model_copy(update={"store": settings.store.model_copy(update={"url": url})})
    check = _store_checks(away, HEALTHY)["store"]
    assert check.verdict is Verdict.WARNING
    assert check.hint


def test_without_a_recorder_what_waits_is_told(settings: Settings) -> None:
    found = _store_checks(settings, replace(HEALTHY, processes=(_process("control"),)))
    assert found["recorder"].verdict is Verdict.WARNING
    assert "none runs" in found["recorder"].detail


def test_a_store_that_is_switched_off_is_not_looked_at() -> None:
    off = DECLARED.model_copy(
        update={"store": DECLARED.store.model_copy(update={"enabled": False})}
    )
    assert _store_checks(off, HEALTHY) == {}


@pytest.mark.parametrize(
    ("answering", "strangers"),
    [
        (["control@h", "sql@h"], ""),
        (["control@h", "llm-b1@h", "sql@h"], "llm-b1@h"),
        (["control@h", "control@h"], "control@h"),
    ],
)
def test_workers_of_another_deployment_are_told(answering: list[str], strangers: str) -> None:
    found = list(check_strangers(answering, HEALTHY.processes))
    assert [check.detail.partition(": ")[2] for check in found] == (
        [strangers] if strangers else []
    )
    assert all(check.verdict is Verdict.WARNING for check in found)


@pytest.mark.parametrize(
    ("answering", "told"),
    [
        (["llm-a1@h", "llm-a1@h"], "two workers feed a1"),
        (["llm-a1@h", "llm-a1@other"], "two workers feed a1"),
        (["llm-a1@h", "llm-a1@h", "llm-a1@other"], "3 workers feed a1"),
        (["llm-a1@h", "llm-a2@h"], ""),
    ],
)
def test_workers_that_feed_one_instance_together_are_told(answering: list[str], told: str) -> None:
    processes = [ProcessRecord(name, "llm", "1", "f") for name in set(answering)]
    found = list(check_strangers(answering, processes))
    assert [check.detail.partition(",")[0] for check in found] == ([told] if told else [])
    assert all(check.verdict is Verdict.WARNING and check.hint for check in found)


def test_workers_that_announce_nothing_are_no_strangers() -> None:
    assert list(check_strangers(["control@h"], ())) == []
