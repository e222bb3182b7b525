"""The tuner on a real Redis: what it does with the questions of the last minutes."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from hexgen_celery.instances import InstanceDirectory, InstanceRecord
from hexgen_celery.live_tuning import LiveTuner, TuningEntry
from hexgen_celery.live_tuning.turn import tuners_turn
from hexgen_celery.policies import PolicyChoice, scope
from hexgen_celery.settings import TunerSettings
from hexgen_celery.simulator import Choice
from hexgen_celery.tuning import Decision, Objective, Tuning, TuningPlan
from hexgen_celery.tuning.search import Tried
from tests.integration.live_tuning.ground import PROFILE, Ground


class Simulator:
    """Says that `alpha` is best and brings `loss`; remembers what it was asked."""

    def __init__(self, alpha: float | None, loss: float, *, steady: bool = True) -> None:
        self.alpha = alpha
        self.loss = loss
        self.steady = steady
        self.plans: list[TuningPlan] = []

    def __call__(self, plan: TuningPlan) -> Tuning:
        self.plans.append(plan)
        incumbent = plan.policies.dispatch
        moved = self.alpha is not None and incumbent.parameters["alpha"] != self.alpha
        better = Choice("alpha", {**incumbent.parameters, "alpha": self.alpha})
        chosen = better if moved else incumbent
        tried = Tried(chosen, self.loss, self.loss, 1.0, self.steady)
        decision = Decision(0, moved, 0.2, 0.1, 0.3, 0.95)
        return Tuning(chosen, tried, tried, decision, Objective.P95, plan.window.rate, (tried,))


def _tick(ground: Ground, simulator: Simulator, later: float = 0.0) -> TuningEntry:
    ground.clock.advance(later)
    (entry,) = ground.tuner(simulator).tick()
    return entry


def test_with_few_questions_or_no_instance_nothing_is_touched(ground: Ground) -> None:
    simulator = Simulator(0.6, 1.0)
    ground.answer(39)
    assert ground.tuner(simulator).tick() == []
    ground.answer(1)
    InstanceDirectory(ground.client, ground.keys).withdraw("i1")
    assert ground.tuner(simulator).tick() == []
    assert simulator.plans == []
    assert ground.policies.read() == {}


def test_a_better_weight_is_put_in_force_with_its_prediction(ground: Ground) -> None:
    ground.answer()
    simulator = Simulator(0.6, 1.5)
    entry = _tick(ground, simulator)
    assert ground.policies.read()[scope()].parameters["alpha"] == 0.6
    assert ground.entries.recent() == [entry]
    assert (entry.moved, entry.predicted, entry.review) == (True, 1.5, None)
    assert 0 < entry.measured < 5
    (plan,) = simulator.plans
    assert {choice.parameters["alpha"] for choice in plan.tried} >= {0.0, 0.5, 1.0}
    assert plan.policies.dispatch in plan.tried
    assert plan.window.rate == pytest.approx(entry.rate)
    assert [instance.name for instance in plan.fleet.instances] == ["i1"]


@pytest.mark.parametrize("text", ["no json", PolicyChoice("psychic").to_json()])
def test_a_stored_policy_that_cannot_be_used_does_not_end_tuning(ground: Ground, text: str) -> None:
    """Routers pass it over too, so that what holds otherwise is the incumbent."""
    ground.client.hset(ground.keys.policies, scope(), text)
    ground.answer()
    entry = _tick(ground, Simulator(0.6, 1.5))
    assert entry.incumbent["dispatch"] == ground.settings.router.dispatch
    assert ground.policies.read()[scope()].parameters["alpha"] == 0.6


def test_a_tuner_that_took_too_long_leaves_the_lock_of_the_next_alone(ground: Ground) -> None:
    ground.answer()
    simulator = Simulator(0.6, 1.0)

    def slow(plan: TuningPlan) -> Tuning:
        ground.client.set(ground.keys.tuning, "the next one's")
        return simulator(plan)

    assert len(ground.tuner(slow).tick()) == 1
    assert ground.client.get(ground.keys.tuning) == "the next one's"
    assert ground.tuner(simulator).tick() == []
    ground.client.delete(ground.keys.tuning)
    ground.clock.advance(60)
    ground.tuner(simulator).tick()
    assert not ground.client.exists(ground.keys.tuning)


def test_a_tuner_that_dies_at_work_keeps_others_out_for_a_minute_at_most(ground: Ground) -> None:
    ground.answer()
    simulator, left = Simulator(0.6, 1.0), []

    def observed(plan: TuningPlan) -> Tuning:
        left.append(ground.client.ttl(ground.keys.tuning))
        return simulator(plan)

    ground.tuner(observed).tick()
    (seconds,) = left
    assert 0 < seconds <= 60


def test_a_turn_lasts_as_long_as_its_work(ground: Ground) -> None:
    key, seconds = ground.keys.tuning, 1.0
    with tuners_turn(ground.client, key, seconds) as mine:
        assert mine
        time.sleep(2.5 * seconds)
        with tuners_turn(ground.client, key, seconds) as others:
            assert not others
    with tuners_turn(ground.client, key, seconds) as next_one:
        assert next_one


def test_between_two_intervals_nothing_happens(ground: Ground) -> None:
    ground.answer()
    _tick(ground, Simulator(0.6, 1.0))
    assert ground.tuner(Simulator(0.7, 1.0)).tick() == []


def test_another_tuner_at_work_is_left_alone(ground: Ground) -> None:
    ground.answer()
    ground.client.set(ground.keys.tuning, "1")
    assert ground.tuner(Simulator(0.6, 1.0)).tick() == []


def test_a_wrong_prediction_that_did_harm_is_taken_back_and_backs_off(ground: Ground) -> None:
    ground.policies.set(PolicyChoice("alpha", {"alpha": 0.2}))
    ground.answer(seconds=1.0)
    first = _tick(ground, Simulator(0.9, 0.5))
    assert first.moved
    ground.forget()
    _age(ground, first)
    ground.answer(seconds=30.0)
    second = _tick(ground, Simulator(0.9, 0.5), later=60)
    assert second.reverted
    assert second.review is not None
    assert second.review["wrong"]
    assert ground.policies.read()[scope()].parameters["alpha"] == 0.2
    assert second.backoff == 2


def test_a_right_prediction_keeps_the_pace(ground: Ground) -> None:
    ground.answer(seconds=1.0)
    first = _tick(ground, Simulator(None, 2.8))
    assert not first.moved
    assert ground.policies.read() == {}
    ground.forget()
    _age(ground, first)
    ground.answer(seconds=1.0)
    second = _tick(ground, Simulator(None, 2.8), later=60)
    assert second.review is not None
    assert (second.review["wrong"], second.backoff) == (False, 1)


def test_a_policy_without_a_weight_is_left_alone(ground: Ground) -> None:
    ground.policies.set(PolicyChoice("round-robin"))
    ground.answer()
    assert ground.tuner(Simulator(0.6, 1.0)).tick() == []


def test_the_simulator_itself_decides_on_a_recorded_window(ground: Ground) -> None:
    ground.answer()
    small = TunerSettings(least_questions=40, questions=20, seeds=1)
    ground.settings = ground.settings.model_copy(update={"tuner": small})
    (entry,) = LiveTuner(ground.client, ground.keys, ground.settings, ground.clock).tick()
    assert entry.predicted > 0
    assert entry.chosen["dispatch"] == "alpha"


def test_no_second_move_before_the_first_is_judged(ground: Ground) -> None:
    """A few questions since the move say nothing yet; forty do."""
    ground.answer(seconds=1.0)
    first = _tick(ground, Simulator(0.6, 2.8))
    assert first.moved
    ground.forget()
    ground.answer(seconds=1.0)
    ground.clock.advance(60)
    waiting = Simulator(0.1, 2.8)
    assert ground.tuner(waiting).tick() == []
    assert waiting.plans == []
    _age(ground, first)
    judged = _tick(ground, Simulator(0.1, 2.8), later=60)
    assert judged.review is not None
    assert judged.moved


def test_a_prediction_is_judged_once_enough_questions_came_over_several_decisions(
    ground: Ground,
) -> None:
    ground.answer(seconds=1.0)
    first = _tick(ground, Simulator(None, 2.8))
    second = _tick(ground, Simulator(None, 2.8), later=60)
    assert (second.review, second.pending) == (None, first.at)
    ground.client.delete(ground.keys.tunings)
    ground.entries.add(replace(first, at=first.at - 100, pending=first.at - 100))
    ground.entries.add(replace(second, at=first.at - 40, pending=first.at - 100))
    third = _tick(ground, Simulator(None, 2.8), later=60)
    assert third.review is not None
    assert third.review["questions"] == 40
    assert third.pending == third.at


def test_a_growing_backlog_moves_nothing_and_predicts_nothing(ground: Ground) -> None:
    ground.answer(seconds=1.0)
    first = _tick(ground, Simulator(None, 50.0, steady=False))
    assert (first.moved, first.steady, first.why) == (
        False,
        False,
        "the backlog grows in the simulation",
    )
    _age(ground, first)
    second = _tick(ground, Simulator(None, 2.8), later=60)
    assert (second.review, second.backoff) == (None, 1)


def test_a_window_begins_anew_where_the_cluster_changed(ground: Ground) -> None:
    ground.answer()
    assert len(_tick(ground, Simulator(None, 2.8)).chosen) > 0
    directory = InstanceDirectory(ground.client, ground.keys)
    second = InstanceRecord("i2", "gpu.a.x", "a", "m", PROFILE, "http://1", "w@h", 64)
    directory.announce(second)
    simulator = Simulator(0.9, 2.8)
    ground.clock.advance(60)
    assert ground.tuner(simulator).tick() == []
    assert simulator.plans == []
    ground.clock.advance(60)
    assert ground.tuner(simulator).tick() == []


def test_wrong_predictions_stretch_the_interval_up_to_the_most(ground: Ground) -> None:
    """A longer run, sped up: every prediction misses by far, then one is right."""
    ground.settings = ground.settings.model_copy(
        update={"tuner": TunerSettings(least_questions=40, interval_seconds=10, most_backoff=4)}
    )
    seen = []
    for predicted in (50.0, 50.0, 50.0, 50.0, 2.8, 2.8):
        ground.forget()
        ground.answer(seconds=1.0)
        ground.clock.advance(60)
        (entry,) = ground.tuner(Simulator(None, predicted)).tick()
        seen.append(entry.backoff)
        early = ground.clock.now()
        assert ground.tuner(Simulator(None, predicted)).tick() == [], early
        _age(ground, entry)
    assert seen == [1, 2, 4, 4, 4, 1]


def test_each_model_and_each_named_tenant_has_a_weight_of_its_own(ground: Ground) -> None:
    directory = InstanceDirectory(ground.client, ground.keys)
    other = InstanceRecord("o1", "gpu.a.o", "a", "other", PROFILE, "http://1", "w@h", 64)
    directory.announce(other)
    ground.settings = ground.settings.model_copy(
        update={"tuner": TunerSettings(least_questions=40, tenants=("acme",))}
    )
    ground.answer(40, tenant="acme", model="m")
    ground.answer(45, model="other")
    entries = {entry.scope: entry for entry in ground.tuner(Simulator(0.6, 2.0)).tick()}
    assert {name: entry.questions for name, entry in entries.items()} == {
        "@m": 40,
        "acme@m": 40,
        "@other": 45,
    }
    # What is put in force for the model holds for its tenants as long as they have none.
    assert set(ground.policies.read()) == {"@m", "@other"}
    assert entries["acme@m"].incumbent["alpha"] == 0.6
    assert ground.tuner(Simulator(0.7, 2.0)).tick() == []


def _age(ground: Ground, entry: TuningEntry) -> None:
    """Make `entry` older than everything that is answered from now on."""
    ground.client.delete(ground.keys.tunings)
    at = time.time() - 100
    ground.entries.add(replace(entry, at=at, pending=at))
