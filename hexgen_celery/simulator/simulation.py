"""The simulation itself: events in virtual time, decided by the policies of `core`."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from functools import partial

from hexgen_celery.core.admission import build_admission
from hexgen_celery.core.budgets import BudgetLedger
from hexgen_celery.core.dispatch import NoReadyInstance, build_dispatch
from hexgen_celery.core.engine import EngineEvent, EngineEventKind
from hexgen_celery.core.order import build_order, claim
from hexgen_celery.core.stealing import build_stealing
from hexgen_celery.core.views import ClusterView, RequestView
from hexgen_celery.simulator.config import Incident, IncidentKind, SimulationConfig
from hexgen_celery.simulator.forecast import Forecast
from hexgen_celery.simulator.observation import Observer
from hexgen_celery.simulator.plan import CHAT, QuestionPlan
from hexgen_celery.simulator.population import DrawnQuestion, stream
from hexgen_celery.simulator.server import Attempt, LiveQuestion, Pool, Server
from hexgen_celery.simulator.stealing import seconds_to_end, steal_candidates
from hexgen_celery.workloads import WorkloadQuestion

Action = Callable[[float], None]


class Simulation:
    """One run over a drawn population. `run` may be called once."""

    def __init__(
        self,
        config: SimulationConfig,
        population: list[DrawnQuestion],
        forecast: Forecast,
        observer: Observer,
    ) -> None:
        policies = config.policies
        self._config = config
        self._population = population
        self._forecast = forecast
        self._observer = observer
        self._stage_means = forecast.stage_means()
        rng = stream(config.seed, "dispatch")
        self._dispatch = build_dispatch(policies.dispatch.name, rng, **policies.dispatch.parameters)
        self._order = build_order(policies.order.name, **policies.order.parameters)
        self._admission = build_admission(policies.admission.name, **policies.admission.parameters)
        self._stealing = build_stealing(policies.stealing.name, **policies.stealing.parameters)
        self._rules = policies.claim
        self._pools = {name: Pool(name) for name in config.fleet.pools}
        self.servers: dict[str, Server] = {}
        for spec in config.fleet.instances:
            pool = self._pools[spec.pool]
            server = Server(
                spec,
                pool,
                prefix_cache=config.prefix_cache,
                engine_priority=config.engine_priority,
            )
            pool.servers.append(server)
            self.servers[spec.name] = server
        self._views = [server.view for server in self.servers.values()]
        self._plans: dict[int, QuestionPlan] = {}
        self._parked: list[Attempt] = []
        self._touched: dict[Server, None] = {}
        self._agenda: list[tuple[float, int, Action]] = []
        self._scheduled = 0

    def run(self) -> float:
        """Play everything to its end; returns the time of the last event (simulated seconds)."""
        self._prepare()
        now = 0.0
        while self._agenda:
            now, _, action = heapq.heappop(self._agenda)
            action(now)
            self._plan_wakes()
        return now

    def _prepare(self) -> None:
        first: dict[str, Incident] = {}
        for incident in sorted(self._config.incidents, key=lambda incident: incident.at):
            first.setdefault(incident.instance, incident)
            self._at(incident.at, partial(self._incident, incident))
        for incident in first.values():
            if incident.kind is IncidentKind.UP:
                self.servers[incident.instance].view.ready = False
        for drawn in self._population:
            self._at(drawn.at, partial(self._arrive, drawn))
        for moment in self._observer.probe_times:
            self._at(moment, self._probe)

    def _at(self, moment: float, action: Action) -> None:
        heapq.heappush(self._agenda, (moment, self._scheduled, action))
        self._scheduled += 1

    def _plan_wakes(self) -> None:
        """Ask every engine that was given work when to look at it again."""
        for server in self._touched:
            moment = server.engine.next_event_at()
            if moment is not None and moment != server.wake_at:
                self._at(moment, partial(self._wake, server))
            server.wake_at = moment
        self._touched.clear()

    def _arrive(self, drawn: DrawnQuestion, now: float) -> None:
        plan = self._plan(drawn.line)
        question = LiveQuestion(
            drawn, plan, [node.prerequisites for node in plan.nodes], len(plan.nodes)
        )
        if drawn.slo_class != CHAT:
            question.budgets = BudgetLedger(now, drawn.deadline - now, self._stage_means)
        self._observer.arrived(drawn, now)
        for index, node in enumerate(plan.nodes):
            if not node.prerequisites:
                self._reveal(question, index, now)

    def _plan(self, line: WorkloadQuestion) -> QuestionPlan:
        plan = self._plans.get(id(line))
        if plan is None:
            plan = self._plans[id(line)] = QuestionPlan.of(line)
        return plan

    def _reveal(self, question: LiveQuestion, index: int, now: float, number: int = 1) -> None:
        """A request's prerequisites are complete (or its last attempt was lost): place it."""
        drawn, node = question.drawn, question.plan.nodes[index]
        request = node.request
        output = self._forecast.output_tokens(request, question.plan.database)
        mean, p10 = self._forecast.remaining(node, question.plan.database)
        suffix = f"#{number}" if number > 1 else ""
        view = RequestView(
            request_id=f"{drawn.number}.{index}{suffix}",
            workflow_id=str(drawn.number),
            stage=request.stage,
            step=request.step,
            database=drawn.database,
            tenant=drawn.tenant,
            model=self._config.fleet.model,
            input_tokens=request.input_tokens,
            output_tokens=output,
            prefix=request.prefix(drawn.database),
            submitted_at=drawn.at,
            deadline=drawn.deadline,
            ready_at=now,
            remaining_seconds=mean,
            remaining_p10_seconds=p10,
            stage_budget_seconds=self._stage_budget(question, request.stage, now, number),
            slack_seconds=question.slack(index, request.stage, now),
        )
        self._place(Attempt(view.request_id, view, question, index, number, drawn.at), now)

    def _stage_budget(self, question: LiveQuestion, stage: str, now: float, number: int) -> float:
        if question.budgets is None or stage not in self._stage_means:
            return question.drawn.deadline - now
        if number > 1:
            return question.budgets.left(now)
        return question.budgets.open(stage, now)

    def _place(self, attempt: Attempt, now: float) -> None:
        """Dispatch a request into a queue and let the servers there look at it."""
        try:
            target = self._dispatch.choose(attempt.view, ClusterView(now, self._views))
        except NoReadyInstance:
            self._parked.append(attempt)
            return
        pool = self._pools[target.pool]
        if target.instance is None:
            server = min(
                (server for server in pool.servers if server.view.ready),
                key=lambda server: server.view.running + server.view.waiting,
            )
            # Whoever has most room asks first, as idle workers would.
            queue = pool.queue
            takers = sorted(pool.servers, key=lambda server: server.view.running)
        else:
            server = self.servers[target.instance]
            queue, takers = server.queue, [server]
        end = now + seconds_to_end(attempt.view, server.view)
        attempt.question.expected_ends[attempt.node] = (attempt.view.stage, end)
        server.expect(attempt)
        attempt.queue = queue
        attempt.key = self._order.key(attempt.view, attempt.exec_seconds)
        attempt.feasible_until = self._order.feasible_until(attempt.view)
        queue.put(attempt)
        for taker in takers:
            self._claim(taker, now)
        if self._stealing.enabled and attempt.queue is not None:
            self._offer(now)

    def _offer(self, now: float) -> None:
        """Something waits: let idle servers look at it, since nothing else wakes them."""
        for server in self.servers.values():
            if not server.running:
                self._claim(server, now)

    def _claim(self, server: Server, now: float) -> None:
        """Let a server take what it has room for."""
        while server.view.ready:
            allowance = self._admission.allowance(server.load())
            if not allowance.sequences:
                return
            queues = (server.queue, server.pool.queue) if server.pool.queue else (server.queue,)
            choice = claim(queues, now, server.claims, allowance, self._rules)
            taken = choice.taken
            if choice.passed_over is not None:
                choice.passed_over.passed_over += 1
            if taken is None and self._stealing.enabled and not server.queue:
                stolen = self._stealing.choose(
                    steal_candidates(server, self.servers.values()), allowance
                )
                taken = stolen.entry if stolen else None
            if taken is None:
                return
            self._take(server, taken, now)

    def _take(self, server: Server, attempt: Attempt, now: float) -> None:
        assert attempt.queue is not None
        assert attempt.server is not None
        attempt.queue.remove(attempt.request_id)
        attempt.queue = None
        if attempt.server is not server:
            attempt.server.dismiss(attempt)
            server.expect(attempt)
        server.start(attempt, now)
        self._touched[server] = None

    def _wake(self, server: Server, now: float) -> None:
        if server.wake_at == now:
            self._advance(server, now)

    def _advance(self, server: Server, now: float) -> None:
        for event in server.engine.advance(now):
            self._handle(server, event, now)
        self._claim(server, now)
        self._touched[server] = None

    def _handle(self, server: Server, event: EngineEvent, now: float) -> None:
        attempt = server.running[event.request_id]
        if event.kind is EngineEventKind.FIRST_TOKEN:
            server.first_token(attempt, event.at)
        elif event.kind is EngineEventKind.FINISHED:
            server.finish(attempt)
            self._observer.request_finished(attempt, now, event.cached_tokens)
            self._complete(attempt, now)

    def _complete(self, attempt: Attempt, now: float) -> None:
        """Move the DAG on: one request is done."""
        question = attempt.question
        question.left -= 1
        question.expected_ends.pop(attempt.node, None)
        stage = attempt.view.stage
        if question.budgets is not None and stage in self._stage_means:
            question.budgets.close(stage, now)
        for successor in question.plan.nodes[attempt.node].successors:
            question.missing[successor] -= 1
            if not question.missing[successor]:
                self._reveal(question, successor, now)
        if not question.left:
            self._observer.answered(question.drawn, now)

    def _probe(self, now: float) -> None:
        for server in self.servers.values():
            self._advance(server, now)
        busy = {
            name: sum(counters.busy_seconds for counters in server.counters)
            for name, server in self.servers.items()
        }
        self._observer.probe(now, busy)

    def _incident(self, incident: Incident, now: float) -> None:
        server = self.servers[incident.instance]
        if incident.kind is IncidentKind.UP:
            server.view.ready = True
            parked, self._parked = self._parked, []
            self._place_all(parked, now)
            self._claim(server, now)
            return
        server.view.ready = False
        moved = self._evacuate(server)
        if incident.kind is IncidentKind.DOWN:
            self._advance_lost(server, now)
        self._place_all(moved, now)

    def _advance_lost(self, server: Server, now: float) -> None:
        """What ended before the loss counts; what ran starts again as a new attempt."""
        for event in server.engine.advance(now):
            self._handle(server, event, now)
        for attempt in server.lose():
            self._reveal(attempt.question, attempt.node, now, attempt.number + 1)

    def _evacuate(self, server: Server) -> list[Attempt]:
        """Empty the queue of a server that takes no more, and its pool's if it was the last one."""
        queues = [server.queue]
        if not any(other.view.ready for other in server.pool.servers):
            queues.append(server.pool.queue)
        moved = [attempt for queue in queues for attempt in queue]
        for attempt in moved:
            assert attempt.queue is not None
            assert attempt.server is not None
            attempt.queue.remove(attempt.request_id)
            attempt.server.dismiss(attempt)
        return moved

    def _place_all(self, attempts: Iterable[Attempt], now: float) -> None:
        for attempt in attempts:
            attempt.passed_over = 0
            self._place(attempt, now)
