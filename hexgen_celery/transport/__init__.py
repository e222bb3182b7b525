"""Kombu's Redis transport with urgency-ordered queues that lose nothing.

Celery's `broker_transport` names it, as `hexgen` once `register_aliases` was called, else as
`hexgen_celery.transport.transport:Transport`. Queues called `sql` or `gpu.*` are sorted sets by
latest start time; all others stay Kombu's lists. Consumers of either kind claim a message and
record its lease in one script. See docs/queues.md.
"""

from __future__ import annotations

ALIAS = "hexgen"
SENTINEL_ALIAS = "hexgen-sentinel"


def register_aliases() -> None:
    """Let Kombu know our transports by short names, which then show in logs and URLs."""
    from kombu.transport import TRANSPORT_ALIASES

    TRANSPORT_ALIASES[ALIAS] = "hexgen_celery.transport.transport:Transport"
    TRANSPORT_ALIASES[SENTINEL_ALIAS] = "hexgen_celery.transport.transport:SentinelTransport"
