"""What a run writes down while it goes."""

from __future__ import annotations

from dataclasses import dataclass, field

from hexgen_celery.simulator.plan import CHAT
from hexgen_celery.simulator.population import DrawnQuestion
from hexgen_celery.simulator.server import Attempt


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One finished request. Times in simulated seconds, sizes in tokens."""

    request_id: str
    workflow_id: str
    stage: str
    step: str
    instance: str
    attempt: int
    ready: float
    claimed: float
    first_token: float
    finished: float
    input_tokens: int
    output_tokens: int
    cached_tokens: int


@dataclass(slots=True)
class Observer:
    """Collects arrivals, ends, backlog samples and busy seconds.

    The two `probe_times` bound the window in which throughput and utilisation are measured.
    """

    probe_times: tuple[float, float]
    keep_requests: bool = False
    ends: dict[int, float] = field(default_factory=dict)
    backlog: list[tuple[float, int]] = field(default_factory=list)
    busy: list[dict[str, float]] = field(default_factory=list)
    requests: list[RequestRecord] = field(default_factory=list)
    finished_requests: int = 0
    _open_questions: int = 0

    def arrived(self, drawn: DrawnQuestion, now: float) -> None:
        """A question or chat request came in."""
        if drawn.slo_class == CHAT:
            return
        if drawn.measured:
            self.backlog.append((now, self._open_questions))
        self._open_questions += 1

    def answered(self, drawn: DrawnQuestion, now: float) -> None:
        """All requests of a question are done."""
        self.ends[drawn.number] = now
        if drawn.slo_class != CHAT:
            self._open_questions -= 1

    def probe(self, _now: float, busy_seconds: dict[str, float]) -> None:
        """Note how long each instance has been busy."""
        self.busy.append(busy_seconds)

    def request_finished(self, attempt: Attempt, now: float, cached_tokens: int) -> None:
        """One request is done."""
        self.finished_requests += 1
        if not self.keep_requests:
            return
        view, server = attempt.view, attempt.server
        node = attempt.question.plan.nodes[attempt.node].request
        self.requests.append(
            RequestRecord(
                request_id=view.request_id,
                workflow_id=view.workflow_id,
                stage=view.stage,
                step=view.step,
                instance=server.name if server else "",
                attempt=attempt.number,
                ready=view.ready_at,
                claimed=attempt.claimed_at,
                first_token=now if attempt.first_token_at is None else attempt.first_token_at,
                finished=now,
                input_tokens=node.input_tokens,
                output_tokens=node.output_tokens,
                cached_tokens=cached_tokens,
            )
        )
