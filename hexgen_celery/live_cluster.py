"""The live cluster as dispatch policies see it: announced instances with the ledger's load."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hexgen_celery.core.profiles import Profile
from hexgen_celery.core.views import ClusterView, InstanceView, RequestView
from hexgen_celery.instances import InstanceRecord
from hexgen_celery.ledger import LedgerView, Load
from hexgen_celery.outbox import OutboxEntry
from hexgen_celery.settings import Settings
from hexgen_celery.workflows.definition import LlmCall

MICROSECONDS = 1_000_000


def declared_records(settings: Settings) -> list[InstanceRecord]:
    """The instances of the configuration, as if they had been announced at time 0."""
    return [
        InstanceRecord(
            name=instance.name,
            queue=pool.queue,
            gpu=pool.gpu,
            model=pool.model,
            profile=pool.profile,
            url=instance.url or "",
            worker="",
            concurrency=pool.concurrency,
        )
        for pool in settings.pools
        for instance in pool.instances
    ]


def usable_records(
    announced: Sequence[InstanceRecord],
    declared: Sequence[InstanceRecord],
    *,
    now: float,
    dead_after_seconds: float,
    model: str = "",
) -> list[InstanceRecord]:
    """Instances that requests for `model` (empty: any) may be sent to.

    Those alive; when none is, declared ones that were never announced, because their workers are
    still starting and will find the requests in their queue. One announced and dead is never used.
    """
    alive = [record for record in announced if record.alive(now, dead_after_seconds)]
    known = {record.name for record in announced}
    starting = [record for record in declared if record.name not in known]
    wanted = [record for record in alive if model in ("", record.model)]
    return wanted or [record for record in starting if model in ("", record.model)]


def cluster_view(
    records: Sequence[InstanceRecord],
    ledger: LedgerView,
    profiles: Mapping[str, Profile],
    *,
    now: float,
    assigned_seconds: Mapping[str, float],
) -> ClusterView:
    """The view over `records`; what waits in a pool's queue is shared equally by its instances."""
    sizes = Counter(record.queue for record in records)
    running = {
        queue: sum_loads([ledger.instance(r.name) for r in records if r.queue == queue])
        for queue in sizes
    }
    views = [
        _instance_view(
            record,
            profiles[record.profile],
            ledger.instance(record.name),
            _share(ledger.queue(record.queue), running[record.queue], sizes[record.queue]),
            assigned_seconds.get(record.name, 0.0),
        )
        for record in records
    ]
    return ClusterView(now, views)


def request_view(entry: OutboxEntry, call: LlmCall, now: float) -> RequestView:
    """The request as policies see it. Times in Unix seconds."""
    submission = entry.submission
    return RequestView(
        request_id=str(entry.ref),
        workflow_id=entry.ref.workflow_id,
        stage=entry.spec.stage,
        step=entry.spec.step,
        database=submission.database,
        tenant=submission.tenant,
        model=str(submission.options.get("model", "")),
        input_tokens=call.input_tokens,
        output_tokens=call.output_tokens,
        prefix=call.prefix,
        submitted_at=submission.submitted_at,
        deadline=submission.deadline,
        ready_at=now,
        remaining_seconds=0.0,
        remaining_p10_seconds=0.0,
    )


def sum_loads(loads: Sequence[Load]) -> Load:
    """All of them together."""
    return Load(
        running=sum(load.running for load in loads),
        prefill_tokens=sum(load.prefill_tokens for load in loads),
        output_tokens=sum(load.output_tokens for load in loads),
        prefill_us=sum(load.prefill_us for load in loads),
        decode_us=sum(load.decode_us for load in loads),
    )


@dataclass(frozen=True, slots=True)
class _Share:
    """One instance's share of what waits in its pool's queue."""

    requests: float
    prefill_tokens: float
    output_tokens: float
    exec_seconds: float


def _share(queue: Load, running: Load, instances: int) -> _Share:
    """Queue counters cover waiting and running requests; instances' the running ones only."""
    work_us = queue.prefill_us + queue.decode_us - running.prefill_us - running.decode_us
    return _Share(
        requests=queue.waiting / instances,
        prefill_tokens=max(0, queue.prefill_tokens - running.prefill_tokens) / instances,
        output_tokens=max(0, queue.output_tokens - running.output_tokens) / instances,
        exec_seconds=max(0, work_us) / MICROSECONDS / instances,
    )


def _instance_view(
    record: InstanceRecord, profile: Profile, load: Load, share: _Share, assigned: float
) -> InstanceView:
    return InstanceView(
        instance=record.name,
        pool=record.queue,
        gpu=record.gpu,
        profile=profile,
        running=load.running,
        waiting=math.ceil(share.requests),
        outstanding_prefill_tokens=load.prefill_tokens + share.prefill_tokens,
        outstanding_output_tokens=load.output_tokens + share.output_tokens,
        running_output_tokens=load.output_tokens,
        waiting_exec_seconds=share.exec_seconds,
        assigned_seconds=assigned,
    )
