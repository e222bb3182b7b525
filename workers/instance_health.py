"""Whether an instance can serve, told from its requests first and from probes second. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from hexgen_celery.instances import InstanceState

PROBED = frozenset({InstanceState.STARTING, InstanceState.SUSPECT, InstanceState.DOWN})


@dataclass(frozen=True, slots=True)
class HealthRules:
    """When trust ends.

    `trust_seconds`: so long after a token or a completion nothing but failing requests counts
    against the server; one that fails has the server looked at, and then it must answer.
    `failures`: so many in a row make even a server suspect that was seen to work lately. `probes`:
    so many failing probes in a row make a suspect one down.
    """

    trust_seconds: float = 10.0
    failures: int = 3
    probes: int = 2


class InstanceHealth:
    """The state machine of one instance. Times are seconds of any one clock.

    A slow answer is never a failure: only requests that could not reach the server or broke off
    are, so that overload does not take a healthy server out of use. `stalled`: it is suspect for
    nothing but its silence, which any token ends.
    """

    def __init__(self, rules: HealthRules | None = None) -> None:
        self._rules = rules or HealthRules()
        self._progress_at = float("-inf")
        self._failures = 0
        self._failed_probes = 0
        self.stalled = False
        self.state = InstanceState.STARTING
        self.reason = "no request was completed yet"

    @property
    def wants_probe(self) -> bool:
        """Whether a completed request must decide if it can be used."""
        return self.state in PROBED

    def trusted(self, now: float) -> bool:
        """Whether it was seen to work so lately that a failing request may be the request's own."""
        return now - self._progress_at <= self._rules.trust_seconds

    def wants_check(self, now: float) -> bool:
        """Whether a ready server should be asked if it is there."""
        doubted = self._failures > 0 or not self.trusted(now)
        return self.state is InstanceState.READY and doubted

    def progressed(self, now: float) -> None:
        """A request got a token or its end."""
        self._failures = 0
        self.heard(now)

    def heard(self, at: float) -> None:
        """The last token of any request came at `at`."""
        if at > self._progress_at:
            self._progress_at = at
            if self.stalled:
                self._become(InstanceState.READY, "")

    def silent(self, reason: str) -> None:
        """Requests run, and none has had a token for longer than a slow server honestly takes."""
        if self.state is InstanceState.READY:
            self._become(InstanceState.SUSPECT, reason)
            self.stalled = True

    def failed(self, reason: str, now: float) -> None:
        """A request could not be served for the server's sake."""
        self._failures += 1
        if self.state is not InstanceState.READY:
            return
        if self._failures >= self._rules.failures or not self.trusted(now):
            self._become(InstanceState.SUSPECT, reason)

    def checked(self, trouble: str, now: float) -> None:
        """A ready server was asked whether it is there; `trouble` is empty when it is."""
        if trouble and self.wants_check(now):
            self._become(InstanceState.SUSPECT, trouble)

    def probed(self, trouble: str, now: float) -> None:
        """A small request was completed, or not."""
        if not self.wants_probe:
            return
        if not trouble:
            self.progressed(now)
            self._become(InstanceState.READY, "")
            return
        self._failed_probes += 1
        gone = self.stalled or self._failed_probes >= self._rules.probes
        starting = self.state is InstanceState.STARTING
        state = InstanceState.DOWN if gone and not starting else self.state
        self._become(state, trouble)

    def refuse(self, reason: str) -> None:
        """The server is not what its pool says; this may be mended, so probes go on."""
        self._become(InstanceState.DOWN, reason)

    def drain(self) -> None:
        """Take nothing more."""
        self._become(InstanceState.DRAINING, "draining")

    def resume(self) -> None:
        """Serve again, once a probe says so."""
        if self.state is InstanceState.DRAINING:
            self._become(InstanceState.STARTING, "to be probed")

    def _become(self, state: InstanceState, reason: str) -> None:
        if state is not self.state:
            self._failures = 0
            self.stalled = False
            self._failed_probes = self._failed_probes if state in PROBED else 0
        self.state, self.reason = state, reason
