"""The events of a question as a timeline, on the terminal and as a page."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from hexgen_celery.cli.trace import bar
from hexgen_celery.tracing.page import timeline_page
from hexgen_celery.tracing.timeline import timeline_of

EVENTS: list[dict[str, Any]] = [
    {"t": 100.2, "event": "started", "submitted_at": 100.0, "deadline": 105.0, "tenant": "acme"},
    {"t": 100.2, "event": "ready", "node": "a", "attempt": 1, "stage": "s", "step": "link"},
    {
        "t": 100.3,
        "event": "sent",
        "node": "a",
        "attempt": 1,
        "queue": "gpu.x.p",
        "score": 1.25,
        "latest_start": 103.5,
    },
    {"t": 101.0, "event": "claimed", "node": "a", "attempt": 1, "instance": "i1"},
    {"t": 102.0, "event": "retried", "node": "a", "attempt": 1, "message": "it <died>"},
    {"t": 102.0, "event": "ready", "node": "a", "attempt": 2},
    {"t": 103.0, "event": "claimed", "node": "a", "attempt": 2, "instance": "i2"},
    {"t": 104.0, "event": "first_token", "node": "a", "attempt": 2, "instance": "i2"},
    {
        "t": 106.0,
        "event": "done",
        "node": "a",
        "attempt": 2,
        "input_tokens": 70,
        "output_tokens": 9,
        "budget": 2.5,
        "debit": 1.5,
    },
    {"t": 106.0, "event": "finished", "status": "answered"},
]


def test_each_attempt_is_a_span_of_its_own() -> None:
    first, second = timeline_of(EVENTS).attempts
    assert (first.where, first.ending, first.cause) == ("i1", "retried", "it <died>")
    assert first.reasons == {"score": 1.25, "latest_start": 3.5}
    assert abs((first.waited or 0) - 0.8) < 1e-9
    assert first.phases(106.0)[-1] == ("work", 101.0, 102.0)
    assert second.phases(106.0) == [
        ("wait", 102.0, 103.0),
        ("prefill", 103.0, 104.0),
        ("decode", 104.0, 106.0),
    ]
    assert second.numbers["debit"] == 1.5


def test_a_running_question_ends_with_its_last_event() -> None:
    timeline = timeline_of(EVENTS[:4])
    assert timeline.status == "running"
    assert timeline.end == 101.0
    assert timeline.attempts[0].phases(timeline.end)[-1] == ("work", 101.0, 101.0)


def test_the_bar_shows_the_phases_in_their_places() -> None:
    timeline = timeline_of(EVENTS)
    assert bar(timeline, timeline.attempts[1], 6) == "  ·▒██"
    assert len(bar(timeline, timeline.attempts[0])) == 40


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_page_needs_nothing_else_and_escapes_what_it_shows() -> None:
    page = timeline_page("q<1>", timeline_of(EVENTS))
    seen = _Tags()
    seen.feed(page)
    assert seen.links == []
    assert "script" not in seen.tags
    assert seen.tags.count("rect") == 5
    assert "it &lt;died&gt;" in page
    assert "q&lt;1&gt;" in page
    assert "1.000 s too late" in page
    assert "score 1.25" in page
    assert "attempt 2" in page
