"""What one routing decision reads of Redis, in one round trip of few strings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import redis

from hexgen_celery.instances import InstanceRecord, parse_record, redis_seconds
from hexgen_celery.keys import Keys
from hexgen_celery.scripts import script_source
from hexgen_celery.trace import OLDEST

NOTES_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster at one moment. `now` in Unix seconds on Redis' clock.

    `load` is the raw ledger (`<scope>:<measure>` → integer text), `policies` the raw hash of
    policies in force, `notes` the placements since the last snapshot.
    """

    now: float
    records: tuple[InstanceRecord, ...]
    load: Mapping[str, str]
    policies: Mapping[str, str]
    notes: tuple[str, ...] = ()


class SnapshotReader:
    """Reads snapshots. Thread-safe, but every note is given to one caller only.

    Records are parsed again only where they changed, which is at a heartbeat.
    """

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._script = client.register_script(script_source("snapshot"))
        self._keys = [keys.instances, keys.load, keys.policies, keys.placements]
        self._last_note = OLDEST
        self._records: dict[str, InstanceRecord] = {}
        self._parsed: tuple[str, tuple[InstanceRecord, ...]] = ("", ())

    def read(self) -> Snapshot:
        """The cluster now.

        Raises:
            redis.RedisError: Redis is away.
        """
        asked = self._last_note
        answer = self._script(keys=self._keys, args=[asked, NOTES_AT_ONCE])
        seconds, microseconds, records, load, policies, last, notes = cast("list[Any]", answer)
        # Of two callers that asked from the same place, one is given the notes.
        fresh = notes and self._last_note == asked
        if fresh:
            self._last_note = last
        fields = load.split("\n") if load else []
        return Snapshot(
            redis_seconds((int(seconds), int(microseconds))),
            self._parse(records),
            dict(zip(fields[::2], fields[1::2], strict=True)),
            dict(zip(policies[::2], policies[1::2], strict=True)),
            tuple(notes.split("\n")) if fresh else (),
        )

    def _parse(self, lines: str) -> tuple[InstanceRecord, ...]:
        known_lines, records = self._parsed
        if not lines:
            return ()
        if lines == known_lines:
            return records
        known = self._records
        self._records = {text: known.get(text) or parse_record(text) for text in lines.split("\n")}
        records = tuple(sorted(self._records.values(), key=lambda record: record.name))
        self._parsed = (lines, records)
        return records
