"""What becomes of a request that does not fit into the context of the server it was sent to."""

from __future__ import annotations

from hexgen_celery.errors import HexgenError
from hexgen_celery.instances import InstanceDirectory
from hexgen_celery.live_cluster import usable_records, wanted_by
from hexgen_celery.llm.failures import ContextOverflow, ContextTooShort
from hexgen_celery.references import ClaimedRequest


class LongerElsewhere:
    """Knows the other instances; `name` is this worker's own."""

    def __init__(self, directory: InstanceDirectory, name: str, dead_after_seconds: float) -> None:
        self._directory = directory
        self._name = name
        self._dead_after = dead_after_seconds

    def judged(self, request: ClaimedRequest, error: ContextOverflow) -> HexgenError:
        """A failure that is tried again where a longer instance can take it, else `error` itself.

        Raises:
            redis.RedisError: Redis is away.
        """
        now, records = self._directory.snapshot()
        own = next((each.context_len for each in records if each.name == self._name), None)
        able = usable_records(
            records,
            now=now,
            dead_after_seconds=self._dead_after,
            wanted=wanted_by(request.submission),
        )
        if own is None or not any(each.is_longer_than(own) for each in able):
            return error
        return ContextTooShort(error.message, own, hint=error.hint, field=error.field)
