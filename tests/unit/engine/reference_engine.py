"""A slow, plain second implementation of the engine's rules, to compare the fast one with.

One loop turn per step, one object per KV block, no closed forms.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from hexgen_celery.core.engine import EngineRequest
from hexgen_celery.core.profiles import Profile

BlockName = tuple[str, ...]
Seen = tuple[str, str, float, int]


@dataclass(eq=False)
class Block:
    name: BlockName | None = None
    users: int = 0


@dataclass(eq=False)
class Job:
    request: EngineRequest
    rank: tuple[float, int]
    target: int
    computed: int = 0
    kv: int = 0
    emitted: int = 0
    blocks: list[Block] = field(default_factory=list)
    cached: int | None = None
    decoding: bool = False


class ReferenceEngine:
    def __init__(self, profile: Profile, prefix_cache: bool = True, priority: bool = True) -> None:
        self.profile = profile
        self.size = profile.block_tokens
        self.prefix_cache = prefix_cache
        self.priority = priority
        self.free: OrderedDict[Block, None] = OrderedDict(
            (Block(), None) for _ in range(profile.kv_tokens // self.size)
        )
        self.by_name: dict[BlockName, Block] = {}
        self.waiting: list[Job] = []
        self.running: list[Job] = []
        self.events: list[Seen] = []
        self.time = 0.0

    def block_names(self, request: EngineRequest) -> list[BlockName]:
        """Names of the full shareable blocks: all tokens from the start, spelled by part."""
        spelled: list[str] = []
        for number, part in enumerate(request.prefix):
            room = request.input_tokens - 1 - len(spelled)
            tokens = min(part.tokens, room)
            if tokens <= 0:
                break
            spelled += [f"{number}:{part.key}/{tokens}"] * tokens
        names = []
        for end in range(self.size, len(spelled) + 1, self.size):
            chain = tuple(dict.fromkeys(spelled[:end]))
            names.append((*chain, f"#{end}"))
        return names if self.prefix_cache else []

    def take(self) -> Block:
        block, _ = self.free.popitem(last=False)
        if block.name is not None:
            del self.by_name[block.name]
            block.name = None
        block.users = 1
        return block

    def give_back(self, job: Job) -> None:
        for block in reversed(job.blocks):
            block.users -= 1
            if block.users == 0:
                self.free[block] = None
        job.blocks = []

    def run(self, arrivals: list[tuple[float, EngineRequest]]) -> list[Seen]:
        pending = [
            Job(r, (r.priority if self.priority else 0.0, i), r.input_tokens)
            for i, (_, r) in enumerate(arrivals)
        ]
        times = [at for at, _ in arrivals]
        while pending or self.waiting or self.running:
            while pending and times[0] <= self.time:
                self.waiting.append(pending.pop(0))
                times.pop(0)
            if not self.waiting and not self.running:
                self.time = times[0]
                continue
            self.step()
        return self.events

    def step(self) -> None:
        self.waiting.sort(key=lambda job: job.rank)
        closed = False
        decoding = [job for job in self.running if job.decoding]
        while sum(job.kv % self.size == 0 for job in decoding) > len(self.free):
            victim = max(self.running, key=lambda job: job.rank)
            self.running.remove(victim)
            decoding = [job for job in self.running if job.decoding]
            self.give_back(victim)
            victim.target = victim.request.input_tokens + victim.emitted
            victim.computed = victim.kv = 0
            victim.decoding = False
            self.waiting.append(victim)
            self.see("preempted", victim)
            closed = True
        growth = sum(job.kv % self.size == 0 for job in decoding)
        budget = self.profile.max_batched_tokens - len(decoding)
        chunks: list[tuple[Job, int]] = []
        for job in self.running:
            if not job.decoding and budget > 0:
                chunk = min(budget, job.target - job.computed)
                budget -= chunk
                chunks.append((job, chunk))
                self.name_blocks(job, job.computed + chunk)
        self.waiting.sort(key=lambda job: job.rank)
        while (
            not closed
            and self.waiting
            and budget > 0
            and len(self.running) < self.profile.max_sequences
        ):
            job = self.waiting[0]
            if not self.admit(job, growth):
                break
            self.waiting.pop(0)
            self.running.append(job)
            chunk = min(budget, job.target - job.computed)
            budget -= chunk
            chunks.append((job, chunk))
            self.name_blocks(job, job.computed + chunk)
        self.finish_step(decoding, chunks)

    def admit(self, job: Job, growth: int) -> bool:
        hits = []
        for name in self.block_names(job.request):
            if name not in self.by_name:
                break
            hits.append(self.by_name[name])
        # As in the engine, a part that runs elsewhere is shared whole, even where not yet computed.
        needed = -(-job.target // self.size) - len(hits)
        idle_hits = sum(block.users == 0 for block in hits)
        if needed + idle_hits + growth > len(self.free):
            return False
        for block in hits:
            block.users += 1
            self.free.pop(block, None)
        job.blocks = hits + [self.take() for _ in range(needed)]
        job.computed = len(hits) * self.size
        if job.cached is None:
            job.cached = job.computed
        return True

    def name_blocks(self, job: Job, computed: int) -> None:
        for block, name in zip(job.blocks, self.block_names(job.request), strict=False):
            if int(name[-1][1:]) <= computed and block.name is None:
                assert name not in self.by_name
                block.name = name
                self.by_name[name] = block

    def finish_step(self, decoding: list[Job], chunks: list[tuple[Job, int]]) -> None:
        for job in decoding:
            if job.kv % self.size == 0:
                job.blocks.append(self.take())
            job.kv += 1
        prefill = sum(self.profile.prefill_seconds(n, job.computed) for job, n in chunks)
        context = sum(job.kv for job in decoding)
        if decoding:
            self.time += self.profile.decode_step_seconds(len(decoding), context) + prefill
        else:
            self.time += max(self.profile.prefill_base + prefill, self.profile.decode_base)
        for job, tokens in chunks:
            job.computed += tokens
        for job in decoding:
            self.emit(job)
        for job, _ in chunks:
            if job.computed == job.target:
                job.kv = job.target
                job.decoding = True
                self.emit(job)

    def emit(self, job: Job) -> None:
        job.emitted += 1
        if job.emitted == 1:
            self.see("first_token", job)
        if job.emitted == job.request.output_tokens:
            self.running.remove(job)
            self.give_back(job)
            self.see("finished", job)

    def see(self, kind: str, job: Job) -> None:
        self.events.append((kind, job.request.request_id, self.time, job.cached or 0))
