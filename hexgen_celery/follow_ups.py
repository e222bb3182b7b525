"""What a Celery client wants to follow its question: links, the rest of a chain, a chord's body.

`hexgen.ask` leaves its worker long before its question ends, so that Celery's worker cannot see to
it. What the message asked for is kept with the question, and Celery's own code is run at its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import redis
import structlog
from celery import Celery, states
from celery.app.task import Context
from celery.canvas import signature
from kombu.exceptions import OperationalError

from hexgen_celery.names import ASK
from hexgen_celery.workflows.definition import Json

log = structlog.get_logger(__name__)

_ALONE = ("callbacks", "errbacks", "chain")
_CHORD = ("chord", "group", "group_index")
_AWAY = (OperationalError, redis.RedisError, OSError)


def follow_ups(request: Mapping[str, Any]) -> Json:
    """The part of a task's `request`, as Celery's tracer is given it, that is for its end."""
    wanted = {name: request[name] for name in _ALONE if request.get(name)}
    if request.get("chord"):
        wanted |= {name: request[name] for name in _CHORD if request.get(name) is not None}
    return wanted


def follow(
    app: Celery, task_id: str, wanted: Mapping[str, Any], result: object, state: str
) -> None:
    """Do what is `wanted` now that `result` is stored; a signature that cannot be sent is logged.

    Raises:
        kombu.exceptions.OperationalError, redis.RedisError, OSError: the broker is away; calling
            again may send again what was sent before.
    """
    if not wanted:
        return
    try:
        _follow(
            app, task_id, Context(wanted, id=task_id, task=ASK, delivery_info={}), result, state
        )
    except _AWAY:
        raise
    except Exception:
        # The client's own signatures: nothing that is tried again would make them right.
        log.exception("what follows a question could not be sent", workflow=task_id)


def _follow(app: Celery, task_id: str, request: Context, result: object, state: str) -> None:
    if state == states.FAILURE:
        app.backend.mark_as_failure(task_id, result, request=request)
        return
    if request.chord:
        app.backend.on_chord_part_return(request, state, result)
    if state == states.SUCCESS:
        _send_next(app, task_id, request, result)


def _send_next(app: Celery, task_id: str, request: Context, result: object) -> None:
    family = {"parent_id": task_id, "root_id": task_id}
    for callback in request.callbacks or ():
        signature(callback, app=app).apply_async((result,), **family)
    *rest, first = request.chain or (None,)
    if first is not None:
        signature(first, app=app).apply_async((result,), chain=rest, **family)
