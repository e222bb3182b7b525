"""Tasks of a chaos run: each notes its beginning and its end in the run's own ledger."""

from __future__ import annotations

import json
import os
import time

from tests.integration.transport.probe_app import LEDGER_VARIABLE, build_app

app = build_app(os.environ.get("CHAOS_URL", ""), **json.loads(os.environ.get("CHAOS_CONF", "{}")))
_ledger = os.open(os.environ[LEDGER_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def note(event: str, name: str) -> None:
    """One whole line at once."""
    os.write(_ledger, f"{event} {name} {os.getpid()} {time.time():.6f}\n".encode())


@app.task(name="chaos.work")
def work(name: str, seconds: float) -> None:
    """Take some time."""
    note("start", name)
    time.sleep(seconds)
    note("end", name)
