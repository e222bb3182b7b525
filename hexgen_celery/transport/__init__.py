"""Kombu's Redis transport with urgency-ordered queues that lose nothing.

Celery's `broker_transport` names `hexgen_celery.transport.transport:Transport`. Queues called `sql`
or `gpu.*` are sorted sets by latest start time; all others stay Kombu's lists. Consumers of
either kind claim a message and record its lease in one script. See docs/queues.md.
"""
