"""What goes into the engine model and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hexgen_celery.core.prefix import Prefix


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """One request as a server sees it. Sizes in tokens; a lower `priority` is served first.

    `output_tokens` is the truth (how many tokens will be generated); `prefix` is the shareable
    beginning of the prompt and part of `input_tokens`.
    """

    request_id: str
    input_tokens: int
    output_tokens: int
    prefix: Prefix = ()
    priority: float = 0.0


class EngineEventKind(StrEnum):
    """What a client of the server could notice."""

    FIRST_TOKEN = "first_token"
    FINISHED = "finished"
    PREEMPTED = "preempted"


@dataclass(frozen=True, slots=True)
class EngineEvent:
    """Something that happened to a request at `at` seconds.

    `cached_tokens` (with FIRST_TOKEN and FINISHED) counts the prompt tokens found in the cache when
    the request was first admitted.
    """

    kind: EngineEventKind
    request_id: str
    at: float
    cached_tokens: int = 0


@dataclass(slots=True)
class EngineCounters:
    """Totals since the start, named after vLLM's metrics. Tokens, except where said otherwise.

    `prefix_queries` and `prefix_hits` count again when a preempted request is recomputed;
    `prompt_tokens` counts every request once. `preemptions` counts events, `steps` engine steps,
    `busy_seconds` the time spent in them.
    """

    prompt_tokens: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    steps: int = 0
    busy_seconds: float = 0.0
