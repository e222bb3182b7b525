"""When an instance may be sent requests."""

from __future__ import annotations

from hexgen_celery.instances import InstanceState
from workers.instance_health import HealthRules, InstanceHealth

RULES = HealthRules(trust_seconds=10.0, failures=3, probes=2)


def _ready(now: float = 0.0) -> InstanceHealth:
    health = InstanceHealth(RULES)
    health.probed("", now)
    return health


def _state(health: InstanceHealth) -> InstanceState:
    return health.state


def test_only_a_completed_request_makes_it_ready() -> None:
    health = InstanceHealth(RULES)
    assert (health.state, health.wants_probe) == (InstanceState.STARTING, True)
    for _ in range(5):
        health.probed("connection refused", 0.0)
    assert _state(health) is InstanceState.STARTING
    assert health.reason == "connection refused"
    health.probed("", 1.0)
    assert (health.state, health.wants_probe, health.reason) == (InstanceState.READY, False, "")


def test_a_slow_server_that_answers_stays_ready_whatever_its_checks_say() -> None:
    health = _ready()
    for second in range(0, 100, 9):
        health.progressed(second)
        health.checked("timed out", second + 5)
        health.failed("one broke off", second + 6)
    assert _state(health) is InstanceState.READY


def test_failures_in_a_row_make_even_a_trusted_one_suspect() -> None:
    health = _ready()
    health.failed("reset", 1.0)
    health.failed("reset", 2.0)
    assert _state(health) is InstanceState.READY
    health.failed("reset", 3.0)
    assert (health.state, health.reason) == (InstanceState.SUSPECT, "reset")


def test_a_failure_has_even_a_trusted_one_looked_at() -> None:
    health = _ready()
    assert not health.wants_check(1.0)
    health.failed("broke off", 1.0)
    assert health.wants_check(1.0)
    health.checked("", 1.1)
    assert _state(health) is InstanceState.READY
    health.checked("refused", 1.2)
    assert (health.state, health.reason) == (InstanceState.SUSPECT, "refused")


def test_one_that_is_heard_of_is_not_looked_at() -> None:
    health = _ready()
    health.failed("broke off", 1.0)
    health.progressed(2.0)
    assert not health.wants_check(11.0)
    assert health.wants_check(13.0)


def test_one_failure_or_check_is_enough_where_nothing_was_heard_lately() -> None:
    health = _ready()
    health.failed("refused", 11.0)
    assert _state(health) is InstanceState.SUSPECT
    health = _ready()
    health.checked("refused", 11.0)
    assert _state(health) is InstanceState.SUSPECT


def test_a_suspect_is_probed_and_is_back_or_down() -> None:
    health = _ready()
    health.failed("refused", 11.0)
    health.probed("", 12.0)
    assert _state(health) is InstanceState.READY
    health.failed("refused", 30.0)
    health.probed("refused", 31.0)
    assert _state(health) is InstanceState.SUSPECT
    health.probed("refused", 32.0)
    assert _state(health) is InstanceState.DOWN
    health.probed("", 33.0)
    assert _state(health) is InstanceState.READY


def test_a_refused_server_is_down_with_the_reason_until_it_is_mended() -> None:
    health = InstanceHealth(RULES)
    health.refuse("serves another model")
    assert (health.state, health.reason) == (InstanceState.DOWN, "serves another model")
    health.probed("", 1.0)
    assert _state(health) is InstanceState.READY


def test_a_draining_one_is_not_probed_and_comes_back_through_a_probe() -> None:
    health = _ready()
    health.drain()
    health.failed("refused", 50.0)
    health.probed("", 51.0)
    assert (health.state, health.wants_probe) == (InstanceState.DRAINING, False)
    health.resume()
    assert _state(health) is InstanceState.STARTING


def test_a_silent_server_is_suspect_and_any_token_makes_it_ready_again() -> None:
    health = _ready()
    health.silent("no token for 60 s")
    assert (health.state, health.reason) == (InstanceState.SUSPECT, "no token for 60 s")
    health.heard(0.0)
    assert _state(health) is InstanceState.SUSPECT
    health.heard(61.0)
    assert (health.state, health.wants_probe) == (InstanceState.READY, False)
    assert health.trusted(70.0)


def test_a_silent_server_that_completes_no_probe_is_down_at_once() -> None:
    health = _ready()
    health.silent("no token for 60 s")
    health.probed("no token within 60 s", 120.0)
    assert _state(health) is InstanceState.DOWN
    health.heard(121.0)
    assert _state(health) is InstanceState.DOWN, "only a probe brings it back"
    health.probed("", 122.0)
    assert _state(health) is InstanceState.READY


def test_a_token_does_not_end_a_suspicion_with_another_reason() -> None:
    health = _ready()
    health.failed("refused", 11.0)
    health.heard(12.0)
    health.silent("no token for 60 s")
    assert (health.state, health.reason) == (InstanceState.SUSPECT, "refused")
