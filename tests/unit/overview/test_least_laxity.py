"""The laxity of a question, told from its last events."""

from __future__ import annotations

from typing import Any

from hexgen_celery.overview.urgent import least_laxity

NOW = 100.0


def _event(event: str, node: str = "c-1", t: float = 90.0, attempt: int = 1, **facts: Any) -> Any:
    return {"event": event, "node": node, "attempt": attempt, "t": t, **facts}


def test_of_a_request_that_waits_it_shrinks_with_time() -> None:
    events = [_event("ready"), _event("sent", latest_start=104.0)]
    assert least_laxity(events, NOW) == 4.0
    assert least_laxity(events, NOW + 5) == -1.0


def test_of_a_request_that_runs_it_is_what_was_left_at_its_claim() -> None:
    events = [_event("sent", latest_start=104.0), _event("claimed", t=98.0)]
    assert least_laxity(events, NOW) == 6.0
    assert least_laxity(events, NOW + 50) == 6.0


def test_a_claim_that_overtook_its_sending_counts_all_the_same() -> None:
    events = [_event("claimed", t=98.0), _event("sent", latest_start=104.0)]
    assert least_laxity(events, NOW) == 6.0


def test_the_least_of_several_counts_and_ended_ones_do_not() -> None:
    events = [
        _event("sent", "c-1", latest_start=101.0),
        _event("sent", "c-2", latest_start=103.0),
        _event("sent", "c-3", latest_start=109.0),
        _event("done", "c-1"),
    ]
    assert least_laxity(events, NOW) == 3.0


def test_a_lost_attempt_is_replaced_by_its_successor() -> None:
    events = [
        _event("sent", latest_start=101.0),
        _event("retried"),
        _event("sent", attempt=2, latest_start=105.0),
    ]
    assert least_laxity(events, NOW) == 5.0


def test_without_a_request_under_way_nothing_is_known() -> None:
    assert least_laxity([], NOW) is None
    assert least_laxity([{"event": "started", "t": 1.0}, _event("ready")], NOW) is None
