"""What goes to an LLM server and what comes back, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One chat completion to ask for. Lengths in tokens.

    `messages` are (role, content) pairs. `priority` is in seconds, lower first (a latest start
    time); servers get it as whole milliseconds because vLLM takes integers only.
    `forced_output_tokens` asks for exactly that many tokens (`min_tokens`, `max_tokens` and
    `ignore_eos`), which vLLM and the emulated instance honour.
    """

    model: str
    messages: tuple[tuple[str, str], ...]
    max_tokens: int
    temperature: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    response_format: Mapping[str, Any] | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    priority: float | None = None
    forced_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer. Times in seconds from the moment the successful attempt was sent.

    Token counts are the server's own `usage`; where it reports none, four characters count as one
    token and `usage_reported` is False. Where it does not tell what its prefix cache held,
    `cached_tokens` is 0 and `cache_reported` is False. `attempts` counts HTTP attempts, the
    successful one included; `server` is the base URL that answered.
    """

    text: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    finish_reason: str
    first_token_seconds: float
    seconds: float
    attempts: int
    server: str
    usage_reported: bool = True
    cache_reported: bool = True
