"""What a process holds: counting, late acknowledgements, orphans, trouble with Redis."""

from __future__ import annotations

import gc
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import redis
from structlog.testing import capture_logs

from hexgen_celery.core.admission import Allowance
from hexgen_celery.core.profiles import Profile
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.profiles_io import load_profile
from hexgen_celery.settings import AdmissionSettings
from hexgen_celery.transport import process
from hexgen_celery.transport.engine_admission import engine_admission
from hexgen_celery.transport.leases import HeldLoad, LeaseKeeper, LeaseRules
from hexgen_celery.transport.messages import Claimed, Queued, Urgency
from hexgen_celery.transport.scripts import Acknowledged, SweepRules, Swept

PROFILE = "a100-80g-x1-qwen3-30b-a3b"


class Message:
    """Something that can be collected."""


class FakeScripts:
    """Notes calls; raises while `away`."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.away = False
        self.lost: list[str] = []
        self.proofs: dict[str, str] = {}

    def note(self, name: str, *arguments: Any) -> None:
        if self.away:
            raise redis.ConnectionError("away")
        self.calls.append((name, arguments))

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [arguments for called, arguments in self.calls if called == name]

    def ack(self, done: Mapping[str, str], wake_list: str = "") -> Acknowledged:
        self.note("ack", *done)
        self.proofs.update(done)
        return Acknowledged(len(done))

    def requeue(self, holder: str, tokens: Sequence[str], *, at_front: bool = True) -> int:
        self.note("requeue", *tokens)
        return len(tokens)

    def reject(self, holder: str, tokens: Sequence[str], cause: str) -> int:
        self.note("reject", *tokens, cause)
        return len(tokens)

    def renew(self, holder: str, lease: float, tokens: Sequence[str]) -> list[str]:
        self.note("renew", *tokens)
        return [token for token in tokens if token in self.lost]

    def sweep(self, rules: SweepRules) -> Swept:
        self.note("sweep")
        return Swept(extended=1)

    def first_token(self, holder: str, token: str, wake_list: str = "") -> bool:
        self.note("first_token", token, wake_list)
        return True


@pytest.fixture
def scripts() -> FakeScripts:
    return FakeScripts()


@pytest.fixture
def keeper(scripts: FakeScripts) -> LeaseKeeper:
    keeper = LeaseKeeper(redis.Redis(), "{t}:queue", LeaseRules())
    keeper.scripts = scripts  # type: ignore[assignment]
    return keeper


def claim(token: str, kv_tokens: int = 0, prefill_tokens: int = 0) -> Claimed:
    urgency = Urgency(0.0, kv_tokens=kv_tokens, prefill_tokens=prefill_tokens)
    return Claimed(Queued(token, "sql", urgency, b""))


def test_the_load_is_what_is_held(keeper: LeaseKeeper) -> None:
    keeper.hold(claim("a", 10, 8))
    keeper.hold(claim("b", 5, 4))
    assert keeper.load() == HeldLoad(2, 15, 12)
    assert keeper.first_token("a")
    assert not keeper.first_token("a"), "once is enough"
    assert not keeper.first_token("unknown")
    assert keeper.load() == HeldLoad(2, 15, 4)
    keeper.ack("a")
    assert keeper.load() == HeldLoad(1, 5, 4)


def test_an_acknowledgement_waits_for_redis_and_keeps_its_lease(
    keeper: LeaseKeeper, scripts: FakeScripts
) -> None:
    keeper.hold(claim("a"))
    scripts.away = True
    keeper.ack("a")
    with pytest.raises(redis.ConnectionError):
        keeper.tend()
    assert keeper.tokens() == ["a"]
    scripts.away = False
    keeper.tend()
    assert scripts.named("ack") == [("a",)]
    assert keeper.tokens() == []


def test_an_acknowledgement_names_the_proof_of_its_work(
    keeper: LeaseKeeper, scripts: FakeScripts
) -> None:
    keeper.hold(claim("a"))
    keeper.hold(claim("b"))
    assert keeper.prove("a", "wf:1")
    assert not keeper.prove("unknown", "wf:2")
    keeper.ack("a")
    keeper.ack("b")
    assert scripts.proofs == {"a": "wf:1", "b": ""}


def test_a_message_that_nobody_can_acknowledge_is_handed_back(
    keeper: LeaseKeeper, scripts: FakeScripts
) -> None:
    kept, dropped, done = Message(), Message(), Message()
    for token, message in (("kept", kept), ("dropped", dropped), ("done", done)):
        keeper.hold(claim(token))
        keeper.attach(token, message)
    keeper.ack("done")
    del message, dropped, done
    gc.collect()
    keeper.tend()
    assert scripts.named("requeue") == [("dropped",)]
    assert keeper.tokens() == ["kept"]
    assert kept is not None


def test_giving_up_while_redis_is_away_leaves_the_lease_to_end(
    keeper: LeaseKeeper, scripts: FakeScripts
) -> None:
    keeper.hold(claim("a"))
    keeper.hold(claim("b"))
    scripts.away = True
    keeper.requeue(["a", "not held"])
    keeper.reject("b")
    assert keeper.tokens() == []
    scripts.away = False
    keeper.tend()
    assert scripts.named("renew") == [()]


def test_the_end_of_a_process_hands_back_what_is_not_done(
    keeper: LeaseKeeper, scripts: FakeScripts
) -> None:
    assert keeper.hand_back_all() == 0
    assert not scripts.calls, "nothing held, nothing asked"
    scripts.away = True
    for token in ("a", "b"):
        keeper.hold(claim(token))
    keeper.ack("a")
    assert keeper.hand_back_all() == 0
    scripts.away = False
    assert keeper.hand_back_all() == 1
    assert scripts.named("ack") == [("a",)]
    assert scripts.named("requeue") == [("b",)]


def test_room_wakes_a_lane_that_starves(keeper: LeaseKeeper, scripts: FakeScripts) -> None:
    keeper.hold(claim("a"))
    keeper.starve("wake-list", starving=True)
    keeper.first_token("a")
    assert scripts.named("first_token") == [("a", "wake-list")]
    keeper.starve("wake-list", starving=False)
    keeper.starve("wake-list", starving=False)


def test_an_engine_admits_by_the_policies_of_core() -> None:
    profile: Profile = load_profile(PROFILE)
    admission = engine_admission(AdmissionSettings(), profile)
    idle = admission(HeldLoad())
    assert (idle.kv_tokens, idle.prefill_tokens) == (math.inf, math.inf)
    busy = admission(HeldLoad(1, 1000, 500))
    assert busy.kv_tokens < profile.kv_tokens
    assert busy.prefill_tokens < math.inf
    slots = engine_admission(
        AdmissionSettings(policy="fixed-slots", parameters={"slots": 2}), profile
    )
    assert slots(HeldLoad(running=1)).sequences == 1


@pytest.mark.parametrize(
    "settings",
    [AdmissionSettings(policy="none-such"), AdmissionSettings(parameters={"slots": 1})],
)
def test_an_unknown_admission_is_refused(settings: AdmissionSettings) -> None:
    with pytest.raises(InvalidSettings, match=r"admission|slots|none-such"):
        engine_admission(settings, load_profile(PROFILE))


def test_a_process_has_one_keeper_per_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_keepers", {})
    monkeypatch.setattr(process, "_admission", process.everything_fits)
    one = process.keeper_of("redis://a", "root", LeaseRules(), redis.Redis)
    assert process.keeper_of("redis://a", "root", LeaseRules(), redis.Redis) is one
    assert process.keeper_of("redis://b", "root", LeaseRules(), redis.Redis) is not one
    assert process.allowance(one).sequences > 1000
    process.use_admission(lambda _load: Allowance(1, 2, 3))
    assert process.allowance(one) == Allowance(1, 2, 3)
    assert process.first_token("nobody holds it") is False
    process._forget_after_fork()
    assert process.keeper_of("redis://a", "root", LeaseRules(), redis.Redis) is not one


def test_a_lost_lease_is_told_once(keeper: LeaseKeeper, scripts: FakeScripts) -> None:
    """Its work goes on for minutes, and so do the renewals."""
    keeper.hold(claim("a"))
    keeper.hold(claim("b"))
    scripts.lost = ["a"]
    with capture_logs() as logs:
        for _ in range(3):
            keeper.tend()
        scripts.lost = ["a", "b"]
        keeper.tend()
    told = [entry["tokens"] for entry in logs if entry["event"] == "leases were lost"]
    assert told == [["a"], ["b"]]
