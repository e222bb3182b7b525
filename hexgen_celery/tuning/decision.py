"""Whether a better-looking candidate is better enough to move."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hexgen_celery.tuning.objective import Outcome

Loss = Callable[[Sequence[Outcome]], float]


@dataclass(frozen=True, slots=True)
class DecisionRules:
    """`confidence`: share of resamples in which the candidate must win. `least_gain`: smallest
    relative gain worth a move; `least_unsteady_gain` where the backlog grows with the candidate,
    for what that costs depends on how long one looks. `resamples` and `block` (questions) of the
    block bootstrap; blocks keep together what met in the same queues. Fewer blocks than
    `least_blocks` tell no noise (all resamples of one block are the same): then nothing is moved,
    and the confidence is 0."""

    confidence: float = 0.9
    least_gain: float = 0.01
    least_unsteady_gain: float = 0.25
    resamples: int = 200
    block: int = 25
    least_blocks: int = 8


@dataclass(frozen=True, slots=True)
class Decision:
    """`chosen` is the candidate's index. `gain` is relative to the incumbent's loss, with the 10th
    and 90th percentile over resamples; `confidence` the share of resamples with any gain."""

    chosen: int
    moved: bool
    gain: float
    gain_p10: float
    gain_p90: float
    confidence: float


def decide(
    runs: Sequence[Sequence[Sequence[Outcome]]],
    incumbent: int,
    best: int,
    loss: Loss,
    rules: DecisionRules | None = None,
    seed: int = 0,
) -> Decision:
    """Compare candidate `best` with `incumbent`.

    `runs[candidate][repetition]` holds the outcomes of the same questions in the same order for
    every candidate (common random numbers), so that a resample takes the same questions of both
    and the difference carries only what the policies made of them.
    """
    rules = rules or DecisionRules()
    if best == incumbent:
        return Decision(incumbent, False, 0.0, 0.0, 0.0, 1.0)
    old, new = runs[incumbent], runs[best]
    gain = _gain(_pooled(old), _pooled(new), loss)
    blocks = _blocks(old, rules.block)
    if len(blocks) < rules.least_blocks:
        return Decision(incumbent, False, gain, gain, gain, 0.0)
    gains = sorted(_resampled_gains(old, new, blocks, loss, rules, random.Random(seed)))
    confidence = sum(one > 0 for one in gains) / len(gains)
    moved = confidence >= rules.confidence and gain >= rules.least_gain
    return Decision(
        chosen=best if moved else incumbent,
        moved=moved,
        gain=gain,
        gain_p10=gains[len(gains) // 10],
        gain_p90=gains[-1 - len(gains) // 10],
        confidence=confidence,
    )


def smoothed(losses: Sequence[float]) -> list[float]:
    """Each loss averaged with its neighbours (¼, ½, ¼).

    Over a grid of α the true loss is smooth and the measured one is not; the lowest of many noisy
    values is mostly the luckiest.
    """
    last = len(losses) - 1
    return [
        0.25 * losses[max(0, n - 1)] + 0.5 * one + 0.25 * losses[min(last, n + 1)]
        for n, one in enumerate(losses)
    ]


def _blocks(runs: Sequence[Sequence[Outcome]], size: int) -> list[tuple[int, int]]:
    """Repetition and first question of each block."""
    return [
        (repetition, start)
        for repetition, outcomes in enumerate(runs)
        for start in range(0, len(outcomes), size)
    ]


def _resampled_gains(
    old: Sequence[Sequence[Outcome]],
    new: Sequence[Sequence[Outcome]],
    blocks: Sequence[tuple[int, int]],
    loss: Loss,
    rules: DecisionRules,
    rng: random.Random,
) -> list[float]:
    gains = []
    for _ in range(rules.resamples):
        drawn = rng.choices(blocks, k=len(blocks))
        gains.append(_gain(_take(old, drawn, rules.block), _take(new, drawn, rules.block), loss))
    return gains


def _take(
    runs: Sequence[Sequence[Outcome]], blocks: Sequence[tuple[int, int]], size: int
) -> list[Outcome]:
    return [o for repetition, start in blocks for o in runs[repetition][start : start + size]]


def _pooled(runs: Sequence[Sequence[Outcome]]) -> list[Outcome]:
    return [outcome for outcomes in runs for outcome in outcomes]


def _gain(old: Sequence[Outcome], new: Sequence[Outcome], loss: Loss) -> float:
    before = loss(old)
    return (before - loss(new)) / before if before > 0 else 0.0
