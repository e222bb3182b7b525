"""The deployment's registered databases, as every process opens them."""

from __future__ import annotations

import redis

from hexgen_celery.keys import Keys
from hexgen_celery.settings import Settings
from hexgen_celery.sql.databases import DatabaseRegistry
from hexgen_celery.sql.text_hash import RedisHash


def open_databases(client: redis.Redis, keys: Keys, settings: Settings) -> DatabaseRegistry:
    """The registry behind `client`; private copies of files live below `sql.home`."""
    return DatabaseRegistry(
        RedisHash(client, keys.databases), RedisHash(client, keys.catalogs), settings.sql.home
    )
