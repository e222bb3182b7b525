"""The tuner of a running deployment: looks back, simulates, decides, checks itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import redis
import structlog

from hexgen_celery.core.clock import Clock, WallClock
from hexgen_celery.core.dispatch import DISPATCH
from hexgen_celery.errors import InvalidWorkload
from hexgen_celery.instances import InstanceDirectory
from hexgen_celery.keys import Keys
from hexgen_celery.live_tuning.entries import TuningEntry, TuningStore, review_json
from hexgen_celery.live_tuning.past import (
    LiveFleet,
    arrival_rate,
    live_fleet,
    measured_outcomes,
    sped_up,
)
from hexgen_celery.live_tuning.review import Review, ReviewRules, next_backoff, review
from hexgen_celery.policies import PolicyChoice, PolicyStore, scope
from hexgen_celery.profiles_io import load_profile
from hexgen_celery.settings import Settings
from hexgen_celery.simulator import Choice, Policies
from hexgen_celery.tracing.history import History, RecordedQuestions
from hexgen_celery.tuning import Objective, Tuning, TuningPlan, candidates, tune, window_of

log = structlog.get_logger(__name__)

Tune = Callable[[TuningPlan], Tuning]

# A tuner that died must not keep others out for longer than a simulation can take.
LOCK_SECONDS = 900


class LiveTuner:
    """Chooses the dispatch policy of the whole deployment. Any number may run; one works at a time.

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
        self._policies = PolicyStore(client, keys)
        self._entries = TuningStore(client, keys)
        self._objective = Objective(settings.tuner.objective)
        self._rules = ReviewRules(
            tolerance=settings.tuner.tolerance, most_backoff=settings.tuner.most_backoff
        )

    def tick(self) -> TuningEntry | None:
        """Tune if it is time; None when it is not, or when there is nothing to tune on."""
        previous = next(iter(self._entries.recent(1)), None)
        if previous is not None and self._clock.now() < self._due(previous):
            return None
        if not self._client.set(self._lock, "1", nx=True, ex=LOCK_SECONDS):
            return None
        try:
            return self._tune(previous)
        finally:
            self._client.delete(self._lock)

    def _due(self, previous: TuningEntry) -> float:
        return previous.at + self._settings.tuner.interval_seconds * previous.backoff

    def _tune(self, previous: TuningEntry | None) -> TuningEntry | None:
        now = self._clock.now()
        past = self._history.answered(since=now - self._settings.tuner.window_seconds)
        live = self._live_fleet()
        if live is None or len(past.records) < self._settings.tuner.least_questions:
            log.info("nothing to tune on", questions=len(past.records), instances=bool(live))
            return None
        seen = self._review(previous, past)
        if previous is not None and seen is not None and seen.revert:
            entry = self._reverted(previous, past, seen)
        else:
            tuned = self._tuned(previous, past, live, seen)
            if tuned is None:
                return None
            entry = tuned
        self._put_in_force(entry)
        entry = replace(entry, seconds=round(self._clock.now() - now, 3))
        self._entries.add(entry)
        return entry

    def _review(self, previous: TuningEntry | None, past: RecordedQuestions) -> Review | None:
        if previous is None:
            return None
        outcomes = measured_outcomes(past, previous.at)
        rate = arrival_rate(past, previous.at)
        return review(previous.prediction, outcomes, rate, self._objective, self._rules)

    def _tuned(
        self,
        previous: TuningEntry | None,
        past: RecordedQuestions,
        live: LiveFleet,
        seen: Review | None,
    ) -> TuningEntry | None:
        incumbent = self._incumbent()
        if "alpha" not in incumbent.parameters:
            log.info("the dispatch policy has no alpha", dispatch=incumbent.name)
            return None
        try:
            window = window_of(sped_up(past.workload(), live.speed))
        except InvalidWorkload as error:
            log.info("nothing to tune on", error=str(error))
            return None
        tuning = self._simulate(self._plan(incumbent, live, window, past))
        rate = window.rate * live.speed
        return TuningEntry(
            at=self._clock.now(),
            objective=self._objective.value,
            questions=len(past.records),
            rate=rate,
            chosen=_plain(tuning.chosen),
            incumbent=_plain(incumbent),
            moved=tuning.decision.moved,
            reverted=False,
            predicted=self._by_wall_clock(tuning.prediction.loss, live.speed),
            measured=self._measured(past, rate),
            gain=tuning.decision.gain,
            confidence=tuning.decision.confidence,
            backoff=next_backoff(previous.backoff if previous else 1, seen, self._rules),
            review=review_json(seen),
        )

    def _reverted(
        self, previous: TuningEntry, past: RecordedQuestions, seen: Review
    ) -> TuningEntry:
        """Back to what was in force before a move that made things worse than they were."""
        return TuningEntry(
            at=self._clock.now(),
            objective=self._objective.value,
            questions=len(past.records),
            rate=seen.rate,
            chosen=previous.incumbent,
            incumbent=previous.chosen,
            moved=False,
            reverted=True,
            predicted=previous.measured,
            measured=seen.measured,
            gain=0.0,
            confidence=0.0,
            backoff=next_backoff(previous.backoff, seen, self._rules),
            review=review_json(seen),
        )

    def _plan(
        self, incumbent: Choice, live: LiveFleet, window: Any, past: RecordedQuestions
    ) -> TuningPlan:
        tuner, queues = self._settings.tuner, self._settings.queues
        admission = self._settings.admission
        alphas = candidates((incumbent.name,))
        return TuningPlan(
            window=window,
            fleet=live.fleet,
            policies=Policies(
                dispatch=incumbent,
                order=Choice(queues.order),
                admission=Choice(admission.policy, dict(admission.parameters)),
            ),
            tried=tuple(_with_alpha(incumbent, choice.parameters["alpha"]) for choice in alphas),
            objective=self._objective,
            questions=tuner.questions,
            seeds=tuple(range(tuner.seeds)),
            databases=len({record.submission.database for record in past.records}),
        )

    def _live_fleet(self) -> LiveFleet | None:
        now, records = self._directory.snapshot()
        dead_after = self._settings.workers.dead_after_seconds
        alive = [record for record in records if record.alive(now, dead_after)]
        return live_fleet(alive, load_profile)

    def _incumbent(self) -> Choice:
        """What is in force, with the α it has by default where none is named."""
        router = self._settings.router
        configured = PolicyChoice(router.dispatch, router.parameters)
        choice = self._policies.read().get(scope(), configured)
        parameters = dict(choice.parameters)
        own = DISPATCH.entry(choice.dispatch).configure(parameters)
        if hasattr(own, "alpha"):
            parameters["alpha"] = own.alpha
        return Choice(choice.dispatch, parameters)

    def _put_in_force(self, entry: TuningEntry) -> None:
        if entry.moved or entry.reverted:
            chosen = dict(entry.chosen)
            self._policies.set(PolicyChoice(str(chosen.pop("dispatch")), chosen))
        log.info(
            "tuned",
            chosen=entry.chosen,
            moved=entry.moved,
            reverted=entry.reverted,
            predicted=entry.predicted,
            backoff=entry.backoff,
        )

    def _measured(self, past: RecordedQuestions, rate: float) -> float:
        return self._objective.loss(measured_outcomes(past), rate)

    def _by_wall_clock(self, loss: float, speed: float) -> float:
        """Shares of questions have no clock; seconds and questions per second do."""
        if self._objective is Objective.P95:
            return loss / speed
        return loss * speed if self._objective is Objective.GOODPUT else loss


def _with_alpha(choice: Choice, alpha: Any) -> Choice:
    return Choice(choice.name, {**choice.parameters, "alpha": alpha})


def _plain(choice: Choice) -> dict[str, Any]:
    return {"dispatch": choice.name, **choice.parameters}
