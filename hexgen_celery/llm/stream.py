"""Reading a streamed answer: server-sent events, and what they add up to."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

DONE = b"[DONE]"
CHARACTERS_PER_TOKEN = 4


class EventSplitter:
    """Cuts a byte stream into the payloads of its `data:` lines, however it was chunked."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The payloads that `chunk` completed."""
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        return [line[5:].strip() for line in lines if line.startswith(b"data:")]


@dataclass(slots=True)
class StreamedAnswer:
    """An answer as it grows. `error` holds what the server reported in mid-stream."""

    parts: list[str] = field(default_factory=list)
    finish_reason: str = ""
    usage: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    started: bool = False

    @property
    def text(self) -> str:
        """What has been said so far."""
        return "".join(self.parts)

    @property
    def complete(self) -> bool:
        """Whether the server said why it stopped; a cut connection leaves this False."""
        return bool(self.finish_reason)

    def take(self, payload: bytes) -> None:
        """Add one event.

        Raises:
            ValueError: the payload is not a JSON object.
        """
        if payload == DONE:
            return
        event = json.loads(payload)
        if not isinstance(event, dict):
            raise ValueError("an event of the stream is not a JSON object")
        self.take_event(event)

    def take_event(self, event: dict[str, Any]) -> None:
        """Add one chunk object, or the one object of an answer that was not streamed."""
        if event.get("error"):
            self.error = _as_object(event["error"])
        if event.get("usage"):
            self.usage = event["usage"]
        for choice in event.get("choices") or ():
            self._take_choice(choice)

    def _take_choice(self, choice: dict[str, Any]) -> None:
        delta = choice.get("delta") or choice.get("message") or {}
        content = delta.get("content")
        if content:
            self.parts.append(content)
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        # Thinking models stream their thoughts apart from the content: decoding has begun then.
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        if content or thought or self.finish_reason:
            self.started = True

    @property
    def cache_reported(self) -> bool:
        """Whether the server tells what it took from its prefix cache."""
        return (self.usage.get("prompt_tokens_details") or {}).get("cached_tokens") is not None

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens the server took from its prefix cache (0 where it does not tell)."""
        details = self.usage.get("prompt_tokens_details") or {}
        return int(details.get("cached_tokens") or 0)


def _as_object(error: object) -> dict[str, Any]:
    return error if isinstance(error, dict) else {"message": str(error)}


def estimated_tokens(text: str) -> int:
    """Tokens of `text` where nobody counts them: four characters each, rounded up."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)
