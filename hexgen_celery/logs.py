"""Structured logs of every process: one set-up for our own loggers and those of the libraries.

Lines go to standard error as JSON or as console text. Credentials never reach them: values of
secret-looking fields and the user part of URLs are masked in every record, whoever wrote it.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping
from typing import Any

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from hexgen_celery.settings import LogSettings

MASK = "***"
_SECRET_FIELD = re.compile(r"passw|secret|api_?key|authorization|credential", re.IGNORECASE)
_URL_CREDENTIALS = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^/@\s]*@", re.IGNORECASE)
_BEARER = re.compile(r"(?P<kind>bearer\s+)[^\s'\"]+", re.IGNORECASE)
_QUIET_LIBRARIES = ("aiohttp.access", "kombu", "celery.redirected", "asyncio")


def configure_logs(settings: LogSettings, **context: str) -> None:
    """Send all logs of this process to standard error; `context` is bound to each of our lines."""
    level = logging.getLevelName(settings.level.upper())
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(settings))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name in _QUIET_LIBRARIES:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    structlog.configure(
        processors=[*_shared(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.clear_contextvars()
    _bind_process(context)


def mask_text(text: str) -> str:
    """`text` without URL credentials and bearer tokens."""
    text = _URL_CREDENTIALS.sub(rf"\g<scheme>{MASK}@", text)
    return _BEARER.sub(rf"\g<kind>{MASK}", text)


def mask_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Structlog processor: mask secret fields and credentials inside strings."""
    return {name: _masked(name, value) for name, value in event.items()}


def _masked(name: str, value: Any) -> Any:
    if _SECRET_FIELD.search(name):
        return MASK
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, Mapping):
        return {key: _masked(str(key), item) for key, item in value.items()}
    return value


_process_context: dict[str, str] = {}


def _bind_process(context: Mapping[str, str]) -> None:
    """Context variables do not reach threads that already run, so this is process-wide."""
    _process_context.clear()
    _process_context.update(context)


def _add_process_context(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {**_process_context, **event}


def _shared() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        _add_process_context,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.ExtraAdder(allow=()),
    ]


def _formatter(settings: LogSettings) -> structlog.stdlib.ProcessorFormatter:
    renderer: Processor
    if settings.format == "json":
        renderer = structlog.processors.JSONRenderer(default=str)
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_shared(),
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            mask_secrets,
            renderer,
        ],
    )
