"""What a cancel stops, and what it leaves alone."""

from __future__ import annotations

import pytest

from hexgen_celery.references import RequestRef
from workers.cancellation import SHUTDOWN, InFlight
from workers.leases import LeaseKeeper

FIRST = RequestRef("w1", "candidate.1", 1)
SECOND = RequestRef("w1", "candidate.2", 1)
OTHER = RequestRef("w2", "candidate.1", 1)


@pytest.mark.parametrize(
    ("name", "stopped"),
    [
        ("w1", {FIRST, SECOND}),
        ("w1/candidate.2", {SECOND}),
        ("w1/candidate", set()),
        ("w", set()),
        ("w3", set()),
    ],
)
def test_a_cancel_stops_exactly_what_its_name_covers(name: str, stopped: set[RequestRef]) -> None:
    in_flight = InFlight()
    with (
        in_flight.track(FIRST) as first,
        in_flight.track(SECOND) as second,
        in_flight.track(OTHER) as other,
    ):
        assert in_flight.cancel(name) == len(stopped)
        assert {r.ref for r in (first, second, other) if r.token.is_set} == stopped


def test_what_has_ended_is_not_stopped() -> None:
    in_flight = InFlight()
    with in_flight.track(FIRST):
        assert in_flight.size == 1
    assert in_flight.cancel("w1") == 0
    assert in_flight.size == 0


def test_two_deliveries_of_one_attempt_are_two_entries() -> None:
    in_flight = InFlight()
    with in_flight.track(FIRST):
        with in_flight.track(FIRST):
            assert in_flight.size == 2
        assert in_flight.cancel_all(SHUTDOWN) == 1


def test_only_claimed_requests_have_leases_to_renew() -> None:
    in_flight = InFlight()
    with in_flight.track(FIRST), in_flight.track(SECOND) as claimed:
        claimed.claimed = True
        assert in_flight.claimed() == [SECOND]


class _Renewer:
    def __init__(self, lost: list[RequestRef]) -> None:
        self.lost = lost
        self.renewed: list[tuple[str, list[RequestRef]]] = []

    def renew(self, worker: str, refs: object) -> list[RequestRef]:
        assert isinstance(refs, list)
        self.renewed.append((worker, refs))
        return self.lost


def test_a_request_whose_lease_is_lost_is_stopped() -> None:
    in_flight = InFlight()
    renewer = _Renewer([FIRST])
    keeper = LeaseKeeper(renewer, "me", in_flight, lease_seconds=15)
    with in_flight.track(FIRST) as lost, in_flight.track(SECOND) as kept:
        lost.claimed = kept.claimed = True
        keeper.renew()
        assert lost.token.is_set
        assert not kept.token.is_set
    assert renewer.renewed[0][0] == "me"
    assert set(renewer.renewed[0][1]) == {FIRST, SECOND}


def test_nothing_in_flight_costs_no_call() -> None:
    renewer = _Renewer([])
    LeaseKeeper(renewer, "me", InFlight(), lease_seconds=15).renew()
    assert renewer.renewed == []
