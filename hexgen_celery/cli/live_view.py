"""A run as it happens: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from hexgen_celery.cli.output import table
from hexgen_celery.cli.progress import Progress, QuestionProgress
from hexgen_celery.closing import Closing

_REFRESH_PER_SECOND = 4
_HEADING_LINES = 9
_QUESTION_CHARS = 44
_LINE_SECONDS = 2.0


class View(Closing):
    """Shows a run's progress until it is closed, which leaves the terminal as it was."""

    @abstractmethod
    def show(self, ended: list[QuestionProgress]) -> None:
        """Show the present state; `ended` are the questions that have ended since the last call."""


class LiveTable(View):
    """Questions by deadline and what each waits for, redrawn below a line for each that ended."""

    def __init__(
        self, progress: Progress, console: Console, now: Callable[[], float] = time.time
    ) -> None:
        self._progress = progress
        self._console = console
        self._now = now
        self._live = Live(
            console=console, refresh_per_second=_REFRESH_PER_SECOND, transient=True, screen=False
        )

    def show(self, ended: list[QuestionProgress]) -> None:
        _print_ends(self._live.console, ended)
        self._live.update(self.render())

    def render(self) -> Group:
        """What is on the screen now."""
        shown = self._progress.running[: max(1, self._console.height - _HEADING_LINES)]
        columns = ("#", "SLO class", "question", "stage", "done", "requests at", "left")
        rows = [self._row(question) for question in shown]
        return Group(Text(headline(self._progress), style="bold"), table("", columns, rows))

    def _row(self, question: QuestionProgress) -> tuple[object, ...]:
        return (
            question.number,
            question.slo_class,
            question.text[:_QUESTION_CHARS],
            question.stage,
            question.requests_done,
            ", ".join(sorted(set(question.at_work.values()))),
            f"{question.deadline - self._now():.1f} s",
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def close(self) -> None:
        self._live.stop()


class PlainLines(View):
    """One line for every question that ends, and a summary now and then."""

    def __init__(
        self, progress: Progress, console: Console, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._progress = progress
        self._console = console
        self._now = now
        self._summary_at = now() + _LINE_SECONDS

    def show(self, ended: list[QuestionProgress]) -> None:
        _print_ends(self._console, ended)
        if self._now() >= self._summary_at:
            self._summary_at = self._now() + _LINE_SECONDS
            self._console.print(Text(headline(self._progress)), soft_wrap=True)

    def close(self) -> None:
        """Nothing to leave behind."""


def view_of(progress: Progress, console: Console) -> View:
    """The view that suits the console."""
    return LiveTable(progress, console) if console.is_terminal else PlainLines(progress, console)


def _print_ends(console: Console, ended: list[QuestionProgress]) -> None:
    """One line for each; on a terminal they stay above the table that is redrawn."""
    for question in ended:
        line = f"{question.status:9} #{question.number:<3} {question.slo_class:11} "
        console.print(Text(line + question.text), soft_wrap=True)


def headline(progress: Progress) -> str:
    """States of questions and places of requests in one line."""
    states = ", ".join(f"{count} {name}" for name, count in sorted(progress.statuses().items()))
    places = ", ".join(f"{name}: {count}" for name, count in sorted(progress.places().items()))
    return f"{states}    {places}".rstrip()
