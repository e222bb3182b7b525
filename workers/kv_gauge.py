"""Correcting admission by the server's own gauge of its KV memory.

Our ledger counts estimates at once; the gauge counts what is, some seconds late. So the gauge never
drives: what it showed beyond the ledger at that moment is added to the ledger's count from then on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import structlog

from hexgen_celery.core.admission import Allowance
from hexgen_celery.errors import HexgenError
from hexgen_celery.transport.leases import HeldLoad
from hexgen_celery.transport.process import Admission

log = structlog.get_logger(__name__)

GAUGE = re.compile(r"^vllm:(?:kv|gpu)_cache_usage_perc(?:\{[^}]*\})? (\S+)", re.MULTILINE)


def kv_usage(metrics: str) -> float | None:
    """The share of the KV memory in use, in [0, 1], of vLLM's /metrics; None where it is absent."""
    found = GAUGE.search(metrics)
    return float(found.group(1)) if found else None


class GaugedAdmission:
    """`admission` over what the process holds, corrected by `read` (the text of /metrics).

    `kv_tokens` is the size of the server's KV memory. Call `look` every few seconds.
    """

    def __init__(self, admission: Admission, kv_tokens: int, read: Callable[[], str]) -> None:
        self._admission = admission
        self._kv_tokens = kv_tokens
        self._read = read
        self._held = HeldLoad()
        self._beyond = 0

    def __call__(self, held: HeldLoad) -> Allowance:
        """What may still be taken."""
        self._held = held
        return self._admission(replace(held, kv_tokens=held.kv_tokens + self._beyond))

    def look(self) -> None:
        """Compare the gauge with the ledger; an idle server is not asked."""
        held = self._held
        if not held.running:
            self._beyond = 0
            return
        try:
            usage = kv_usage(self._read())
        except HexgenError as error:
            log.debug("no gauge of KV memory", error=str(error))
            return
        if usage is not None:
            self._beyond = max(0, round(usage * self._kv_tokens) - held.kv_tokens)
