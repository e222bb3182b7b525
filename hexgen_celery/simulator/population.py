"""Which questions arrive in a run: lines, databases, classes, tenants, chat requests.

Each kind of choice has its own stream of random numbers, which no policy touches: two runs that
differ in policy or rate alone see the same questions (common random numbers).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from hexgen_celery.errors import InvalidWorkload
from hexgen_celery.simulator.arrivals import build_arrivals, unit_poisson
from hexgen_celery.simulator.config import RECORDED, ChatLoad, SimulationConfig
from hexgen_celery.simulator.plan import CHAT
from hexgen_celery.workloads import WorkloadQuestion, WorkloadRequest


@dataclass(frozen=True, slots=True)
class DrawnQuestion:
    """One question of a run. `at` and `deadline` in simulated seconds."""

    number: int
    at: float
    line: WorkloadQuestion
    database: str
    slo_class: str
    tenant: str
    deadline: float
    measured: bool


def stream(seed: int, name: str) -> random.Random:
    """The random numbers of one kind of choice."""
    return random.Random(f"{seed}:{name}")


def draw_population(config: SimulationConfig, slo_base: float) -> list[DrawnQuestion]:
    """All questions and chat requests of a run by time of arrival.

    Raises:
        InvalidWorkload: if the split is empty, or recorded arrivals are asked for and absent.
    """
    recorded = config.arrivals.name == RECORDED
    questions = _replayed(config, slo_base) if recorded else _drawn(config, slo_base)
    if config.chat:
        questions += _chat(config.chat, config.seed, questions[-1].at, len(questions))
    return sorted(questions, key=lambda question: (question.at, question.number))


def typical_chats(config: SimulationConfig, count: int = 50) -> list[WorkloadQuestion]:
    """Chat requests such as come in the run, but others: to learn from; none without chat load."""
    rng = stream(config.seed, "earlier chat")
    return [_chat_line(config.chat, rng) for _ in range(count)] if config.chat else []


def _drawn(config: SimulationConfig, slo_base: float) -> list[DrawnQuestion]:
    lines = config.workload.part(config.split)
    if not lines:
        raise InvalidWorkload(
            f"workload {config.workload.name} has no questions in split {config.split!r}",
            field="split",
            hint="mark lines with that split, or choose another one",
        )
    seed, count = config.seed, config.warmup + config.questions + config.cooldown
    process = build_arrivals(config.arrivals.name, **config.arrivals.parameters)
    times = process.times(count, config.rate, stream(seed, "arrivals"))
    drawn_lines = stream(seed, "lines").choices(lines, k=count)
    databases = stream(seed, "databases").choices(
        range(config.databases), _zipf_weights(config.databases, config.zipf), k=count
    )
    classes = stream(seed, "classes").choices(
        config.classes, [entry.share for entry in config.classes], k=count
    )
    tenants = stream(seed, "tenants").choices(
        [tenant.name for tenant in config.tenants], [t.share for t in config.tenants], k=count
    )
    last = config.warmup + config.questions
    return [
        DrawnQuestion(
            number=number,
            at=times[number],
            line=drawn_lines[number],
            database=f"{drawn_lines[number].database}.{databases[number]}",
            slo_class=classes[number].name,
            tenant=tenants[number],
            deadline=times[number] + classes[number].factor * slo_base,
            measured=config.warmup <= number < last,
        )
        for number in range(count)
    ]


def _replayed(config: SimulationConfig, slo_base: float) -> list[DrawnQuestion]:
    """The recorded questions as they came; those without an own SLO get a drawn class."""
    workload = config.workload
    if not workload.recorded:
        raise InvalidWorkload(
            f"workload {workload.name} does not say when its questions arrived",
            field="arrival",
            hint="choose a drawn process such as poisson, or record a trace",
        )
    lines = sorted(workload.questions, key=lambda line: line.arrival or 0.0)
    first = lines[0].arrival or 0.0
    classes = stream(config.seed, "classes").choices(
        config.classes, [entry.share for entry in config.classes], k=len(lines)
    )
    questions = []
    for number, (line, drawn) in enumerate(zip(lines, classes, strict=True)):
        at = (line.arrival or 0.0) - first
        own = line.slo_seconds
        questions.append(
            DrawnQuestion(
                number=number,
                at=at,
                line=line,
                database=line.database,
                slo_class=drawn.name if own is None else f"{own:g} s",
                tenant=line.tenant or config.tenants[0].name,
                deadline=at + (drawn.factor * slo_base if own is None else own),
                measured=True,
            )
        )
    return questions


def _chat(load: ChatLoad, seed: int, until: float, first_number: int) -> list[DrawnQuestion]:
    rng = stream(seed, CHAT)
    times = [at / load.rate for at in unit_poisson(int(load.rate * until) + 1, rng)]
    return [
        DrawnQuestion(
            number=first_number + number,
            at=at,
            line=_chat_line(load, rng),
            database="",
            slo_class=CHAT,
            tenant=CHAT,
            deadline=at + load.slo_seconds,
            measured=False,
        )
        for number, at in enumerate(times)
        if at <= until
    ]


def _chat_line(load: ChatLoad, rng: random.Random) -> WorkloadQuestion:
    # A lognormal with this mean has its median lower by exp(−spread² / 2).
    size = [
        max(1, round(mean * rng.lognormvariate(-(load.spread**2) / 2, load.spread)))
        for mean in (load.input_tokens, load.output_tokens)
    ]
    request = WorkloadRequest(0, CHAT, CHAT, (), size[0], size[1])
    return WorkloadQuestion(CHAT, "", (request,))


def _zipf_weights(count: int, exponent: float) -> list[float]:
    return [1.0 / (rank + 1) ** exponent for rank in range(count)]
