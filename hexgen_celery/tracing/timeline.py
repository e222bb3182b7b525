"""The events of one question as spans: what each attempt at a request waited for and did. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hexgen_celery.workflows.definition import Json

ENDINGS = ("done", "failed", "retried", "dropped")
NUMBERS = ("input_tokens", "output_tokens", "cached_tokens", "budget", "debit")
LATEST_START = "latest_start"
_ABOUT = frozenset({"t", "event", "node", "attempt", "workflow", "queue"})


@dataclass(slots=True)
class AttemptSpan:
    """One attempt at one request. Times in Unix seconds, None where it did not get that far.

    `reasons`: what the router chose its queue by, the latest start in seconds since the submission.
    `numbers`: tokens (input, output, cached), and budget and debit in seconds, where recorded.
    """

    node: str
    attempt: int
    stage: str = ""
    step: str = ""
    queue: str = ""
    where: str = ""
    ready_at: float | None = None
    sent_at: float | None = None
    claimed_at: float | None = None
    first_token_at: float | None = None
    ended_at: float | None = None
    ending: str = ""
    cause: str = ""
    reasons: dict[str, Any] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)

    @property
    def waited(self) -> float | None:
        """Seconds from ready to claimed."""
        return _between(self.ready_at, self.claimed_at)

    @property
    def worked(self) -> float | None:
        """Seconds from claimed to its end."""
        return _between(self.claimed_at, self.ended_at)

    def phases(self, now: float) -> list[tuple[str, float, float]]:
        """`wait`, `prefill` and `decode` with their begin and end; `work` where no token was seen.

        What still goes on ends `now`.
        """
        end = self.ended_at if self.ended_at is not None else now
        begun = self.claimed_at if self.claimed_at is not None else end
        spans = [("wait", self.ready_at, begun)]
        if self.claimed_at is not None and self.first_token_at is not None:
            spans += [
                ("prefill", self.claimed_at, self.first_token_at),
                ("decode", self.first_token_at, end),
            ]
        elif self.claimed_at is not None:
            spans.append(("work", self.claimed_at, end))
        return [(name, start, stop) for name, start, stop in spans if start is not None]


@dataclass(frozen=True, slots=True)
class Timeline:
    """One question from its submission to `end`, the last event (Unix seconds)."""

    submitted_at: float
    deadline: float | None
    end: float
    status: str
    facts: Mapping[str, Any]
    attempts: tuple[AttemptSpan, ...]


def timeline_of(events: Iterable[Json]) -> Timeline:
    """The timeline of a question's events (at least one, oldest first)."""
    rows = list(events)
    first = next((event for event in rows if event["event"] == "started"), rows[0])
    last = rows[-1]
    ended = next((event for event in rows if event["event"] == "finished"), None)
    submitted_at = float(first["submitted_at"] if "submitted_at" in first else first["t"])
    spans: dict[tuple[str, int], AttemptSpan] = {}
    for event in rows:
        if "node" in event:
            key = (str(event["node"]), int(event["attempt"]))
            _note(spans.setdefault(key, AttemptSpan(*key)), event, submitted_at)
    return Timeline(
        submitted_at=submitted_at,
        deadline=first.get("deadline"),
        end=float(last["t"]),
        status=str(ended["status"]) if ended else "running",
        facts={name: value for name, value in first.items() if name not in ("t", "event")},
        attempts=tuple(spans.values()),
    )


def _note(span: AttemptSpan, event: Json, submitted_at: float) -> None:
    kind, at = str(event["event"]), float(event["t"])
    span.stage = str(event.get("stage") or span.stage)
    span.step = str(event.get("step") or span.step)
    span.queue = str(event.get("queue") or span.queue)
    span.where = str(event.get("instance") or event.get("worker") or span.where)
    if kind == "ready":
        span.ready_at = at
    elif kind == "sent":
        span.sent_at = at
        span.reasons = _reasons(event, submitted_at)
    elif kind == "claimed":
        span.claimed_at = at
    elif kind == "first_token":
        span.first_token_at = at
    elif kind in ENDINGS:
        span.ended_at, span.ending = at, kind
        span.cause = str(event.get("message") or event.get("code") or "")
        span.numbers = {name: event[name] for name in NUMBERS if _is_number(event.get(name))}


def _reasons(event: Json, submitted_at: float) -> dict[str, Any]:
    reasons = {name: value for name, value in event.items() if name not in _ABOUT}
    if LATEST_START in reasons:
        reasons[LATEST_START] = round(float(reasons[LATEST_START]) - submitted_at, 3)
    return reasons


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _between(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else end - start
