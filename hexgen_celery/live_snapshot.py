"""What one routing decision reads of Redis, in one round trip of one string."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import redis

from hexgen_celery.instances import InstanceRecord, parse_record, redis_seconds
from hexgen_celery.keys import Keys
from hexgen_celery.scripts import script_source
from hexgen_celery.trace import OLDEST

NOTES_AT_ONCE = 500
_BETWEEN = "\x1e"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster at one moment. `now` in Unix seconds on Redis' clock.

    `load` is the raw ledger (`<scope>:<measure>` → integer text), the very same mapping while it
    does not change; `policies` the raw hash of policies in force, `notes` the placements since the
    last snapshot.
    """

    now: float
    records: tuple[InstanceRecord, ...]
    load: Mapping[str, str]
    policies: Mapping[str, str]
    notes: tuple[str, ...] = ()


class SnapshotReader:
    """Reads snapshots. Thread-safe, but every note is given to one caller only.

    Records are parsed again only where they changed, which is at a heartbeat; the ledger where
    anything in it changed, which requests that are placed one after another do not do: they are
    confirmed together.
    """

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._script = client.register_script(script_source("snapshot"))
        # As bytes, so that they are not encoded with every decision.
        names = (keys.instances, keys.load, keys.policies, keys.placements)
        self._keys = [name.encode() for name in names]
        self._last_note = OLDEST
        self._records: dict[str, InstanceRecord] = {}
        self._parsed: tuple[str, tuple[InstanceRecord, ...]] = ("", ())
        self._load: tuple[str, Mapping[str, str]] = ("", {})

    def read(self) -> Snapshot:
        """The cluster now.

        Raises:
            redis.RedisError: Redis is away.
        """
        asked = self._last_note
        answer = self._script(keys=self._keys, args=[asked, NOTES_AT_ONCE])
        parts = cast("str", answer).split(_BETWEEN)
        seconds, microseconds, records, load, policies, last, notes = parts
        # Of two callers that asked from the same place, one is given the notes.
        fresh = notes and self._last_note == asked
        if fresh:
            self._last_note = last
        return Snapshot(
            redis_seconds((int(seconds), int(microseconds))),
            self._parse(records),
            self._ledger(load),
            _paired(json.loads(policies)),
            tuple(notes.split("\n")) if fresh else (),
        )

    def _parse(self, lines: str) -> tuple[InstanceRecord, ...]:
        known_lines, records = self._parsed
        if not lines:
            return ()
        if lines == known_lines:
            return records
        known = self._records
        found = {text: known.get(text) or parse_record(text) for text in lines.split("\n")}
        self._records = {text: record for text, record in found.items() if record is not None}
        records = tuple(sorted(self._records.values(), key=lambda record: record.name))
        self._parsed = (lines, records)
        return records

    def _ledger(self, lines: str) -> Mapping[str, str]:
        known_lines, load = self._load
        if lines != known_lines:
            load = _paired(lines.split("\n") if lines else ())
            self._load = (lines, load)
        return load


def _paired(flat: Sequence[str]) -> dict[str, str]:
    """Fields and values of a hash, which stand one after another; what is empty in Lua is neither
    a list nor an object."""
    return dict(zip(flat[::2], flat[1::2], strict=True)) if flat else {}
