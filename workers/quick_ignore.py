"""A cheap way out of `hexgen.ask`, whose result is stored when the question ends.

Raising Celery's `Ignore` says exactly that, but Celery then copies the whole traceback, twice,
instruction positions included: about half of a control worker's time in a burst of questions. So
the task is traced here, and only what goes wrong takes Celery's way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from celery import Celery, bootsteps
from celery.app.trace import IGNORED, TraceInfo, trace_ok_t
from celery.exceptions import Ignore

from hexgen_celery.workflows.definition import Json

Receive = Callable[[str, Sequence[Any], Json, Mapping[str, Any]], None]
"""Takes a task's id, its arguments by position and by name, and its request as a mapping."""

Tracer = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a worker's request looks at to see how its task ended."""

    exception: Exception


@dataclass(frozen=True, slots=True)
class Arguments:
    """A message's arguments as one value: Celery's own calls know names, such as `self`, that a
    client may use too."""

    positional: Sequence[Any]
    keywords: Json


_IGNORE = Ignore()
_OUTCOME = _Outcome(_IGNORE)
_INFO = TraceInfo(IGNORED, _IGNORE)


def quick_tracer(receive: Receive, celerys: Tracer) -> Tracer:
    """A tracer that calls `receive` (twice, when it raises: it must bear that).

    The second time it is the task that calls it, with one `Arguments`.
    """

    def trace(uuid: str, args: Sequence[Any], kwargs: Json, request: Any = None) -> Any:
        started = time.monotonic()
        try:
            receive(uuid, args, kwargs, request or {})
        except Exception:
            # Refusals, Redis trouble and mistakes alike are Celery's to record, which it does when
            # its own tracer meets them again.
            return celerys(uuid, (Arguments(args, kwargs),), {}, request)
        return trace_ok_t(_OUTCOME, _INFO, time.monotonic() - started, None)

    return trace


def quicken(app: Celery, task_name: str, receive: Receive) -> None:
    """Let workers of `app` trace `task_name` through `receive`, from every (re)connection on."""

    class QuickIgnore(bootsteps.StartStopStep):  # type: ignore[misc]
        """Replaces the tracer that Celery has just built."""

        requires = ("celery.worker.consumer.tasks:Tasks",)

        def start(self, consumer: Any) -> None:
            task = consumer.app.tasks[task_name]
            task.__trace__ = quick_tracer(receive, task.__trace__)

    app.steps["consumer"].add(QuickIgnore)
