"""Since when the cluster is as it is: what was measured before a change says nothing after it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import cast

import redis

from hexgen_celery.instances import InstanceRecord
from hexgen_celery.keys import Keys


class SteadyCluster:
    """Remembers, in Redis, the instances that were seen last and since when."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._key = keys.tuned_cluster

    def since(self, alive: Iterable[InstanceRecord], now: float) -> float:
        """Since when (Unix seconds) exactly these instances are alive, none restarted; `now` when
        that was not so at the last call, 0 when there was none: then nobody knows.

        Raises:
            redis.RedisError: Redis is away.
        """
        seen = [[record.name, record.profile, record.epoch] for record in alive]
        stored = cast("str | None", self._client.get(self._key))
        before = json.loads(stored) if stored else None
        if before is not None and before["instances"] == seen:
            return float(before["since"])
        since = now if before is not None else 0.0
        self._client.set(self._key, json.dumps({"instances": seen, "since": since}))
        return since
