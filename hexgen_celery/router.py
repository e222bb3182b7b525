"""The live router: a Celery task route that chooses pool and instance of every LLM request."""

from __future__ import annotations

import heapq
import random
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import redis

from hexgen_celery.closing import Closing
from hexgen_celery.core.order import OrderPolicy, build_order
from hexgen_celery.core.profiles import Profile
from hexgen_celery.core.registry import UnknownName
from hexgen_celery.core.scoring import (
    decode_seconds,
    prefill_ahead_seconds,
    prefill_seconds,
    uncached_tokens,
)
from hexgen_celery.core.views import ClusterView, InstanceView, RequestView, Target
from hexgen_celery.eligibility import NoPool, no_pool, with_room
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.instances import InstanceRecord, own_queue
from hexgen_celery.keys import Keys
from hexgen_celery.learning import Knowledge, SharedKnowledge
from hexgen_celery.live_cluster import (
    MICROSECONDS,
    LiveCluster,
    Profiles,
    Wanted,
    usable_records,
    wanted_by,
)
from hexgen_celery.live_snapshot import Snapshot, SnapshotReader
from hexgen_celery.names import SQL_QUEUE
from hexgen_celery.outbox import OutboxEntry, Placement
from hexgen_celery.part_tokens import PartTokens
from hexgen_celery.policies import PolicyBook
from hexgen_celery.prefix_caches import PrefixCaches
from hexgen_celery.profiles_io import load_profile
from hexgen_celery.prompt_tokens import PromptTokens, prompt_tokens
from hexgen_celery.request_outlook import Outlook, outlook
from hexgen_celery.request_urgency import Work, question_urgency, request_urgency
from hexgen_celery.settings import Settings
from hexgen_celery.sibling_slack import SiblingSlack
from hexgen_celery.transport.messages import HEADER, Urgency
from hexgen_celery.workflows.definition import LlmCall

CONSIDERED = 8


@dataclass(slots=True)
class Decision:
    """The routing of one message in progress: what is sent, and where it goes once decided."""

    entry: OutboxEntry
    placement: Placement | None = None


@dataclass(frozen=True, slots=True)
class _Choice:
    """What a policy chose, and by what."""

    policy: str
    target: Target
    view: InstanceView
    expected: Outlook
    prompt: PromptTokens

    def reasons(self) -> dict[str, float | str]:
        """Why, for the trace."""
        target = self.target
        return {
            "policy": self.policy,
            "instance": self.view.instance,
            "score": round(target.score, 6),
            "considered": _considered(target),
            **{name: round(value, 6) for name, value in target.reasons.items()},
            **self.expected.reasons(),
        }


_deciding: ContextVar[Decision | None] = ContextVar("deciding", default=None)


class LiveRouter(Closing):
    """Chooses by the policy in force over ready instances, the ledger, and what was learnt.

    One round trip to Redis per decision, none without. Safe from many threads: policies and
    caches keep state, so that decisions are made one at a time. To be closed before its client.

    Raises:
        InvalidSettings: the dispatch policy or one of its parameters is unknown.
        InvalidProfile: a declared pool's profile cannot be read.
    """

    def __init__(
        self, client: redis.Redis, keys: Keys, settings: Settings, rng: random.Random | None = None
    ) -> None:
        self.knowledge = SharedKnowledge(client, keys)
        self._snapshots = SnapshotReader(client, keys)
        self._dead_after = settings.workers.dead_after_seconds
        # Kombu's lists cannot be emptied when an instance goes; a pool's outlasts its instances.
        self._own_queues = settings.broker.transport == "urgency"
        self._book = PolicyBook(settings.router, rng or random.Random())
        self._order = _order(settings)
        self._profiles = Profiles()
        self._caches = PrefixCaches(uuid.uuid4().hex[:8])
        self._cluster = LiveCluster(self._profiles, self._caches)
        self._siblings = SiblingSlack()
        self._part_tokens = PartTokens(client, keys)
        self._lock = threading.Lock()
        self._last: Snapshot | None = None
        for pool in settings.pools:
            load_profile(pool.profile)

    def close(self) -> None:
        """Learn nothing any more; decisions go on with what is known."""
        self.knowledge.close()
        self._part_tokens.close()

    @contextmanager
    def deciding(self, entry: OutboxEntry) -> Iterator[Decision]:
        """Route the message that the block publishes as the request of `entry`."""
        decision = Decision(entry)
        token = _deciding.set(decision)
        try:
            yield decision
        finally:
            _deciding.reset(token)

    def route(
        self,
        _name: str,
        _args: Any = None,
        _kwargs: Any = None,
        _options: Any = None,
        task: Any = None,  # noqa: ARG002
        **_extra: Any,
    ) -> dict[str, Any] | None:
        """Celery's task route: queue and urgency of the request being sent; None for others."""
        decision = _deciding.get()
        if decision is None:
            return None
        decision.placement = self.place(decision.entry)
        return _destination(decision.placement)

    def place(self, entry: OutboxEntry) -> Placement:
        """Where `entry` goes now, and the work that adds to the ledger.

        Raises:
            NoPool: no pool with a ready instance can serve it.
        """
        call = entry.spec.call
        if not isinstance(call, LlmCall):
            return Placement(SQL_QUEUE, urgency=question_urgency(entry.submission))
        snapshot = self._snapshots.read()
        with self._lock:
            self._observe(snapshot)
            return self._decide(entry, call, snapshot)

    def reconsidered(self, entry: OutboxEntry, urgency: Urgency) -> Urgency:
        """The urgency of a request that waits with `urgency`, by what is known now; the same where
        nobody could take it now."""
        call = entry.spec.call
        if not isinstance(call, LlmCall):
            return urgency
        snapshot = self._last or self._fresh()
        with self._lock:
            try:
                records, prompt = self._fitting(entry, call, snapshot)
            except NoPool:
                return urgency
            expected = self._outlook(entry, call, prompt, records, snapshot.now)
        work = Work(prefill_us=urgency.prefill_us, decode_us=urgency.decode_us)
        fresh = request_urgency(expected.view, work, self._order)
        return replace(urgency, key=fresh.key, feasible_until=fresh.feasible_until)

    def usable_queues(self) -> set[str]:
        """Queues that a ready instance serves now: those of instances and of their pools."""
        records = self._usable(self._fresh())
        return {queue for each in records for queue in (each.queue, each.own_queue)}

    def _usable(self, snapshot: Snapshot, wanted: Wanted | None = None) -> list[InstanceRecord]:
        alive = usable_records(
            snapshot.records, now=snapshot.now, dead_after_seconds=self._dead_after, wanted=wanted
        )
        return [record for record in alive if not self._profiles.trouble(record)]

    def _fresh(self) -> Snapshot:
        snapshot = self._snapshots.read()
        with self._lock:
            self._observe(snapshot)
        return snapshot

    def _observe(self, snapshot: Snapshot) -> None:
        """Take over what a snapshot tells, once: who exists, and what others placed."""
        self._last = snapshot
        self._cluster.follow(snapshot.records)
        self._caches.read(snapshot.notes)

    def _decide(self, entry: OutboxEntry, call: LlmCall, snapshot: Snapshot) -> Placement:
        choice = self._choose(entry, call, snapshot)
        request, view = choice.expected.view, choice.view
        work = _work_on(request, view)
        end = snapshot.now + prefill_ahead_seconds(view) + work.seconds
        placement = self._placement(choice, work, end)
        self._cluster.placed(view, snapshot.now, work)
        ref = entry.ref
        self._siblings.placed(ref.workflow_id, request.stage, ref.node_id, end)
        return placement

    def _choose(self, entry: OutboxEntry, call: LlmCall, snapshot: Snapshot) -> _Choice:
        records, prompt = self._fitting(entry, call, snapshot)
        known = self.knowledge.current()

        def cached_share(instance: str) -> float:
            return known.cache_factor(instance) * prompt.per_counted

        views = self._cluster.views(records, snapshot, cached_share)
        expected = self._outlook(entry, call, prompt, records, snapshot.now)
        policy = self._book.policy(snapshot.policies, records[0].model, entry.submission.tenant)
        target = policy.choose(expected.view, ClusterView(snapshot.now, views))
        return _Choice(policy.name, target, _chosen(views, target), expected, prompt)

    def _fitting(
        self, entry: OutboxEntry, call: LlmCall, snapshot: Snapshot
    ) -> tuple[list[InstanceRecord], PromptTokens]:
        """The usable instances with room for the request, and how long its prompt is for them.

        Raises:
            NoPool: there is none.
        """
        wanted = wanted_by(entry.submission)
        able = self._usable(snapshot, wanted)
        if entry.too_short:
            able = [each for each in able if each.is_longer_than(entry.too_short)]
        if able:
            prompt = self._prompt_tokens(call, able[0].model, able, self.knowledge.current())
            records = with_room(able, call, prompt)
            if records:
                return records, prompt
        raise no_pool(snapshot, wanted, call, self._profiles)

    def _placement(self, choice: _Choice, work: Work, end: float) -> Placement:
        request, instance = choice.expected.view, choice.view.instance
        believed = self._caches.cached_tokens(instance, request.prefix)
        urgency = request_urgency(request, work, self._order)
        return Placement(
            queue=self._queue(choice.target, choice.view),
            prefill_tokens=work.prefill_tokens,
            output_tokens=work.output_tokens,
            prefill_us=work.prefill_us,
            decode_us=work.decode_us,
            budget=choice.expected.budget,
            expected_end=round(end, 3),
            urgency=urgency,
            reasons={
                "cached": round(choice.prompt.per_counted * believed),
                "latest_start": round(urgency.key, 3),
                **choice.reasons(),
            },
            note=self._caches.placed(instance, request).to_json(),
        )

    def _queue(self, target: Target, view: InstanceView) -> str:
        bound = self._own_queues and target.instance is not None
        return own_queue(target.pool, view.instance) if bound else target.pool

    def _prompt_tokens(
        self, call: LlmCall, model: str, records: Sequence[InstanceRecord], known: Knowledge
    ) -> PromptTokens:
        factor = known.token_factor(record.name for record in records)
        return prompt_tokens(call, self._part_tokens.of(call, model), factor)

    def _outlook(
        self,
        entry: OutboxEntry,
        call: LlmCall,
        prompt: PromptTokens,
        records: Sequence[InstanceRecord],
        now: float,
    ) -> Outlook:
        profiles: dict[str, Profile] = {
            record.profile: self._profiles.of(record) for record in records
        }
        own = self._siblings.slack(entry.ref.workflow_id, entry.spec.stage, entry.ref.node_id, now)
        slack = max(own, entry.siblings_until - now)
        return outlook(
            entry,
            call,
            self.knowledge.current(),
            profiles.values(),
            now=now,
            prompt=prompt,
            slack_seconds=slack,
        )


def _order(settings: Settings) -> OrderPolicy:
    try:
        return build_order(settings.queues.order)
    except UnknownName as error:
        raise InvalidSettings(
            str(error), field="queues.order", hint="see docs/scheduling.md for the orders"
        ) from error


def _destination(placement: Placement) -> dict[str, Any]:
    """What Celery's router must know: the queue, and the header that the message is queued by."""
    if placement.urgency is None:
        return {"queue": placement.queue}
    return {"queue": placement.queue, "headers": {HEADER: placement.urgency.to_header()}}


def _chosen(views: Sequence[InstanceView], target: Target) -> InstanceView:
    """The instance whose profile prices the request: the target, or the first of its pool."""
    return next(
        view
        for view in views
        if view.pool == target.pool and target.instance in (None, view.instance)
    )


def _considered(target: Target) -> str:
    """The best of what it was chosen from, with their scores, for people."""
    best = heapq.nsmallest(CONSIDERED, target.scores.items(), key=itemgetter(1))
    return ", ".join(f"{name} {score:.4g}" for name, score in best)


def _work_on(request: RequestView, view: InstanceView) -> Work:
    uncached = uncached_tokens(request, view)
    return Work(
        prefill_tokens=uncached,
        output_tokens=round(request.output_tokens),
        prefill_us=round(prefill_seconds(request, view, uncached) * MICROSECONDS),
        decode_us=round(decode_seconds(request, view) * MICROSECONDS),
    )
