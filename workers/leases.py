"""One thread that keeps the leases of everything this process works on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import structlog

from hexgen_celery.references import RequestRef
from workers.cancellation import InFlight
from workers.periodic import Periodic

log = structlog.get_logger(__name__)

RENEWALS_PER_LEASE = 5


class Renewer(Protocol):
    """The part of the coordinator that leases need."""

    def renew(self, worker: str, refs: Iterable[RequestRef]) -> list[RequestRef]:
        """Extend the leases; return the requests that must stop."""
        ...


class LeaseKeeper:
    """Renews `RENEWALS_PER_LEASE` times per lease, and stops requests that are no longer ours."""

    def __init__(
        self, renewer: Renewer, worker: str, in_flight: InFlight, lease_seconds: float
    ) -> None:
        self._renewer = renewer
        self._worker = worker
        self._in_flight = in_flight
        self._periodic = Periodic("leases", self.renew, lease_seconds / RENEWALS_PER_LEASE)

    def start(self) -> None:
        """Begin to renew."""
        self._periodic.start()

    def stop(self) -> None:
        """Stop renewing; returns when the thread has ended."""
        self._periodic.stop()

    def renew(self) -> None:
        """Renew every lease once."""
        refs = self._in_flight.claimed()
        if not refs:
            return
        lost = self._renewer.renew(self._worker, refs)
        if self._in_flight.cancel_refs(lost):
            log.info("requests are no longer wanted", requests=[str(ref) for ref in lost])
