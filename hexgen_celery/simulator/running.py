"""Running a configuration: draw, train, simulate, sum up."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from hexgen_celery.core.fleet import Fleet
from hexgen_celery.errors import InvalidWorkload
from hexgen_celery.simulator.bounds import Bounds, conserved_throughput, fastest_seconds
from hexgen_celery.simulator.config import (
    RECORDED,
    Choice,
    Policies,
    SimulationConfig,
    SloClass,
)
from hexgen_celery.simulator.forecast import Forecast
from hexgen_celery.simulator.observation import Observer
from hexgen_celery.simulator.plan import CHAT, QuestionPlan
from hexgen_celery.simulator.population import DrawnQuestion, draw_population, typical_chats
from hexgen_celery.simulator.results import (
    ChatSummary,
    QuestionRecord,
    SimulationResult,
    StabilityRule,
    percentile,
)
from hexgen_celery.simulator.simulation import Simulation
from hexgen_celery.workloads import Workload, WorkloadQuestion

# Far more than any question takes, so that idle runs never overlap.
IDLE_GAP_SECONDS = 36_000.0
IDLE_QUESTIONS = 60
IDLE_WARMUP = 20

IdleKey = tuple[Workload, Fleet, int, float, bool, str, str]
_idle_medians: dict[IdleKey, float] = {}


def run(config: SimulationConfig) -> SimulationResult:
    """Simulate one configuration.

    Raises:
        InvalidWorkload: if the workload has no such questions or one that the fleet cannot serve.
        UnknownName, InvalidParameter: if a policy or its parameter does not exist.
    """
    base = config.slo_base_seconds
    return _run(config, idle_median_seconds(config) if base is None else base)


def idle_median_seconds(config: SimulationConfig) -> float:
    """Median latency of the workload's questions, one at a time on the idle fleet (cached).

    Requests go where they end first; the prefix caches are warm from earlier questions.
    """
    key = (
        config.workload,
        config.fleet,
        config.databases,
        config.zipf,
        config.prefix_cache,
        config.split,
        config.train_split,
    )
    if key not in _idle_medians:
        idle = SimulationConfig(
            workload=config.workload,
            fleet=config.fleet,
            rate=1.0 / IDLE_GAP_SECONDS,
            policies=Policies(dispatch=Choice("alpha-own"), order=Choice("fcfs")),
            questions=IDLE_QUESTIONS,
            warmup=IDLE_WARMUP,
            cooldown=0,
            databases=config.databases,
            zipf=config.zipf,
            arrivals=Choice("regular"),
            classes=(SloClass("idle", 1.0, 1.0),),
            prefix_cache=config.prefix_cache,
            split=config.split,
            train_split=config.train_split,
        )
        _idle_medians[key] = _run(idle, IDLE_GAP_SECONDS).percentile(0.5)
    return _idle_medians[key]


def _run(config: SimulationConfig, slo_base: float) -> SimulationResult:
    population = draw_population(config, slo_base)
    _check_servable(population, config.fleet)
    measured = [drawn for drawn in population if drawn.measured]
    observer = Observer((measured[0].at, measured[-1].at), config.keep_requests)
    simulation = Simulation(config, population, _trained(config), observer)
    started = time.perf_counter()
    end = simulation.run()
    wall = time.perf_counter() - started
    return _result(config, slo_base, population, simulation, observer, end, wall)


def _trained(config: SimulationConfig) -> Forecast:
    forecast = Forecast(config.fleet)
    lines = config.workload.part(config.train_split) or config.workload.questions
    forecast.train(QuestionPlan.of(line) for line in lines)
    for line in typical_chats(config):
        forecast.learn_output(line.requests[0], line.database)
    return forecast


def _check_servable(population: Sequence[DrawnQuestion], fleet: Fleet) -> None:
    longest = max(
        (request.input_tokens + request.output_tokens, drawn.line.question, request.step)
        for drawn in population
        for request in drawn.line.requests
    )
    for instance in fleet.instances:
        profile = instance.profile
        room = min(profile.max_model_len, profile.kv_tokens - profile.block_tokens)
        if longest[0] > room:
            raise InvalidWorkload(
                f"request {longest[2]} of question {longest[1]} has {longest[0]} tokens; instance "
                f"{instance.name} holds at most {room}",
                field="input_tokens",
                hint="use a fleet with more memory or a longer context, or a smaller workload",
            )


def _result(
    config: SimulationConfig,
    slo_base: float,
    population: Sequence[DrawnQuestion],
    simulation: Simulation,
    observer: Observer,
    end: float,
    wall: float,
) -> SimulationResult:
    records = _records(config, population, observer)
    backlog = [count for _, count in observer.backlog]
    first, last = observer.probe_times
    window = last - first
    rule = StabilityRule()
    engines = [each for server in simulation.servers.values() for each in server.counters]
    queries = sum(counters.prefix_queries for counters in engines)
    policies = config.policies
    return SimulationResult(
        dispatch=policies.dispatch.name,
        order=policies.order.name,
        admission=policies.admission.name,
        stealing=policies.stealing.name,
        rate=_offered_rate(config, len(records), window),
        seed=config.seed,
        slo_base_seconds=slo_base,
        questions=records,
        requests=tuple(observer.requests),
        throughput=_answered_between(population, observer, first, last) / window if window else 0.0,
        stable=rule.stable(backlog),
        backlog_growth=rule.growth(backlog),
        utilisation=_utilisation(config.fleet, observer, window),
        tokens_per_step=_tokens_per_step(config.fleet, simulation),
        cache_hits=sum(c.prefix_hits for c in engines) / queries if queries else 0.0,
        preemptions=sum(counters.preemptions for counters in engines),
        bounds=_bounds(records, [drawn.line for drawn in population if drawn.measured], config),
        chat=_chat_summary(population, observer),
        finished_requests=observer.finished_requests,
        simulated_seconds=end,
        wall_seconds=wall,
    )


def _offered_rate(config: SimulationConfig, questions: int, window: float) -> float:
    """The rate that was asked for, or that of the recorded arrivals (questions per second)."""
    if config.arrivals.name != RECORDED or not window:
        return config.rate
    return (questions - 1) / window


def _records(
    config: SimulationConfig, population: Sequence[DrawnQuestion], observer: Observer
) -> tuple[QuestionRecord, ...]:
    fastest: dict[int, float] = {}
    records = []
    for drawn in population:
        if not drawn.measured:
            continue
        if id(drawn.line) not in fastest:
            fastest[id(drawn.line)] = fastest_seconds(drawn.line, config.fleet)
        records.append(
            QuestionRecord(
                number=drawn.number,
                question=drawn.line.question,
                database=drawn.database,
                slo_class=drawn.slo_class,
                tenant=drawn.tenant,
                submitted=drawn.at,
                finished=observer.ends.get(drawn.number, math.inf),
                deadline=drawn.deadline,
                fastest_seconds=fastest[id(drawn.line)],
            )
        )
    return tuple(records)


def _answered_between(
    population: Sequence[DrawnQuestion], observer: Observer, first: float, last: float
) -> int:
    return sum(
        drawn.slo_class != CHAT and first <= observer.ends.get(drawn.number, math.inf) <= last
        for drawn in population
    )


def _utilisation(fleet: Fleet, observer: Observer, window: float) -> dict[str, float]:
    before, after = observer.busy
    shares: dict[str, list[float]] = {pool: [] for pool in fleet.pools}
    for instance in fleet.instances:
        busy = after[instance.name] - before[instance.name]
        shares[instance.pool].append(busy / window if window else 0.0)
    return {pool: sum(each) / len(each) for pool, each in shares.items()}


def _tokens_per_step(fleet: Fleet, simulation: Simulation) -> dict[str, float]:
    figures = {}
    for pool in fleet.pools:
        servers = (s for s in simulation.servers.values() if s.pool.name == pool)
        counters = [each for server in servers for each in server.counters]
        steps = sum(each.steps for each in counters)
        figures[pool] = sum(each.generation_tokens for each in counters) / steps if steps else 0.0
    return figures


def _bounds(
    records: Sequence[QuestionRecord], lines: Sequence[WorkloadQuestion], config: SimulationConfig
) -> Bounds:
    fastest = [record.fastest_seconds for record in records]
    return Bounds(
        percentile(fastest, 0.5),
        percentile(fastest, 0.95),
        conserved_throughput(lines, config.fleet),
    )


def _chat_summary(population: Sequence[DrawnQuestion], observer: Observer) -> ChatSummary | None:
    chats = [drawn for drawn in population if drawn.slo_class == CHAT]
    if not chats:
        return None
    ends = [observer.ends.get(drawn.number, math.inf) for drawn in chats]
    latencies = [end - drawn.at for end, drawn in zip(ends, chats, strict=True)]
    met = sum(end <= drawn.deadline for end, drawn in zip(ends, chats, strict=True))
    return ChatSummary(len(chats), percentile(latencies, 0.95), met / len(chats))
