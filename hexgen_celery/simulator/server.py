"""One simulated instance: engine, queue, and the ledger from which policies see its load."""

from __future__ import annotations

from dataclasses import dataclass, field

from hexgen_celery.core.admission import ClaimCost, EngineLoad, claim_cost
from hexgen_celery.core.budgets import BudgetLedger
from hexgen_celery.core.engine import Engine, EngineCounters, EngineRequest
from hexgen_celery.core.fleet import FleetInstance
from hexgen_celery.core.order import WaitingQueue
from hexgen_celery.core.prefix_ledger import PrefixLedger
from hexgen_celery.core.scoring import decode_seconds, prefill_seconds
from hexgen_celery.core.views import InstanceView, RequestView
from hexgen_celery.simulator.plan import QuestionPlan
from hexgen_celery.simulator.population import DrawnQuestion

NO_COST = ClaimCost(0.0, 0.0)


@dataclass(slots=True, eq=False)
class LiveQuestion:
    """A question in the system: what its DAG still waits for, node by node."""

    drawn: DrawnQuestion
    plan: QuestionPlan
    missing: list[int]
    left: int
    budgets: BudgetLedger | None = None
    expected_ends: dict[int, tuple[str, float]] = field(default_factory=dict)

    def slack(self, node: int, stage: str, now: float) -> float:
        """Seconds that the slowest other request of the stage under way is expected to take."""
        ends = (
            end for other, (at, end) in self.expected_ends.items() if at == stage and other != node
        )
        return max(0.0, max(ends, default=now) - now)


@dataclass(slots=True, eq=False)
class Attempt:
    """One try at one request; waits in a queue by the fields that the claim rule reads.

    `server` is where its load is accounted. Times in simulated seconds.
    """

    request_id: str
    view: RequestView
    question: LiveQuestion
    node: int
    number: int
    since: float
    key: float = 0.0
    feasible_until: float = 0.0
    cost: ClaimCost = NO_COST
    passed_over: int = 0
    server: Server | None = None
    queue: WaitingQueue[Attempt] | None = None
    uncached: int = 0
    exec_seconds: float = 0.0
    claimed_at: float = 0.0
    first_token_at: float | None = None

    @property
    def output_estimate(self) -> int:
        """L̂_out in whole tokens."""
        return int(self.view.output_tokens)


@dataclass(slots=True)
class Pool:
    """Interchangeable servers and the queue they share."""

    name: str
    servers: list[Server] = field(default_factory=list)
    queue: WaitingQueue[Attempt] = field(default_factory=WaitingQueue)


class Server:
    """An instance under simulation."""

    def __init__(
        self, spec: FleetInstance, pool: Pool, *, prefix_cache: bool, engine_priority: bool = True
    ) -> None:
        self.name = spec.name
        self.profile = spec.profile
        self.pool = pool
        self.queue: WaitingQueue[Attempt] = WaitingQueue()
        self.running: dict[str, Attempt] = {}
        self.claims = 0
        self.wake_at: float | None = None
        self._prefix_cache = prefix_cache
        self._engine_priority = engine_priority
        self._past_counters: list[EngineCounters] = []
        self._claimed_kv = 0
        self._claimed_prefill = 0
        self._prefixes = PrefixLedger(spec.profile, enabled=prefix_cache)
        self.engine = Engine(spec.profile, prefix_cache=prefix_cache)
        self.view = InstanceView(
            instance=spec.name,
            pool=spec.pool,
            gpu=spec.profile.gpu,
            profile=spec.profile,
            cached_tokens=self._prefixes.cached_tokens,
        )

    @property
    def counters(self) -> list[EngineCounters]:
        """The engine's totals, one entry per start of the server."""
        return [*self._past_counters, self.engine.counters]

    def load(self) -> EngineLoad:
        """What admission looks at."""
        return EngineLoad(self.profile, len(self.running), self._claimed_kv, self._claimed_prefill)

    def expect(self, attempt: Attempt) -> None:
        """Account a request that was sent here and waits."""
        view, request = self.view, attempt.view
        cached = self._prefixes.cached_tokens(request.prefix)
        attempt.server = self
        attempt.cost = claim_cost(request, cached)
        attempt.uncached = max(0, request.input_tokens - cached)
        attempt.exec_seconds = prefill_seconds(request, view, attempt.uncached)
        attempt.exec_seconds += decode_seconds(request, view)
        self._prefixes.note(request.prefix, request.input_tokens, attempt.output_estimate)
        view.waiting += 1
        view.outstanding_prefill_tokens += attempt.uncached
        view.outstanding_output_tokens += attempt.output_estimate
        view.waiting_exec_seconds += attempt.exec_seconds
        view.assigned_seconds += attempt.exec_seconds

    def dismiss(self, attempt: Attempt) -> None:
        """Take back what `expect` accounted: the request goes elsewhere, or starts."""
        view = self.view
        view.waiting -= 1
        view.outstanding_prefill_tokens -= attempt.uncached
        view.outstanding_output_tokens -= attempt.output_estimate
        # Sums of seconds are not exact; an empty queue is.
        left = view.waiting_exec_seconds - attempt.exec_seconds
        view.waiting_exec_seconds = left if view.waiting else 0.0

    def start(self, attempt: Attempt, now: float) -> None:
        """Hand a request that is accounted here to the engine.

        Raises:
            ValueError: if the engine can never serve it.
        """
        view, request = self.view, attempt.view
        node = attempt.question.plan.nodes[attempt.node].request
        self.engine.submit(
            EngineRequest(
                attempt.request_id,
                node.input_tokens,
                node.output_tokens,
                request.prefix,
                attempt.key if self._engine_priority else 0.0,
            ),
            now,
        )
        self.dismiss(attempt)
        attempt.claimed_at = now
        self.claims += 1
        self.running[attempt.request_id] = attempt
        view.running += 1
        view.outstanding_prefill_tokens += attempt.uncached
        view.outstanding_output_tokens += attempt.output_estimate
        view.running_output_tokens += attempt.output_estimate
        view.running_context_tokens += request.input_tokens
        self._claimed_prefill += attempt.uncached
        self._claimed_kv += attempt.uncached + attempt.output_estimate
        view.kv_used_tokens = self._claimed_kv

    def first_token(self, attempt: Attempt, now: float) -> None:
        """The prompt of a running request is computed."""
        attempt.first_token_at = now
        self._discharge_prefill(attempt)

    def finish(self, attempt: Attempt) -> None:
        """A running request is complete."""
        view = self.view
        del self.running[attempt.request_id]
        view.running -= 1
        view.outstanding_output_tokens -= attempt.output_estimate
        view.running_output_tokens -= attempt.output_estimate
        view.running_context_tokens -= attempt.view.input_tokens
        self._claimed_kv -= attempt.uncached + attempt.output_estimate
        view.kv_used_tokens = self._claimed_kv

    def lose(self) -> list[Attempt]:
        """The server dies: everything that ran is lost and returned, the cache is cold."""
        lost = list(self.running.values())
        for attempt in lost:
            if attempt.first_token_at is None:
                self._discharge_prefill(attempt)
            self.finish(attempt)
        self._past_counters.append(self.engine.counters)
        self.engine = Engine(self.profile, prefix_cache=self._prefix_cache)
        self._prefixes.clear()
        self.wake_at = None
        return lost

    def _discharge_prefill(self, attempt: Attempt) -> None:
        self._claimed_prefill -= attempt.uncached
        self.view.outstanding_prefill_tokens -= attempt.uncached
