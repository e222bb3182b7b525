"""The Lua scripts behind typed calls: one per transition of a workflow.

Key layouts and return values are documented at the head of each `lua/*.lua`; `lua/lib/workflow.lua`
is put before every script that moves one workflow.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, cast

import redis

from hexgen_celery.keys import Keys
from hexgen_celery.settings import Settings
from hexgen_celery.workflows.definition import Json

_LIBRARY = "lib/workflow"
_BATCH = 200
PLACEMENTS_KEPT = 5000


@cache
def script_source(name: str, library: str = "") -> str:
    """The text of `lua/<name>.lua`, behind that of `library` if there is one."""
    root = files("hexgen_celery") / "lua"
    names = (library, name) if library else (name,)
    return "\n".join(root.joinpath(f"{part}.lua").read_text(encoding="utf-8") for part in names)


def milliseconds(seconds: float) -> int:
    """Seconds as the integer milliseconds that scripts schedule by."""
    return round(seconds * 1000)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a planning script did: `verdict`, and which prompt parts must be stored first."""

    verdict: str
    missing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Due:
    """What a control worker must look at: outbox entries, workflow ids, ended leases."""

    entries: tuple[str, ...]
    expired: tuple[str, ...]
    lost: tuple[str, ...]


class Scripts:
    """Every script of the coordinator, bound to one Redis and one deployment.

    Raises:
        ValueError: `client` was not made with `decode_responses=True`.
    """

    def __init__(self, client: redis.Redis, keys: Keys, settings: Settings) -> None:
        if not client.get_encoder().decode_responses:
            raise ValueError("the Redis client must be made with decode_responses=True")
        self._client = client
        self._keys = keys
        self._lease_ms = milliseconds(settings.coordinator.lease_seconds)
        self._resend_ms = milliseconds(settings.coordinator.resend_after_seconds)
        self._requeue_ms = milliseconds(settings.coordinator.requeue_after_seconds)
        self._common: Json = {
            "cancels": keys.cancels,
            "tenants": keys.tenants,
            "stream": settings.coordinator.trace_stream_entries,
            "resend_ms": self._resend_ms,
            "result_ttl_ms": milliseconds(settings.broker.result_ttl_seconds),
        }
        if settings.store.enabled:
            self._common["records"] = keys.records
            self._common["records_kept"] = settings.store.backlog_entries
        self._scripts: dict[str, Any] = {}

    def start(
        self, workflow_id: str, parameters: Json, parts: Sequence[str], arguments: Sequence[str]
    ) -> Reply:
        """Create the workflow; verdicts `started`, `exists`, `cancelled`, `full`, `parts`."""
        return _reply(self._move("start", workflow_id, parameters, arguments, parts))

    def settle(
        self, workflow_id: str, parameters: Json, parts: Sequence[str], arguments: Sequence[str]
    ) -> Reply:
        """End a node and apply what follows; verdicts `ok`, `stale`, `conflict`, `parts`."""
        return _reply(self._move("settle", workflow_id, parameters, arguments, parts))

    def claim(self, workflow_id: str, parameters: Json) -> tuple[str, str, float] | None:
        """Take a request: its spec and its submission, both JSON, and the seconds it waited."""
        full = {**parameters, "lease_ms": self._lease_ms}
        answer = self._move("claim", workflow_id, full)
        return (answer[0], answer[1], float(answer[2])) if answer else None

    def first_token(self, workflow_id: str, parameters: Json) -> bool:
        """Record the first token; False when that attempt does not run."""
        return bool(self._move("first_token", workflow_id, parameters))

    def retry(self, workflow_id: str, parameters: Json, error: str) -> tuple[str, str] | None:
        """Begin the next attempt: spec and submission, both JSON."""
        return _pair(self._move("retry", workflow_id, parameters, [error]))

    def finish(self, workflow_id: str, parameters: Json, outcome: str) -> str:
        """End the workflow: `finished`, `stale`, `conflict` or `unknown`."""
        return str(self._move("finish", workflow_id, parameters, [outcome]))

    def confirm(self, workflow_id: str, sent: list[Json]) -> int:
        """Record that messages reached the broker; how many were waiting for that."""
        parameters = {
            "sent": sent,
            "requeue_ms": self._requeue_ms,
            "placements": self._keys.placements,
            "placements_kept": PLACEMENTS_KEPT,
        }
        return int(self._move("confirm", workflow_id, parameters))

    def unsent(self, workflow_id: str, parameters: Json, error: str) -> bool:
        """Keep why a request could not be sent; False when it does not wait for that."""
        return bool(self._move("unsent", workflow_id, parameters, [error]))

    def renew(self, members: Sequence[str]) -> list[int]:
        """Extend leases; the positions in `members` of those that must stop."""
        if not members:
            return []
        arguments = [self._lease_ms, *members]
        return cast("list[int]", self._run("renew", [self._keys.running], arguments))

    def end_leases(self, members: Sequence[str]) -> None:
        """Let leases that are still held end now; whoever holds them is known to be dead."""
        if members:
            ended: dict[Any, Any] = dict.fromkeys(members, 0)
            self._client.zadd(self._keys.running, ended, xx=True)

    def due(self) -> Due:
        """What is due now; outbox entries are held back from other control workers for a while."""
        keys = self._keys
        entries, expired, lost = self._run(
            "due",
            [keys.outbox, keys.deadlines, keys.running, keys.swept],
            [self._resend_ms, self._lease_ms, _BATCH],
        )
        return Due(tuple(entries), tuple(expired), tuple(lost))

    def delivered(self, workflow_id: str) -> None:
        """Take a result that is stored out of the outbox."""
        self._client.zrem(self._keys.outbox, workflow_id)

    def forget(self, members: Iterable[str]) -> None:
        """Remove what still names workflows that are gone from outbox, deadlines and running."""
        names = list(members)
        if names:
            keys = self._keys
            self._run("forget", [keys.outbox, keys.deadlines, keys.running], names)

    def postpone(self, members: Sequence[str]) -> None:
        """Let outbox entries rest for the requeue time."""
        if members:
            self._run("postpone", [self._keys.outbox], [self._requeue_ms, *members])

    def _move(
        self,
        name: str,
        workflow_id: str,
        parameters: Json,
        arguments: Sequence[str] = (),
        parts: Sequence[str] = (),
    ) -> Any:
        body = json.dumps({**self._common, **parameters}, ensure_ascii=False, separators=(",", ":"))
        # Lua's cjson refuses lone surrogates, which a model's text may hold.
        clean = body.encode("utf-8", "replace")
        keys = [*self._workflow_keys(workflow_id), *map(self._keys.part, parts)]
        return self._run(name, keys, [workflow_id, clean, *arguments], _LIBRARY)

    def _workflow_keys(self, workflow_id: str) -> list[str]:
        keys = self._keys
        own = (keys.workflow, keys.nodes, keys.bulk, keys.trace)
        shared = (keys.outbox, keys.deadlines, keys.running, keys.load, keys.events)
        return [*(build(workflow_id) for build in own), *shared]

    def _run(
        self, name: str, keys: Sequence[str], arguments: Sequence[Any], library: str = ""
    ) -> Any:
        script = self._scripts.get(name)
        if script is None:
            script = self._client.register_script(script_source(name, library))
            self._scripts[name] = script
        return script(keys=keys, args=arguments)


def _reply(answer: list[Any]) -> Reply:
    return Reply(str(answer[0]), tuple(int(index) for index in answer[1:]))


def _pair(answer: Any) -> tuple[str, str] | None:
    return (answer[0], answer[1]) if answer else None
