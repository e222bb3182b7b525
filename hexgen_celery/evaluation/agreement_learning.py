"""Learning how many equal results of a model are enough, from questions it answered in full.

A number is enough when stopping at it comes to the same answers as counting every candidate would.
No right answers are needed for that, so that it can be learnt from the questions of every day.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hexgen_celery.evaluation.selection import select
from hexgen_celery.workflows.stage_contract import Attempt

Ballots = Mapping[str, Sequence[Attempt]]
"""All candidates of each question, by the question's key."""


@dataclass(frozen=True, slots=True)
class LearningRules:
    """`tolerance`: the share of questions that may come to another answer than with all candidates
    counted. `orders`: seeded orders of the candidates that are averaged over."""

    tolerance: float = 0.025
    orders: int = 50


@dataclass(frozen=True, slots=True)
class Stopping:
    """What stopping at `needed` equal results does: the share of `changed` answers, and how many
    candidates are `executed` on average."""

    needed: int
    changed: float
    executed: float


def stopping(ballots: Ballots, needed: int, rules: LearningRules | None = None) -> Stopping:
    """What stopping at `needed` does to the questions in `ballots`.

    Raises:
        ValueError: there are no questions.
    """
    if not ballots:
        raise ValueError("nothing can be learnt from no questions")
    rules = rules or LearningRules()
    changed, executed, trials = 0, 0, len(ballots) * rules.orders
    for seed in range(rules.orders):
        for key, attempts in ballots.items():
            shuffled = in_order(key, attempts, seed)
            whole, early = select(shuffled), select(shuffled, needed)
            changed += _result(whole.chosen) != _result(early.chosen)
            executed += early.executed
    return Stopping(needed, changed / trials, executed / trials)


def learn_agreement(ballots: Ballots, rules: LearningRules | None = None) -> Stopping:
    """The least number of equal results that changes no more answers than is tolerated.

    Raises:
        ValueError: there are no questions.
    """
    rules = rules or LearningRules()
    most = max((len(attempts) for attempts in ballots.values()), default=0)
    found = (stopping(ballots, needed, rules) for needed in range(2, max(2, most) + 1))
    return next(each for each in found if each.changed <= rules.tolerance or each.needed >= most)


def in_order(key: str, attempts: Sequence[Attempt], seed: int) -> list[Attempt]:
    """The candidates of question `key` in the order of `seed`."""
    return random.Random(f"{seed}:{key}").sample(list(attempts), len(attempts))


def _result(attempt: Attempt | None) -> str | None:
    return None if attempt is None else attempt.distinct_digest or attempt.digest
