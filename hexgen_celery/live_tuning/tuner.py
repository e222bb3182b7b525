"""The tuner of a running deployment: looks back, simulates, decides, checks itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import redis
import structlog

from hexgen_celery.core.clock import Clock, WallClock
from hexgen_celery.errors import InvalidWorkload
from hexgen_celery.instances import InstanceDirectory, InstanceRecord
from hexgen_celery.keys import Keys
from hexgen_celery.live_tuning.entries import KEPT, TuningEntry, TuningStore, review_json
from hexgen_celery.live_tuning.incumbent import incumbent, plain, put_in_force, with_alpha
from hexgen_celery.live_tuning.judging import Judgement, judged
from hexgen_celery.live_tuning.past import LiveFleet, live_fleet, measured_outcomes, sped_up
from hexgen_celery.live_tuning.review import ReviewRules, next_backoff
from hexgen_celery.live_tuning.scopes import TuningScope, for_model, of_scope, scopes_of
from hexgen_celery.live_tuning.steady import SteadyCluster
from hexgen_celery.live_tuning.turn import tuners_turn
from hexgen_celery.policies import PolicyStore
from hexgen_celery.profiles_io import load_profile
from hexgen_celery.settings import Settings
from hexgen_celery.simulator import Choice, Policies
from hexgen_celery.tracing.history import History, RecordedQuestions
from hexgen_celery.tuning import (
    DecisionRules,
    Objective,
    Tuning,
    TuningPlan,
    Window,
    candidates,
    tune,
    window_of,
)

log = structlog.get_logger(__name__)

Tune = Callable[[TuningPlan], Tuning]


@dataclass(frozen=True, slots=True)
class _Case:
    """One scope with what is known of it: entries newest first, all questions of its model, its
    own among them, instances, and since when these are as they are."""

    scope: TuningScope
    entries: Sequence[TuningEntry]
    everybody: RecordedQuestions
    past: RecordedQuestions
    live: LiveFleet
    changed_at: float

    @property
    def backoff(self) -> int:
        return self.entries[0].backoff if self.entries else 1


class LiveTuner:
    """Chooses the dispatch policy of each scope. Any number may run; one works at a time.

    Only the form in use is tuned, and only if it has an α. `simulate` replaces the simulator.
    """

    def __init__(
        self,
        client: redis.Redis,
        keys: Keys,
        settings: Settings,
        clock: Clock | None = None,
        simulate: Tune = tune,
    ) -> None:
        self._client = client
        self._lock = keys.tuning
        self._settings = settings
        self._clock = clock or WallClock()
        self._simulate = simulate
        self._history = History(client, keys)
        self._directory = InstanceDirectory(client, keys)
        self._steady = SteadyCluster(client, keys)
        self._policies = PolicyStore(client, keys)
        self._entries = TuningStore(client, keys)
        self._objective = Objective(settings.tuner.objective)
        self._rules = ReviewRules(
            tolerance=settings.tuner.tolerance, most_backoff=settings.tuner.most_backoff
        )

    def tick(self) -> list[TuningEntry]:
        """Tune whatever it is time for; the decisions, none where there is nothing to tune on.

        Raises:
            redis.RedisError: Redis is away.
        """
        with tuners_turn(self._client, self._lock) as mine:
            return self._tuned_scopes() if mine else []

    def _tuned_scopes(self) -> list[TuningEntry]:
        alive = self._alive()
        changed_at = self._steady.since(alive, self._clock.now())
        decided = [
            self._look(scope, alive, changed_at)
            for scope in scopes_of(alive, self._settings.tuner.tenants)
        ]
        return [entry for entry in decided if entry is not None]

    def _look(
        self, scope: TuningScope, alive: Sequence[InstanceRecord], changed_at: float
    ) -> TuningEntry | None:
        entries = [one for one in self._entries.recent(KEPT) if one.scope == scope.name]
        now = self._clock.now()
        if entries and now < self._due(entries[0]):
            return None
        live = live_fleet(scope.served_by(alive), load_profile)
        since = max(now - self._settings.tuner.window_seconds, changed_at)
        everybody = for_model(self._history.answered(since=since), scope.model)
        past = of_scope(everybody, scope)
        if live is None or len(past.records) < self._settings.tuner.least_questions:
            log.info("nothing to tune on", scope=scope.name, questions=len(past.records))
            return None
        entry = self._decided(_Case(scope, entries, everybody, past, live, changed_at))
        return None if entry is None else self._keep(scope, entry, now)

    def _due(self, previous: TuningEntry) -> float:
        return previous.at + self._settings.tuner.interval_seconds * previous.backoff

    def _decided(self, case: _Case) -> TuningEntry | None:
        judgement = judged(case.entries, case.past, case.changed_at, self._objective, self._rules)
        if judgement.reverts:
            return self._reverted(case, judgement)
        if judgement.holds:
            log.info("the last move is not judged yet", scope=case.scope.name)
            return None
        return self._tuned(case, judgement)

    def _tuned(self, case: _Case, judgement: Judgement) -> TuningEntry | None:
        before = incumbent(self._policies, self._settings.router, case.scope)
        if "alpha" not in before.parameters:
            log.info("the dispatch policy has no alpha", dispatch=before.name)
            return None
        try:
            window = self._window(case)
        except InvalidWorkload as error:
            log.info("nothing to tune on", scope=case.scope.name, error=str(error))
            return None
        tuning = self._simulate(self._plan(before, case, window))
        return self._entry(case, judgement, before, tuning, window.rate * case.live.speed)

    def _entry(
        self, case: _Case, judgement: Judgement, before: Choice, tuning: Tuning, rate: float
    ) -> TuningEntry:
        decision, at = tuning.decision, self._clock.now()
        pending = at if decision.moved or judgement.pending is None else judgement.pending.at
        return TuningEntry(
            at=at,
            objective=self._objective.value,
            questions=len(case.past.records),
            rate=rate,
            chosen=plain(tuning.chosen),
            incumbent=plain(before),
            moved=decision.moved,
            reverted=False,
            predicted=self._by_wall_clock(tuning.prediction.loss, case.live.speed),
            measured=self._measured(case.past, rate),
            gain=decision.gain,
            confidence=decision.confidence,
            backoff=next_backoff(case.backoff, judgement.review, self._rules),
            review=review_json(judgement.review),
            scope=case.scope.name,
            why=_why(tuning),
            pending=pending,
            steady=tuning.prediction.stable,
        )

    def _reverted(self, case: _Case, judgement: Judgement) -> TuningEntry:
        """Back to what was in force before a move that made things worse than they were."""
        seen, moved = judgement.review, judgement.of
        assert seen is not None, "only what was judged is taken back"
        assert moved is not None, "a judgement is of an entry"
        at = self._clock.now()
        return TuningEntry(
            at=at,
            objective=self._objective.value,
            questions=len(case.past.records),
            rate=seen.rate,
            chosen=moved.incumbent,
            incumbent=moved.chosen,
            moved=False,
            reverted=True,
            predicted=moved.measured,
            measured=seen.measured,
            gain=0.0,
            confidence=0.0,
            backoff=next_backoff(case.backoff, seen, self._rules),
            review=review_json(seen),
            scope=case.scope.name,
            why="the move made it worse than it was",
            pending=at,
        )

    def _window(self, case: _Case) -> Window:
        """The scope's own questions, at the rate at which everybody's come to its instances.

        Raises:
            InvalidWorkload: they are too few, or came at once.
        """
        speed = case.live.speed
        own = window_of(sped_up(case.past.workload(), speed))
        if case.past is case.everybody or not case.scope.tenant:
            return own
        return replace(own, rate=window_of(sped_up(case.everybody.workload(), speed)).rate)

    def _plan(self, before: Choice, case: _Case, window: Window) -> TuningPlan:
        tuner, queues = self._settings.tuner, self._settings.queues
        admission = self._settings.admission
        alphas = candidates((before.name,))
        return TuningPlan(
            window=window,
            fleet=case.live.fleet,
            policies=Policies(
                dispatch=before,
                order=Choice(queues.order),
                admission=Choice(admission.policy, dict(admission.parameters)),
            ),
            tried=tuple(with_alpha(before, choice.parameters["alpha"]) for choice in alphas),
            objective=self._objective,
            questions=tuner.questions,
            seeds=tuple(range(tuner.seeds)),
            databases=len({record.submission.database for record in case.past.records}),
            rules=DecisionRules(least_gain=tuner.least_gain),
        )

    def _alive(self) -> list[InstanceRecord]:
        now, records = self._directory.snapshot()
        dead_after = self._settings.workers.dead_after_seconds
        return [record for record in records if record.alive(now, dead_after)]

    def _keep(self, scope: TuningScope, entry: TuningEntry, began: float) -> TuningEntry:
        if entry.changed:
            put_in_force(self._policies, scope, entry.chosen)
        entry = replace(entry, seconds=round(self._clock.now() - began, 3))
        self._entries.add(entry)
        log.info(
            "tuned",
            scope=entry.scope,
            chosen=entry.chosen,
            why=entry.why,
            predicted=entry.predicted,
            backoff=entry.backoff,
        )
        return entry

    def _measured(self, past: RecordedQuestions, rate: float) -> float:
        return self._objective.loss(measured_outcomes(past), rate)

    def _by_wall_clock(self, loss: float, speed: float) -> float:
        """Shares of questions have no clock; seconds and questions per second do."""
        if self._objective is Objective.P95:
            return loss / speed
        return loss * speed if self._objective is Objective.GOODPUT else loss


def _why(tuning: Tuning) -> str:
    """In a few words, for people."""
    decision = tuning.decision
    if decision.moved:
        return f"gains {decision.gain:.0%}, in {decision.confidence:.0%} of resamples"
    if not tuning.prediction.stable:
        return "the backlog grows in the simulation"
    return "no gain beyond the noise"
