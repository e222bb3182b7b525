"""The cluster view that dispatch decides by."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hexgen_celery.core.prefix import PrefixPart
from hexgen_celery.instances import InstanceRecord, InstanceState
from hexgen_celery.live_cluster import (
    LiveCluster,
    Profiles,
    Wanted,
    instance_record,
    scaled_profile,
    usable_records,
)
from hexgen_celery.live_snapshot import Snapshot
from hexgen_celery.prefix_caches import PlacementNote, PrefixCaches
from hexgen_celery.profiles_io import load_profile, shipped_profiles
from hexgen_celery.request_urgency import Work
from hexgen_celery.settings import EmulatorSettings, InstanceSettings, PoolSettings, Settings

PROFILE = "a100-80g-x1-qwen3-30b-a3b"
FIRST = InstanceRecord(
    "a1", "gpu.a100.x", "a100", "m", PROFILE, "http://1", "llm-a1@h", 64, beat=100.0
)
SECOND = replace(FIRST, name="a2")
OTHER = replace(
    FIRST, name="b1", queue="gpu.l40s.y", gpu="l40s", model="n", max_model_len=100, tags=("eu",)
)
PREFIX = (PrefixPart("template", 1600), PrefixPart("schema", 800))


@pytest.mark.parametrize(
    ("announced", "wanted", "usable"),
    [
        ([FIRST, OTHER], Wanted(), ["a1", "b1"]),
        ([FIRST, OTHER], Wanted("n"), ["b1"]),
        ([FIRST, OTHER], Wanted("unknown"), []),
        ([FIRST, OTHER], Wanted(tags=frozenset({"eu"})), ["b1"]),
        ([replace(FIRST, beat=80.0), SECOND], Wanted(), ["a2"]),
        *[
            ([replace(FIRST, state=state), SECOND], Wanted(), ["a2"])
            for state in InstanceState
            if state is not InstanceState.READY
        ],
        ([], Wanted(), []),
    ],
)
def test_which_instances_may_be_used(
    announced: list[InstanceRecord], wanted: Wanted, usable: list[str]
) -> None:
    records = usable_records(announced, now=105.0, dead_after_seconds=10.0, wanted=wanted)
    assert [record.name for record in records] == usable


def test_a_profile_that_could_not_be_read_is_tried_again_later(tmp_path: Path) -> None:
    now = 0.0
    profiles = Profiles(now=lambda: now)
    path = tmp_path / "mine.toml"
    record = replace(FIRST, profile=str(path))
    assert "there is no profile" in profiles.trouble(record)
    path.write_text((shipped_profiles() / f"{PROFILE}.toml").read_text(encoding="utf-8"))
    now = 29.0
    assert "there is no profile" in profiles.trouble(record)
    now = 31.0
    assert profiles.trouble(record) == ""
    assert profiles.of(record) == load_profile(PROFILE)


def test_an_emulated_instance_announces_its_speed() -> None:
    pool = PoolSettings(
        name="x",
        gpu="a100",
        model="m",
        profile=PROFILE,
        concurrency=3,
        instances=(InstanceSettings(name="a1", engine="emulated", url="http://1"),),
    )
    settings = Settings(pools=(pool,), emulator=EmulatorSettings(speed=20.0))
    record = instance_record(settings, pool, pool.instances[0])
    assert record == replace(FIRST, worker="", beat=0.0, concurrency=3, speed=20.0)
    external = InstanceSettings(name="a1", url="http://1")
    assert instance_record(settings, pool, external).speed == 1.0


def test_a_faster_profile_takes_less_time_for_everything() -> None:
    profile = load_profile(PROFILE)
    fast = scaled_profile(profile, 10.0)
    times = (5000.0, 6000.0, 300.0, 8.0)
    assert fast.execution_seconds(*times) == pytest.approx(profile.execution_seconds(*times) / 10)
    assert fast.kv_tokens == profile.kv_tokens


def _cluster() -> tuple[LiveCluster, PrefixCaches]:
    caches = PrefixCaches("me")
    return LiveCluster(Profiles(), caches), caches


def _trusting(_instance: str) -> float:
    return 1.0


def test_what_waits_in_a_pool_is_shared_and_what_waits_for_an_instance_is_not() -> None:
    load = {
        "gpu.a100.x:waiting": "4",
        "gpu.a100.x:prefill_tokens": "800",
        "gpu.a100.x:output_tokens": "400",
        "gpu.a100.x:prefill_us": "2000000",
        "gpu.a100.x:decode_us": "4000000",
        "gpu.a100.x.a1:waiting": "1",
        "gpu.a100.x.a1:prefill_tokens": "50",
        "gpu.a100.x.a1:output_tokens": "7",
        "gpu.a100.x.a1:decode_us": "500000",
        "instance/a1:running": "2",
        "instance/a1:prefill_tokens": "200",
        "instance/a1:output_tokens": "100",
        "instance/a1:context_tokens": "9000",
        "instance/a2:running": "1",
    }
    cluster, _ = _cluster()
    snapshot = Snapshot(1.0, (), load, {})
    first, second, other = cluster.views([FIRST, SECOND, OTHER], snapshot, _trusting)
    assert (first.running, first.waiting) == (2, 1 + 2)
    assert first.outstanding_prefill_tokens == 200 + 50 + 800 / 2
    assert first.outstanding_output_tokens == 100 + 7 + 400 / 2
    assert first.running_output_tokens == 100
    assert first.running_context_tokens == 9000
    assert first.waiting_exec_seconds == 0.5 + 3.0
    assert (second.running, second.waiting) == (1, 2)
    assert second.outstanding_prefill_tokens == 400
    assert (other.running, other.waiting, other.outstanding_prefill_tokens) == (0, 0, 0)


def test_a_request_placed_just_now_counts_before_the_ledger_shows_it() -> None:
    cluster, _ = _cluster()
    (view,) = cluster.views([FIRST], Snapshot(1.0, (), {}, {}), _trusting)
    cluster.placed(view, 1.0, Work(300, 20, 200_000, 300_000))
    (soon,) = cluster.views([FIRST], Snapshot(1.01, (), {}, {}), _trusting)
    assert (soon.waiting, soon.outstanding_prefill_tokens) == (1, 300)
    assert soon.outstanding_output_tokens == 20
    (later,) = cluster.views([FIRST], Snapshot(1.03, (), {}, {}), _trusting)
    assert (later.waiting, later.outstanding_prefill_tokens) == (0, 0)
    assert later.assigned_seconds == 0.5


def test_caches_follow_the_notes_of_other_routers() -> None:
    cluster, caches = _cluster()
    cluster.views([FIRST, SECOND], Snapshot(1.0, (), {}, {}), _trusting)
    note = PlacementNote("other", "a1", PREFIX, 3000, 100)
    assert PlacementNote.from_json(note.to_json()) == note
    caches.read([note.to_json(), replace(note, router="me", instance="a2").to_json()])
    assert caches.cached_tokens("a1", PREFIX) == 2400
    assert caches.cached_tokens("a1", PREFIX[:1]) == 1600
    assert caches.cached_tokens("a2", PREFIX) == 0
    assert caches.cached_tokens("unknown", PREFIX) == 0


def test_a_cache_is_believed_as_far_as_it_proved_true() -> None:
    cluster, caches = _cluster()
    snapshot = Snapshot(1.0, (), {}, {})
    cluster.views([FIRST], snapshot, _trusting)
    caches.read([PlacementNote("other", "a1", PREFIX, 3000, 100).to_json()])
    (view,) = cluster.views([FIRST], snapshot, lambda _instance: 0.5)
    assert view.cached_tokens(PREFIX) == 1200


def test_a_server_that_was_away_has_nothing_cached() -> None:
    cluster, caches = _cluster()
    snapshot = Snapshot(1.0, (), {}, {})
    cluster.views([FIRST], snapshot, _trusting)
    caches.read([PlacementNote("other", "a1", PREFIX, 3000, 100).to_json()])
    cluster.views([replace(FIRST, epoch=5.0)], snapshot, _trusting)
    assert caches.cached_tokens("a1", PREFIX) == 0


def test_names_that_never_come_back_are_forgotten() -> None:
    cluster, caches = _cluster()
    for number in range(LiveCluster.REMEMBERED + 10):
        cluster.follow((replace(FIRST, name=f"n{number}"),))
        caches.read([PlacementNote("other", f"n{number}", PREFIX, 3000, 100).to_json()])
    kept = [n for n in range(LiveCluster.REMEMBERED + 10) if caches.cached_tokens(f"n{n}", PREFIX)]
    assert 0 < len(kept) <= LiveCluster.REMEMBERED
    assert LiveCluster.REMEMBERED + 9 in kept


def test_an_instance_that_comes_back_under_its_name_is_still_known() -> None:
    cluster, caches = _cluster()
    cluster.follow((FIRST, SECOND))
    caches.read([PlacementNote("other", "a1", PREFIX, 3000, 100).to_json()])
    cluster.follow((SECOND,))
    cluster.follow((replace(FIRST, beat=200.0), SECOND))
    assert caches.cached_tokens("a1", PREFIX) > 0
