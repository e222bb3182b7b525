"""What `hexgen top` draws. Pure: an overview in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from hexgen_celery.cli.output import moment, table
from hexgen_celery.errors import HexgenError
from hexgen_celery.live_cluster import Profiles
from hexgen_celery.overview import ClusterCounts, Overview, QuestionAtWork
from hexgen_celery.overview.counts import InstanceCounts, PoolCounts, TenantCounts
from hexgen_celery.transport.inspection import WaitingRequest

LEAST_ROWS = 2
FRAME_LINES = 3
ID_CHARACTERS = 8
QUESTION_CHARACTERS = 40

INSTANCE_COLUMNS = ("instance", "pool", "state", "running", "waiting", "KV", "heard of", "why")
QUEUE_COLUMNS = ("queue", "waiting", "late", "running", "work", "ready")
URGENT_COLUMNS = ("laxity", "", "queue", "task", "request")
RISK_COLUMNS = ("laxity", "left", "question", "tenant", "id", "last event")
TENANT_COLUMNS = ("tenant", "SLO class", "in flight", "accepted", "refused", "answered", "in time")

Row = tuple[Any, ...]
Section = tuple[str, tuple[str, ...], list[Row]]

_profiles = Profiles()


def render(overview: Overview, height: int) -> RenderableType:
    """The whole picture in about `height` lines; a table that is cut says so."""
    filled = [section for section in _sections(overview) if section[2]]
    room = shares([len(rows) for _, _, rows in filled], height - 2)
    parts: list[RenderableType] = [Text(headline(overview), style="bold")]
    for (title, columns, rows), most in zip(filled, room, strict=True):
        cut = f" (first {most} of {len(rows)})" if len(rows) > most else ""
        parts.append(table(title + cut, columns, rows[:most]))
    return Group(*parts)


def shares(lengths: Sequence[int], height: int) -> list[int]:
    """Rows for each table out of `height` lines: small ones whole, the others alike."""
    left = height - FRAME_LINES * len(lengths)
    given = [0] * len(lengths)
    for place in sorted(range(len(lengths)), key=lambda place: lengths[place]):
        tables = sum(1 for each in given if not each)
        given[place] = max(LEAST_ROWS, min(lengths[place], left // tables))
        left -= given[place]
    return given


def headline(overview: Overview) -> str:
    """The state in one line, with what needs somebody's care."""
    counts = overview.counts
    parts = [
        moment(counts.now),
        f"{counts.questions_running} questions running",
        f"{len(overview.at_risk)} at risk",
        f"{counts.requests_running} requests running",
        *_worries(counts),
    ]
    return "   ".join(parts)


def _worries(counts: ClusterCounts) -> Iterator[str]:
    if counts.submissions_waiting:
        yield f"{counts.submissions_waiting} not accepted yet"
    if counts.outbox.unsent:
        yield f"{counts.outbox.unsent} unsent"
    if counts.leases_overdue:
        yield f"{counts.leases_overdue} leases overdue"
    if counts.dead_letters:
        yield f"{counts.dead_letters} dead letters"


def _sections(overview: Overview) -> list[Section]:
    counts = overview.counts
    tenants = [row for tenant in counts.tenants for row in _tenant_rows(tenant)]
    return [
        ("instances", INSTANCE_COLUMNS, [_instance_row(each) for each in counts.instances]),
        ("queues", QUEUE_COLUMNS, [_pool_row(pool, counts) for pool in counts.pools]),
        ("most urgent", URGENT_COLUMNS, [_urgent_row(each) for each in overview.urgent]),
        ("at risk", RISK_COLUMNS, [_risk_row(each) for each in overview.at_risk]),
        ("tenants", TENANT_COLUMNS, tenants),
    ]


def _instance_row(instance: InstanceCounts) -> Row:
    record = instance.record
    return (
        record.name,
        record.queue,
        str(instance.state),
        f"{instance.running}/{record.concurrency}",
        instance.waiting,
        _kv(instance),
        f"{instance.beat_age_seconds:.1f} s ago",
        record.reason,
    )


def _kv(instance: InstanceCounts) -> str:
    """The estimated share of KV memory in use."""
    try:
        return f"{instance.kv_tokens / _profiles.of(instance.record).kv_tokens:.0%}"
    except HexgenError:
        return "—"


def _pool_row(pool: PoolCounts, counts: ClusterCounts) -> Row:
    own = [each for each in counts.instances if each.record.queue == pool.name]
    ready = sum(each.state == "ready" for each in own)
    work = f"{pool.work_seconds:.1f} s"
    served = f"{ready}/{len(own)}" if own or pool.name.startswith("gpu.") else ""
    return (pool.name, pool.waiting, pool.late, pool.running, work, served)


def _urgent_row(request: WaitingRequest) -> Row:
    late = "too late" if request.demoted else ""
    return (_signed(request.laxity), late, request.queue, request.task, _short(request.task_id))


def _risk_row(question: QuestionAtWork) -> Row:
    return (
        _signed(question.laxity),
        _signed(question.left),
        question.question[:QUESTION_CHARACTERS],
        " ".join(part for part in (question.tenant, question.slo_class) if part),
        question.id,
        question.doing,
    )


def _tenant_rows(tenant: TenantCounts) -> Iterator[Row]:
    for name, counted in sorted(tenant.classes.items()):
        ended = sum(counted.get(end, 0) for end in ("answered", "failed", "expired"))
        met = f"{counted.get('met', 0) / ended:.1%}" if ended else "—"
        shown = [counted.get(measure, 0) for measure in ("accepted", "refused", "answered")]
        yield (tenant.tenant, name or "—", tenant.in_flight, *shown, met)


def _signed(seconds: float | None) -> str:
    return "—" if seconds is None else f"{seconds:+.1f} s"


def _short(task_id: str) -> str:
    """A request by the beginning of its question's id, its node and attempt."""
    workflow, _, rest = task_id.partition("/")
    return f"{workflow[:ID_CHARACTERS]}…/{rest}" if rest else workflow
