"""Looking at queues from outside: lengths, what is most urgent, dead letters."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import redis
from kombu.transport.redis import PRIORITY_STEPS, Channel

from hexgen_celery.transport.channel import is_sorted
from hexgen_celery.transport.messages import Queued, decode
from hexgen_celery.transport.scripts import QueueScripts


@dataclass(frozen=True, slots=True)
class QueueLength:
    """One queue. Requests waiting (of those, demoted ones) and held by workers, and the work that
    both still are, in seconds."""

    name: str
    waiting: int
    demoted: int = 0
    running: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class WaitingRequest:
    """One waiting message. `laxity` is the seconds until its latest start, negative when past."""

    task_id: str
    task: str
    queue: str
    laxity: float
    demoted: bool


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that was given up. `since` is Unix seconds."""

    token: str
    task_id: str
    task: str
    queue: str
    cause: str
    since: float


def lists_of(queue: str) -> list[str]:
    """The lists that are one of Kombu's queues, as its default options name them."""
    return [f"{queue}{Channel.sep}{step}" if step else queue for step in PRIORITY_STEPS]


def length_keys(root: str, queue: str) -> list[tuple[str, str]]:
    """The commands (ZCARD or LLEN) and keys whose sum is the length of `queue`."""
    if is_sorted(queue):
        return [("ZCARD", f"{root}:{queue}:{part}") for part in ("waiting", "demoted")]
    return [("LLEN", name) for name in lists_of(queue)]


def waiting_in(client: redis.Redis, root: str) -> Callable[[str], int]:
    """How many messages wait in a queue, as a function of its name; for any client."""

    def waiting(queue: str) -> int:
        with client.pipeline(transaction=False) as pipeline:
            for command in length_keys(root, queue):
                pipeline.execute_command(*command)  # type: ignore[no-untyped-call]
            return sum(cast("list[int]", pipeline.execute()))

    return waiting


class QueueInspector:
    """Reads the queues of one deployment; `client` answers in bytes."""

    def __init__(self, client: redis.Redis, root: str) -> None:
        self._client = client
        self._root = root
        self._scripts = QueueScripts(client, root)

    def lengths(self, queues: Iterable[str]) -> list[QueueLength]:
        """The named queues, in one round trip."""
        names = list(queues)
        with self._client.pipeline(transaction=False) as pipeline:
            for name in names:
                for command in length_keys(self._root, name):
                    pipeline.execute_command(*command)  # type: ignore[no-untyped-call]
            pipeline.hgetall(f"{self._root}:load")
            pipeline.hvals(f"{self._root}:holders")
            *counts, load, holders = pipeline.execute()
        left = iter(counts)
        parts = {name: [next(left) for _ in length_keys(self._root, name)] for name in names}
        running = Counter(holder.rpartition(b"\n")[2].decode() for holder in holders)
        return [_length(name, parts[name], load, running) for name in names]

    def known(self) -> set[str]:
        """Sorted sets that hold or held work lately, by what is stored about them."""
        pattern = f"{_escaped(self._root)}:*:waiting"
        found = {key.decode() for key in self._client.scan_iter(match=pattern, count=1000)}
        names = {key.removeprefix(f"{self._root}:").removesuffix(":waiting") for key in found}
        load = cast("dict[bytes, bytes]", self._client.hgetall(f"{self._root}:load"))
        return names | {name.decode().rpartition(":")[0] for name in load}

    def most_urgent(self, queue: str, count: int, now: float) -> list[WaitingRequest]:
        """What waits in a sorted set, most urgent first; `now` in Unix seconds."""
        return [
            WaitingRequest(*_names(message), queue, message.urgency.key - now, demoted)
            for message, demoted in self._scripts.peek(queue, count)
        ]

    def dead_tokens(self) -> list[str]:
        """Every dead letter that is kept, oldest first."""
        tokens = self._client.zrange(f"{self._root}:dead:since", 0, -1)
        return [token.decode() for token in cast("list[bytes]", tokens)]

    def dead_letter_counts(self) -> tuple[int, int]:
        """How many dead letters are kept, and how many were dropped for want of room."""
        with self._client.pipeline(transaction=False) as pipeline:
            pipeline.zcard(f"{self._root}:dead:since")
            pipeline.get(f"{self._root}:dead:dropped")
            kept, dropped = pipeline.execute()
        return int(kept), int(dropped or 0)

    def dead_letters(self, count: int = 1000) -> list[DeadLetter]:
        """The latest `count` dead letters, latest first."""
        root = self._root
        entries = self._client.zrange(
            f"{root}:dead:since", 0, count - 1, desc=True, withscores=True
        )
        found = cast("list[tuple[bytes, float]]", entries)
        if not found:
            return []
        tokens = [token for token, _ in found]
        values = self._many(f"{root}:dead", tokens)
        causes = self._many(f"{root}:dead:causes", tokens)
        return [
            _dead(decode(token, value), cause.decode(), since / 1000)
            for (token, since), value, cause in zip(found, values, causes, strict=True)
            if value is not None and cause is not None
        ]

    def redrive(self, tokens: Sequence[str]) -> int:
        """Put dead letters back into their queues; how many there were."""
        return self._scripts.redrive(tokens)

    def drop(self, tokens: Sequence[str]) -> int:
        """Remove dead letters for good; how many there were."""
        return self._scripts.drop(tokens)

    def remove(self, tokens: Sequence[str]) -> int:
        """Remove waiting messages that need not run; how many there were."""
        return self._scripts.remove(tokens)

    def _many(self, key: str, fields: Sequence[bytes]) -> list[Any]:
        return cast("list[Any]", self._client.hmget(key, list(fields)))


def _length(
    name: str, counts: Sequence[int], load: Mapping[bytes, bytes], running: Counter[str]
) -> QueueLength:
    def counted(measure: str) -> int:
        return int(load.get(f"{name}:{measure}".encode(), 0))

    lists = [name] if is_sorted(name) else lists_of(name)
    return QueueLength(
        name=name,
        waiting=sum(counts),
        demoted=counts[1] if is_sorted(name) else 0,
        running=sum(running[each] for each in lists),
        prefill_seconds=counted("prefill_us") / 1e6,
        decode_seconds=counted("decode_us") / 1e6,
    )


def _dead(message: Queued, cause: str, since: float) -> DeadLetter:
    queue = message.queue.split(Channel.sep)[0]
    return DeadLetter(message.token, *_names(message), queue, cause, since)


def _names(message: Queued) -> tuple[str, str]:
    """Celery's id and name of the task in `message`; empty where it is no Celery message."""
    try:
        headers = json.loads(message.payload).get("headers") or {}
    except (ValueError, AttributeError):
        return "", ""
    return str(headers.get("id", "")), str(headers.get("task", ""))


def _escaped(pattern: str) -> str:
    return "".join(f"\\{char}" if char in "[]*?\\" else char for char in pattern)
