"""A Celery application for worker processes under test: its tasks note in a file what they did.

The file is the independent ledger: one line per start and end, `<event> <task> <pid> <time>`.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from celery import Celery, Task, signals
from celery.exceptions import Reject

from hexgen_celery.transport import process

URGENCY = "hexgen_celery.transport.transport:Transport"
OPTIONS_VARIABLE, URL_VARIABLE, LEDGER_VARIABLE = "PROBE_CONF", "PROBE_URL", "PROBE_LEDGER"

DEFAULTS: dict[str, Any] = {
    "broker_transport": URGENCY,
    "broker_transport_options": {"lease_seconds": 2.0, "max_connections": 100},
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    "task_ignore_result": True,
    "task_default_queue": "sql",
    "worker_disable_prefetch": True,
    "worker_prefetch_multiplier": 1,
    "worker_cancel_long_running_tasks_on_connection_loss": False,
    "broker_connection_retry_on_startup": True,
    "broker_connection_max_retries": None,
    "broker_channel_error_retry": True,
    "worker_hijack_root_logger": False,
}


@signals.worker_init.connect
def _as_our_workers_do(**_signal: object) -> None:
    process.acknowledge_in_background()


def build_app(url: str, **changes: Any) -> Celery:
    """The application on `url`; `changes` are Celery settings."""
    built = Celery("probe", broker=url, backend=None, set_as_current=False)
    built.conf.update({**DEFAULTS, **changes})
    return built


app = build_app(
    os.environ.get(URL_VARIABLE, ""), **json.loads(os.environ.get(OPTIONS_VARIABLE, "{}"))
)


def note(event: str, name: str) -> None:
    """One line in the ledger, written at once and whole."""
    line = f"{event} {name} {os.getpid()} {time.time():.6f}\n".encode()
    ledger = os.open(os.environ[LEDGER_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(ledger, line)
    finally:
        os.close(ledger)


@app.task(name="probe.run", bind=True)
def run(task: Task, name: str, seconds: float = 0.0) -> None:
    """Work for some time."""
    note("redelivered" if task.request.delivery_info.get("redelivered") else "start", name)
    time.sleep(seconds)
    note("end", name)


@app.task(name="probe.refuse")
def refuse(name: str, requeue: bool) -> None:
    """Reject the message."""
    note("start", name)
    raise Reject("refused", requeue=requeue)
