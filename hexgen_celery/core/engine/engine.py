"""The scheduler of one server: which sequences take part in the next step.

It follows vLLM's: running sequences first, at the price of preempting the least urgent when KV runs
out; then waiting ones in order, while tokens of the step, sequences and KV are left, the first that
does not fit blocking the others. A prompt's KV is reserved whole when it is admitted.
"""

from __future__ import annotations

import heapq
from dataclasses import replace

from hexgen_celery.core.engine.batch import DecodeBatch, Rank, Sequence
from hexgen_celery.core.engine.kv import KvPool
from hexgen_celery.core.engine.stretch import Stretch
from hexgen_celery.core.engine.types import (
    EngineCounters,
    EngineEvent,
    EngineEventKind,
    EngineRequest,
)
from hexgen_celery.core.prefix import Prefix
from hexgen_celery.core.profiles import Profile


class Engine:
    """One server, moved through time by its caller. A time before the last one seen counts as it.

    Work submitted at the moment a step begins takes part in that step; work submitted during a
    step waits for its end.
    """

    def __init__(
        self, profile: Profile, *, prefix_cache: bool = True, priority: bool = True
    ) -> None:
        self.profile = profile
        self._priority = priority
        self._kv = KvPool(
            profile.kv_tokens // profile.block_tokens, profile.block_tokens, sharing=prefix_cache
        )
        self._batch = DecodeBatch(profile.block_tokens)
        self._sequences: dict[str, Sequence] = {}
        self._waiting: list[tuple[Rank, Sequence]] = []
        self._waiting_count = 0
        self._prefilling: Sequence | None = None
        self._chunks: list[tuple[Sequence, int]] = []
        self._aborting: list[Sequence] = []
        self._stretch: Stretch | None = None
        self._admission_closed = False
        self._events: list[EngineEvent] = []
        self._now = 0.0
        self._arrivals = 0
        self._counters = EngineCounters()

    def submit(self, request: EngineRequest, now: float) -> None:
        """Queue a request.

        Raises:
            ValueError: if it can never be served: a size below 1, longer than the model's context,
                more KV than the server has, or an id that is still in the server.
        """
        self._check(request)
        self._run_until(now)
        self._arrivals += 1
        rank = (request.priority if self._priority else 0.0, self._arrivals)
        sequence = Sequence(request, rank, target=request.input_tokens)
        self._sequences[request.request_id] = sequence
        self._enqueue(sequence)
        if self._waiting[0][1] is sequence and len(self) < self.profile.max_sequences:
            self._reconsider()

    def abort(self, request_id: str, now: float) -> bool:
        """Drop a request; it leaves a running step at the step's end. False if it is not here."""
        self._run_until(now)
        sequence = self._sequences.pop(request_id, None)
        if sequence is None:
            return False
        sequence.aborted = True
        if sequence.lease is None:
            self._waiting_count -= 1
            self._drop_aborted_waiting()
            return True
        self._aborting.append(sequence)
        self._reconsider()
        if self._stretch is None:
            self._release_aborted()
        return True

    def next_event_at(self) -> float | None:
        """When to call `advance` next; None while there is nothing to do.

        Nothing visible happens earlier unless something is submitted or aborted. The end of a chunk
        of a long prompt counts, although `advance` may then return no event.
        """
        if self._events:
            return self._now
        self._ensure_stretch()
        return self._stretch.end if self._stretch else None

    def advance(self, now: float) -> list[EngineEvent]:
        """Let time pass; return every event up to and including `now`, in order."""
        self._run_until(now)
        events, self._events = self._events, []
        return events

    def generated(self, request_id: str, now: float) -> int:
        """Tokens generated so far, as known after `advance(now)`.

        Raises:
            KeyError: if the request is not in the server (never was, finished or aborted).
        """
        sequence = self._sequences[request_id]
        return sequence.emitted_at(self._batch.step + self._steps_at(now) * sequence.decoding)

    def cached_tokens(self, prefix: Prefix, input_tokens: int | None = None) -> int:
        """Leading tokens of a prompt that would now be found in the prefix cache."""
        whole = sum(part.tokens for part in prefix) + 1
        return self._kv.cached_tokens(prefix, whole if input_tokens is None else input_tokens)

    def __len__(self) -> int:
        """Sequences that take part in steps."""
        started = sum(1 for sequence, _ in self._chunks if sequence is not self._prefilling)
        return len(self._batch) + (self._prefilling is not None) + started

    @property
    def running(self) -> int:
        """Requests that have been admitted and not aborted."""
        return len(self) - len(self._aborting)

    @property
    def waiting(self) -> int:
        """Requests that wait for admission."""
        return self._waiting_count

    @property
    def kv_capacity_tokens(self) -> int:
        """Tokens that fit into memory in whole blocks."""
        return self._kv.total_blocks * self.profile.block_tokens

    @property
    def kv_used_tokens(self) -> int:
        """Tokens of the blocks that running requests hold."""
        grown = self._batch.growth(self._steps_at(self._now))
        return (self._kv.used_blocks + grown) * self.profile.block_tokens

    @property
    def kv_cached_tokens(self) -> int:
        """Tokens of the blocks that nobody uses but that still hold what they held."""
        room = self.kv_capacity_tokens - self.kv_used_tokens
        return min(self._kv.evictable_blocks * self.profile.block_tokens, room)

    @property
    def counters(self) -> EngineCounters:
        """Totals at the last time seen."""
        steps = self._steps_at(self._now)
        elapsed = max(0.0, self._now - self._stretch.start) if self._stretch else 0.0
        return replace(
            self._counters,
            generation_tokens=self._counters.generation_tokens + steps * len(self._batch),
            steps=self._counters.steps + steps,
            busy_seconds=self._counters.busy_seconds + elapsed,
        )

    def _check(self, request: EngineRequest) -> None:
        for field in ("input_tokens", "output_tokens"):
            if getattr(request, field) < 1:
                raise ValueError(f"{field} must be at least 1, got {getattr(request, field)}")
        total = request.input_tokens + request.output_tokens
        if total > self.profile.max_model_len:
            raise ValueError(
                f"{total} tokens (input and output) exceed the model's {self.profile.max_model_len}"
            )
        if self._kv.blocks_for(total - 1) > self._kv.total_blocks:
            raise ValueError(f"{total} tokens exceed the KV memory of {self.profile.kv_tokens}")
        if request.request_id in self._sequences:
            raise ValueError(f"request {request.request_id} is already in the server")

    def _enqueue(self, sequence: Sequence) -> None:
        heapq.heappush(self._waiting, (sequence.rank, sequence))
        self._waiting_count += 1

    def _drop_aborted_waiting(self) -> None:
        while self._waiting and self._waiting[0][1].aborted:
            heapq.heappop(self._waiting)

    def _steps_at(self, now: float) -> int:
        return self._stretch.completed(now) if self._stretch else 0

    def _run_until(self, now: float) -> None:
        while self._now < now:
            self._ensure_stretch()
            if self._stretch is None or self._stretch.end > now:
                self._now = now
            else:
                self._complete()

    def _reconsider(self) -> None:
        """End the current stretch with the step in progress, because the work has changed."""
        stretch = self._stretch
        if stretch is None:
            return
        if stretch.start < self._now:
            done = stretch.completed(self._now)
            in_progress = stretch.start + stretch.duration(done) < self._now
            stretch.steps = max(1, done + in_progress)
        elif self._chunks:
            self._admit_waiting()
            self._plan_stretch()
        elif not self._admission_closed:
            self._stretch = None
        if self._stretch is stretch and stretch.end <= self._now:
            self._complete()

    def _ensure_stretch(self) -> None:
        if self._stretch is None and (self._batch.members or self._prefilling or self._waiting):
            self._admission_closed = self._preempt_for_growth()
            self._continue_prefill()
            self._admit_waiting()
            self._plan_stretch()

    def _preempt_for_growth(self) -> bool:
        """Make the next step's new blocks fit; true if somebody had to go."""
        preempted = False
        while self._batch.growth(1) > self._kv.free_blocks:
            self._preempt(self._least_urgent_running())
            preempted = True
        return preempted

    def _least_urgent_running(self) -> Sequence:
        candidates = list(self._batch.members)
        if self._prefilling:
            candidates.append(self._prefilling)
        return max(candidates, key=lambda sequence: sequence.rank)

    def _preempt(self, sequence: Sequence) -> None:
        self._release(sequence)
        sequence.target = sequence.request.input_tokens + sequence.emitted
        sequence.computed = 0
        self._enqueue(sequence)
        self._counters.preemptions += 1
        self._emit(EngineEventKind.PREEMPTED, sequence)

    def _release(self, sequence: Sequence) -> None:
        """Take a running sequence out of the batch and give back its memory."""
        if sequence.decoding:
            self._batch.leave(sequence)
        if sequence is self._prefilling:
            self._prefilling = None
        assert sequence.lease is not None
        self._kv.release(sequence.lease, sequence.target)
        sequence.lease = None

    def _step_budget(self) -> int:
        """Prompt tokens that the step being planned can still take."""
        taken = sum(tokens for _, tokens in self._chunks)
        return self.profile.max_batched_tokens - len(self._batch) - taken

    def _continue_prefill(self) -> None:
        if self._prefilling and self._step_budget() > 0:
            self._add_chunk(self._prefilling)

    def _admit_waiting(self) -> None:
        if self._admission_closed:
            return
        growth = self._batch.growth(1)
        while self._waiting and self._step_budget() > 0 and len(self) < self.profile.max_sequences:
            sequence = self._waiting[0][1]
            request = sequence.request
            lease = self._kv.acquire(request.prefix, request.input_tokens, sequence.target, growth)
            if lease is None:
                return
            heapq.heappop(self._waiting)
            self._waiting_count -= 1
            self._start(sequence, lease.hit_tokens)
            sequence.lease = lease
            self._add_chunk(sequence)
            self._drop_aborted_waiting()

    def _start(self, sequence: Sequence, hit_tokens: int) -> None:
        sequence.computed = hit_tokens
        self._counters.prefix_queries += sequence.target
        self._counters.prefix_hits += hit_tokens
        if sequence.cached_tokens is None:
            sequence.cached_tokens = hit_tokens
            self._counters.prompt_tokens += sequence.request.input_tokens

    def _add_chunk(self, sequence: Sequence) -> None:
        tokens = min(sequence.target - sequence.computed, self._step_budget())
        self._chunks.append((sequence, tokens))
        assert sequence.lease is not None
        self._kv.record(sequence.lease, sequence.computed + tokens)

    def _plan_stretch(self) -> None:
        steps = 1
        if not self._chunks:
            wanted = 1 if self._admission_closed else self._batch.steps_to_finish()
            steps = self._batch.affordable_steps(wanted, self._kv.free_blocks)
        prefill = sum(self.profile.prefill_seconds(n, s.computed) for s, n in self._chunks)
        self._stretch = Stretch(
            self.profile,
            self._now,
            steps,
            len(self._batch),
            self._batch.context_tokens,
            prefill,
        )

    def _complete(self) -> None:
        """Finish the current stretch: hand out its tokens and what follows from them."""
        stretch = self._stretch
        assert stretch is not None
        self._stretch = None
        self._now = stretch.end
        self._counters.busy_seconds += stretch.end - stretch.start
        self._counters.steps += stretch.steps
        self._counters.generation_tokens += stretch.steps * stretch.batch
        self._kv.grow(self._batch.growth(stretch.steps))
        self._batch.advance(stretch.steps)
        for sequence in self._batch.pop_finished():
            self._finish(sequence)
        chunks, self._chunks = self._chunks, []
        for sequence, tokens in chunks:
            self._complete_chunk(sequence, tokens)
        self._release_aborted()

    def _complete_chunk(self, sequence: Sequence, tokens: int) -> None:
        sequence.computed += tokens
        if sequence.computed < sequence.target:
            self._prefilling = sequence
            return
        if sequence is self._prefilling:
            self._prefilling = None
        sequence.emitted += 1
        self._counters.generation_tokens += 1
        if sequence.emitted == 1:
            self._emit(EngineEventKind.FIRST_TOKEN, sequence)
        if sequence.emitted == sequence.request.output_tokens:
            self._finish(sequence)
        else:
            self._batch.join(sequence)

    def _finish(self, sequence: Sequence) -> None:
        self._release(sequence)
        if not sequence.aborted:
            del self._sequences[sequence.request.request_id]
            self._emit(EngineEventKind.FINISHED, sequence)

    def _release_aborted(self) -> None:
        for sequence in self._aborting:
            if sequence.lease is not None:
                self._release(sequence)
        self._aborting.clear()

    def _emit(self, kind: EngineEventKind, sequence: Sequence) -> None:
        if not sequence.aborted:
            self._events.append(
                EngineEvent(
                    kind, sequence.request.request_id, self._now, sequence.cached_tokens or 0
                )
            )
