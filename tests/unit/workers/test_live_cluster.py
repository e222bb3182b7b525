"""The cluster view that dispatch decides by."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hexgen_celery.instances import InstanceRecord
from hexgen_celery.ledger import ledger_view
from hexgen_celery.live_cluster import cluster_view, declared_records, usable_records
from hexgen_celery.profiles_io import load_profile
from hexgen_celery.settings import InstanceSettings, PoolSettings, Settings

PROFILE = "a100-80g-x1-qwen3-30b-a3b"
FIRST = InstanceRecord(
    "a1", "gpu.a100.x", "a100", "m", PROFILE, "http://1", "llm-a1@h", 64, beat=100.0
)
SECOND = replace(FIRST, name="a2")
OTHER = replace(FIRST, name="b1", queue="gpu.l40s.y", gpu="l40s", model="n")


def _names(records: list[InstanceRecord]) -> list[str]:
    return [record.name for record in records]


@pytest.mark.parametrize(
    ("announced", "declared", "model", "usable"),
    [
        ([FIRST, OTHER], [], "", ["a1", "b1"]),
        ([FIRST, OTHER], [], "n", ["b1"]),
        ([FIRST, OTHER], [], "unknown", []),
        ([replace(FIRST, beat=80.0), SECOND], [], "", ["a2"]),
        ([replace(FIRST, ready=False), SECOND], [], "", ["a2"]),
        ([], [FIRST, OTHER], "", ["a1", "b1"]),
        ([FIRST], [FIRST, OTHER], "", ["a1"]),
        ([replace(FIRST, beat=80.0)], [FIRST, OTHER], "", ["b1"]),
        ([replace(FIRST, beat=80.0)], [FIRST], "", []),
    ],
)
def test_which_instances_may_be_used(
    announced: list[InstanceRecord], declared: list[InstanceRecord], model: str, usable: list[str]
) -> None:
    records = usable_records(announced, declared, now=105.0, dead_after_seconds=10.0, model=model)
    assert _names(records) == usable


def test_declared_instances_come_from_the_configuration() -> None:
    pool = PoolSettings(
        name="x",
        gpu="a100",
        model="m",
        profile=PROFILE,
        concurrency=3,
        instances=(InstanceSettings(name="a1", url="http://1"),),
    )
    (record,) = declared_records(Settings(pools=(pool,)))
    assert record == replace(FIRST, worker="", beat=0.0, concurrency=3)


def test_one_request_that_waits_is_seen_however_many_instances_share_it() -> None:
    """Rounded away, it would make a pool with a backlog look like one without."""
    ledger = ledger_view({"gpu.a100.x:waiting": "1"})
    view = cluster_view(
        [FIRST, SECOND, OTHER],
        ledger,
        {PROFILE: load_profile(PROFILE)},
        now=1.0,
        assigned_seconds={},
    )
    assert [each.waiting for each in view.instances] == [1, 1, 0]


def test_what_waits_in_a_pool_is_shared_by_its_instances() -> None:
    ledger = ledger_view(
        {
            "gpu.a100.x:waiting": "4",
            "gpu.a100.x:running": "3",
            "gpu.a100.x:prefill_tokens": "1000",
            "gpu.a100.x:output_tokens": "500",
            "gpu.a100.x:prefill_us": "3000000",
            "gpu.a100.x:decode_us": "5000000",
            "instance/a1:running": "2",
            "instance/a1:prefill_tokens": "200",
            "instance/a1:output_tokens": "100",
            "instance/a1:decode_us": "1000000",
            "instance/a2:running": "1",
            "instance/a2:decode_us": "1000000",
        }
    )
    view = cluster_view(
        [FIRST, SECOND, OTHER],
        ledger,
        {PROFILE: load_profile(PROFILE)},
        now=1.0,
        assigned_seconds={"a2": 9.0},
    )
    first, second, other = view.instances
    assert (first.running, first.waiting) == (2, 2)
    assert first.outstanding_prefill_tokens == 200 + 800 / 2
    assert first.outstanding_output_tokens == 100 + 400 / 2
    assert first.running_output_tokens == 100
    assert first.waiting_exec_seconds == 3.0
    assert (second.running, second.waiting, second.assigned_seconds) == (1, 2, 9.0)
    assert (other.running, other.waiting, other.outstanding_prefill_tokens) == (0, 0, 0)
