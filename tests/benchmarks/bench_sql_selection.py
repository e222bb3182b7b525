"""Repair and selection on published predictions, replayed as candidates.

Nothing that decides looks at gold: statements are checked, repaired and fitted from the catalog,
the stored values and the question's evidence; the answer is the result that the most candidates
return, taken as soon as enough of them agree. How many are enough is learnt on the *other*
databases (leave one out), from agreement alone. Gold only judges. The plain vote that is compared
with takes every candidate as the model wrote it, results with rows first.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from hexgen_celery.evaluation.agreement_learning import LearningRules, in_order, learn_agreement
from hexgen_celery.evaluation.selection import select
from hexgen_celery.workflows.stage_contract import Attempt
from tests.benchmarks.recorded_candidates import DATA, Recorded, Recording, of_sources, record
from tests.benchmarks.rows import BenchmarkSkipped, Row, measured

ORDERS = 50
LEARNING_ORDERS = 10


@dataclass(frozen=True, slots=True)
class Trial:
    """One question in one order: the plain vote, our selection, the vote of all mended ones."""

    database: str
    plain: bool
    ours: bool
    whole: bool
    executed: int


@dataclass(frozen=True, slots=True)
class Group:
    """A set of prediction files and the questions they are judged on."""

    name: str
    sources: frozenset[str]
    keys: frozenset[str]


def run() -> list[Row]:
    """The measures of the weak, the DeepEye and the strong set."""
    if not (DATA / "bird" / "dev" / "predictions").is_dir():
        raise BenchmarkSkipped(f"the shared predictions are absent at {DATA}")
    recording = record()
    weak, deepeye, strong = _groups(recording)
    rows = _weak_rows(_trials(recording, weak)) + _mending_rows(recording, weak)
    rows += _deepeye_rows(_trials(recording, deepeye))
    return rows + _strong_rows(_trials(recording, strong), len(strong.sources))


def _groups(recording: Recording) -> tuple[Group, Group, Group]:
    sources = {each.source for found in recording.candidates.values() for each in found}
    deepeye = frozenset(name for name in sources if name.startswith("deepeye"))
    strong = frozenset(name for name in sources if "gpt-4" in name)
    every = frozenset(question.key for question in recording.questions)
    return (
        Group("weak", frozenset(sources - deepeye - strong), recording.mini),
        Group("deepeye", deepeye, every),
        Group("strong", strong, recording.mini),
    )


def _trials(recording: Recording, group: Group) -> list[list[Trial]]:
    """The trials of each of the orders."""
    found = {
        key: of_sources(recording.candidates[key], group.sources) for key in sorted(group.keys)
    }
    databases = {key: key.split(":")[0] for key in found}
    needed = {name: _learnt(found, name) for name in sorted(set(databases.values()))}
    return [
        [
            _trial(key, candidates, seed, needed[databases[key]], recording.gold[key])
            for key, candidates in found.items()
        ]
        for seed in range(ORDERS)
    ]


def _learnt(found: dict[str, tuple[Recorded, ...]], held_out: str) -> int:
    """The agreement needed, learnt without the database it is then judged on."""
    ballots = {
        key: [each.mended for each in candidates]
        for key, candidates in found.items()
        if not key.startswith(f"{held_out}:")
    }
    return learn_agreement(ballots, LearningRules(orders=LEARNING_ORDERS)).needed


def _trial(key: str, candidates: Sequence[Recorded], seed: int, needed: int, gold: str) -> Trial:
    written = in_order(key, [each.written for each in candidates], seed)
    mended = in_order(key, [each.mended for each in candidates], seed)
    ours = select(mended, needed)
    return Trial(
        database=key.split(":")[0],
        plain=_right(select(written).chosen, gold),
        ours=_right(ours.chosen, gold),
        whole=_right(select(mended).chosen, gold),
        executed=ours.executed,
    )


def _right(chosen: Attempt | None, gold: str) -> bool:
    """BIRD's EX: equal sets of rows; what failed or was cut never matches."""
    return chosen is not None and not chosen.truncated and chosen.distinct_digest == gold


def _percent(orders: Sequence[Sequence[Trial]], what: str) -> list[float]:
    return [100 * statistics.fmean(getattr(each, what) for each in order) for order in orders]


def _executed(orders: Sequence[Sequence[Trial]]) -> list[float]:
    return [statistics.fmean(each.executed for each in order) for order in orders]


def _mean(name: str, values: Sequence[float], unit: str, **notes: object) -> Row:
    """A row with the mean over the orders, which the bars are about."""
    row = measured(name, values, unit, **notes)  # type: ignore[arg-type]
    return row | {"value": statistics.fmean(values)}


def _weak_rows(orders: list[list[Trial]]) -> list[Row]:
    plain, ours = _percent(orders, "plain"), _percent(orders, "ours")
    gain = [after - before for before, after in zip(plain, ours, strict=True)]
    harmed = [
        100 * statistics.fmean(each.plain and not each.ours for each in order) for order in orders
    ]
    databases = sorted({each.database for each in orders[0]})
    by_database = {name: round(statistics.fmean(_gains(orders, name)), 2) for name in databases}
    return [
        _mean("sql.weak_gain_points", gain, "EX points", bar=3, better="higher", by=by_database),
        _mean("sql.weak_harmed_percent", harmed, "%", bar=1),
        _mean("sql.weak_plain_ex_percent", plain, "%", better="higher"),
        _mean("sql.weak_ex_percent", ours, "%", better="higher"),
        _mean("sql.weak_executed", _executed(orders), "candidates"),
    ]


def _gains(orders: Sequence[Sequence[Trial]], database: str) -> list[float]:
    chosen = [[each for each in order if each.database == database] for order in orders]
    pairs = zip(_percent(chosen, "plain"), _percent(chosen, "ours"), strict=True)
    return [after - before for before, after in pairs]


def _mending_rows(recording: Recording, group: Group) -> list[Row]:
    """What repairs and fits do to single candidates, right or wrong."""
    healed = harmed = total = 0
    for key in group.keys:
        for each in of_sources(recording.candidates[key], group.sources):
            before, after = (
                _right(attempt, recording.gold[key]) for attempt in (each.written, each.mended)
            )
            healed, harmed, total = healed + (after > before), harmed + (after < before), total + 1
    return [
        measured("sql.candidates_healed", [healed], "candidates", better="higher", of=total),
        measured("sql.candidates_harmed", [harmed], "candidates", of=total),
    ]


def _deepeye_rows(orders: list[list[Trial]]) -> list[Row]:
    ex = [share / 100 for share in _percent(orders, "ours")]
    return [
        _mean("sql.deepeye_ex", ex, "EX", bar=0.83, better="higher"),
        _mean("sql.deepeye_executed", _executed(orders), "candidates", bar=2.2),
    ]


def _strong_rows(orders: list[list[Trial]], sources: int) -> list[Row]:
    whole, ours = _percent(orders, "whole"), _percent(orders, "ours")
    loss = [full - early for full, early in zip(whole, ours, strict=True)]
    saved = [100 * (1 - executed / sources) for executed in _executed(orders)]
    return [
        _mean("sql.strong_loss_points", loss, "EX points", bar=1),
        _mean("sql.strong_saved_percent", saved, "%", bar=35, better="higher"),
        _mean("sql.strong_ex_percent", ours, "%", better="higher"),
    ]
