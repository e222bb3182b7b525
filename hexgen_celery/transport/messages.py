"""What a queued message consists of: identity, urgency, cost and Celery's payload. Pure.

The numbers stand in a binary header in front of the payload (`lua/lib/queue.lua` names the fields),
so that scripts need not parse JSON.
"""

from __future__ import annotations

import base64
import hashlib
import math
import struct
from dataclasses import dataclass, field
from typing import Any

from kombu.utils.json import dumps, loads

from hexgen_celery.core.admission import ClaimCost

HEADER = "hexgen"
"""The message header that carries an urgency, as `Urgency.to_header` builds it."""

HEADER_VERSION = 1
"""The form of that header; a change that an older reader would misread takes the next number."""

_STRUCT = struct.Struct(">BHHdddIIQQ")
_LIST, _SORTED = 0, 1
_NEVER = 65535
_TOKEN_BYTES = 8
_TOKEN_CHARACTERS = 12
_MAX_TOKENS = 2**32 - 1
# Scripts count in doubles, which are exact so far (140 years).
_MAX_US = 2**52


@dataclass(frozen=True, slots=True)
class Urgency:
    """Rank and cost of a message. Times in Unix seconds, work in integer microseconds.

    `key` is the latest start time (smallest first), `feasible_until` the moment after which it is
    demoted, `since` its age among the demoted; KV and prefill tokens are what admission counts.
    """

    key: float
    feasible_until: float = math.inf
    since: float = 0.0
    kv_tokens: int = 0
    prefill_tokens: int = 0
    prefill_us: int = 0
    decode_us: int = 0

    @property
    def cost(self) -> ClaimCost:
        """What admission compares with an allowance."""
        return ClaimCost(self.kv_tokens, self.prefill_tokens)

    def to_header(self) -> dict[str, Any]:
        """The value of the message header: `version` and seven `numbers`.

        JSON has no infinity, so None stands for it.
        """
        until = None if math.isinf(self.feasible_until) else self.feasible_until
        work = (self.kv_tokens, self.prefill_tokens, self.prefill_us, self.decode_us)
        return {"version": HEADER_VERSION, "numbers": [self.key, until, self.since, *work]}

    @classmethod
    def from_header(cls, header: Any) -> Urgency:
        """The urgency in a message header.

        Raises:
            ValueError: it is of another version, or not what `to_header` builds.
        """
        version = header.get("version") if isinstance(header, dict) else None
        if type(version) is not int or version != HEADER_VERSION:
            raise ValueError(f"version {version!r} of the header, not {HEADER_VERSION}")
        try:
            return cls._from_numbers(*header["numbers"])
        except (KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"not a header of version {HEADER_VERSION}: {error!r}") from error

    @classmethod
    def _from_numbers(
        cls,
        key: Any,
        until: Any,
        since: Any,
        kv_tokens: Any,
        prefill_tokens: Any,
        prefill_us: Any,
        decode_us: Any,
    ) -> Urgency:
        return cls(
            _finite(key),
            math.inf if until is None else _finite(until),
            _finite(since),
            _bounded(kv_tokens, _MAX_TOKENS),
            _bounded(prefill_tokens, _MAX_TOKENS),
            _bounded(prefill_us, _MAX_US),
            _bounded(decode_us, _MAX_US),
        )


def _finite(moment: Any) -> float:
    """What a sorted set can rank by; a script that is given anything else ends half-way."""
    seconds = float(moment)
    if not math.isfinite(seconds):
        raise ValueError(f"{moment!r} is no moment")
    return seconds


def _bounded(amount: Any, most: int) -> int:
    number = int(amount)
    if number < 0:
        raise ValueError(f"{amount!r} is no amount")
    return min(number, most)


@dataclass(frozen=True, slots=True)
class Queued:
    """One message as Redis holds it. `payload` is Kombu's JSON.

    `deliveries` is how often its lease ended; None when it was never delivered before.
    """

    token: str
    queue: str
    urgency: Urgency
    payload: bytes
    is_sorted: bool = True
    deliveries: int | None = None


@dataclass(frozen=True, slots=True)
class Claimed:
    """A message that this process holds now."""

    message: Queued

    @property
    def redelivered(self) -> bool:
        """Whether somebody had it before."""
        return self.message.deliveries is not None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message about to be queued: its token, and the value that the put script stores.

    `unread` says why its urgency header could not be read, where it had such a one.
    """

    token: str
    value: bytes = field(repr=False)
    unread: str | None = None


def token_of(identity: str) -> str:
    """The short name under which scripts know the message `identity` (its Celery task id).

    60 bits in 12 lower-case characters, whose order is the same in every locale.
    """
    digest = hashlib.blake2b(identity.encode(), digest_size=_TOKEN_BYTES).digest()
    return base64.b32hexencode(digest).decode().lower()[:_TOKEN_CHARACTERS]


def outgoing(queue: str, message: dict[str, Any], now: float) -> Outgoing:
    """Kombu's `message` for a sorted set.

    With an urgency header its identity is its task id, so that a request which is sent twice waits
    once. Without one (a client that knows nothing of us) it is the publication. Without one that
    can be read (a client of another release) it waits in order of arrival at `now` (Unix seconds).
    """
    headers = message.get("headers") or {}
    header = headers.get(HEADER)
    identity, urgency, unread = message["properties"]["delivery_tag"], Urgency(now, since=now), None
    if header is not None:
        headers = {name: value for name, value in headers.items() if name != HEADER}
        message = {**message, "headers": headers}
        identity = str(headers.get("id"))
        try:
            urgency = Urgency.from_header(header)
        except ValueError as error:
            unread = str(error)
    return Outgoing(token_of(identity), encode(queue, urgency, dumps(message).encode()), unread)


def encode(queue: str, urgency: Urgency, payload: bytes) -> bytes:
    """The stored value of a sorted set's message."""
    name = queue.encode()
    head = _STRUCT.pack(
        _SORTED,
        len(name),
        _NEVER,
        urgency.key,
        urgency.feasible_until,
        urgency.since,
        urgency.kv_tokens,
        urgency.prefill_tokens,
        urgency.prefill_us,
        urgency.decode_us,
    )
    return head + name + payload


def decode(token: bytes | str, value: bytes) -> Queued:
    """The message that `value` stores."""
    kind, length, ended, *numbers = _STRUCT.unpack_from(value)
    payload_at = _STRUCT.size + length
    name = token.decode() if isinstance(token, bytes) else token
    queue = value[_STRUCT.size : payload_at].decode()
    deliveries = None if ended == _NEVER else ended
    urgency, payload = Urgency(*numbers), value[payload_at:]
    return Queued(name, queue, urgency, payload, kind == _SORTED, deliveries)


def kombu_message(claimed: Claimed) -> dict[str, Any]:
    """The payload as Kombu delivers it: under our token, with its urgency and redelivery."""
    message = claimed.message
    payload: dict[str, Any] = loads(message.payload)
    payload["properties"]["delivery_tag"] = message.token
    headers = payload.setdefault("headers", {})
    if message.is_sorted:
        headers[HEADER] = message.urgency.to_header()
    if claimed.redelivered:
        headers["redelivered"] = True
        payload["properties"].setdefault("delivery_info", {})["redelivered"] = True
    return payload
