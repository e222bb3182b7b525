"""A model of one vLLM server: when each of its requests gets a first token and finishes.

Continuous batching with chunked prefill, KV growth and preemption, a finite prefix cache and
priorities, driven by an injected time. The simulator advances it through virtual time, the emulated
server through the wall clock.

`kv` owns memory blocks and the prefix cache, `batch` the decoding sequences, `stretch` the duration
of steps, `engine` the scheduler that ties them together.
"""

from hexgen_celery.core.engine.engine import Engine
from hexgen_celery.core.engine.types import (
    EngineCounters,
    EngineEvent,
    EngineEventKind,
    EngineRequest,
)

__all__ = ["Engine", "EngineCounters", "EngineEvent", "EngineEventKind", "EngineRequest"]
