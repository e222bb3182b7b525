"""A Celery consumer that a malformed message cannot end.

Celery drops most messages that are no tasks, but some (a body that is `null`, headers of the wrong
type) raise out of its consumer and end the worker; the broker then hands the message to the next
worker, and so to all. Here such a message is rejected and logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import structlog
from celery.worker.consumer import Consumer

log = structlog.get_logger(__name__)
_celery_log = logging.getLogger(__name__)

MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
SHOWN_CHARS = 200


class TolerantConsumer(Consumer):  # type: ignore[misc]
    """Celery's consumer; whatever a message's form makes it raise is that message's end."""

    def create_task_handler(self, *arguments: Any, **keywords: Any) -> Callable[[Any], Any]:
        """Celery's handler of one message, made safe."""
        handle = super().create_task_handler(*arguments, **keywords)

        def on_message(message: Any) -> Any:
            try:
                return handle(message)
            except MALFORMED as error:
                shown = f"{type(error).__name__}: {error}"[:SHOWN_CHARS]
                log.error("a message that is no task was dropped", error=shown)
                if not message.acknowledged:
                    message.reject_log_error(_celery_log, self.connection_errors)
                return None

        return on_message
