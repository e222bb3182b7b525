"""The sequences that are decoding: one token each per step."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from hexgen_celery.core.engine.kv import Lease
from hexgen_celery.core.engine.types import EngineRequest

Rank = tuple[float, int]


@dataclass(slots=True, eq=False)
class Sequence:
    """A request inside the server.

    `rank` orders sequences (lowest first); `target` tokens must be in KV before the next token can
    come (the prompt and, after a preemption, what had been generated), `computed` of them are;
    `emitted` tokens were generated before decoding began at step `joined`.
    """

    request: EngineRequest
    rank: Rank
    target: int
    computed: int = 0
    emitted: int = 0
    joined: int = 0
    lease: Lease | None = None
    cached_tokens: int | None = None
    aborted: bool = False
    decoding: bool = False

    def emitted_at(self, step: int) -> int:
        """Tokens generated when `step` steps are complete."""
        return self.emitted + (step - self.joined if self.decoding else 0)

    def held_at(self, step: int) -> int:
        """Tokens for which KV is held when `step` steps are complete."""
        return self.target + (step - self.joined if self.decoding else 0)


class DecodeBatch:
    """Decoding sequences under a common step counter, so that many steps can be taken at once.

    Because every sequence gains one token per step, a sequence's next block is due at a step that
    is fixed modulo the block size: counting sequences per residue gives the KV growth of any
    number of steps without looking at the sequences.
    """

    def __init__(self, block_tokens: int) -> None:
        self.step = 0
        self.context_tokens = 0
        self.members: dict[Sequence, None] = {}
        self._block_tokens = block_tokens
        self._due_at_residue = [0] * block_tokens
        self._finishing: list[tuple[int, int, Sequence]] = []

    def __len__(self) -> int:
        return len(self.members)

    def join(self, sequence: Sequence) -> None:
        """Start decoding a sequence whose first `emitted` tokens exist."""
        sequence.joined = self.step
        sequence.decoding = True
        self.members[sequence] = None
        self.context_tokens += sequence.target
        self._due_at_residue[self._residue(sequence)] += 1
        finish = self.step + sequence.request.output_tokens - sequence.emitted
        heapq.heappush(self._finishing, (finish, sequence.rank[1], sequence))

    def leave(self, sequence: Sequence) -> None:
        """Stop decoding a sequence, whose `target` and `emitted` then tell its progress."""
        self._due_at_residue[self._residue(sequence)] -= 1
        held, emitted = sequence.held_at(self.step), sequence.emitted_at(self.step)
        self.context_tokens -= held
        del self.members[sequence]
        sequence.decoding = False
        sequence.target, sequence.emitted = held, emitted

    def advance(self, steps: int) -> None:
        """Give every sequence `steps` tokens."""
        self.step += steps
        self.context_tokens += steps * len(self.members)

    def steps_to_finish(self) -> int:
        """Steps until the first sequence is done; the batch must not be empty."""
        self._drop_departed()
        return self._finishing[0][0] - self.step

    def pop_finished(self) -> list[Sequence]:
        """Remove and return the sequences that have all their tokens, in order."""
        finished: list[Sequence] = []
        while self._finishing and self._finishing[0][0] <= self.step:
            due, _, sequence = heapq.heappop(self._finishing)
            if self._is_current(due, sequence):
                self.leave(sequence)
                finished.append(sequence)
        return finished

    def growth(self, steps: int) -> int:
        """New KV blocks that the next `steps` steps need."""
        cycles, rest = divmod(steps, self._block_tokens)
        due = self._due_at_residue
        partial = sum(due[(self.step + i) % self._block_tokens] for i in range(rest))
        return cycles * len(self.members) + partial

    def affordable_steps(self, wanted: int, free_blocks: int) -> int:
        """How many of the next `wanted` steps fit into `free_blocks` new blocks."""
        if self.growth(wanted) <= free_blocks:
            return wanted
        cycles, left = divmod(free_blocks, len(self.members))
        steps = cycles * self._block_tokens
        while (due := self._due_at_residue[(self.step + steps) % self._block_tokens]) <= left:
            left -= due
            steps += 1
        return steps

    def _residue(self, sequence: Sequence) -> int:
        return (sequence.joined - sequence.target) % self._block_tokens

    def _is_current(self, due: int, sequence: Sequence) -> bool:
        if not sequence.decoding:
            return False
        return due == sequence.joined + sequence.request.output_tokens - sequence.emitted

    def _drop_departed(self) -> None:
        while not self._is_current(self._finishing[0][0], self._finishing[0][2]):
            heapq.heappop(self._finishing)
