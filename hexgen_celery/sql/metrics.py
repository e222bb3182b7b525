"""Comparing results: digests to group candidates by, and the published evaluation metrics.

Rows are sequences of JSON-safe cells as `sql.execution` describes them. Numbers compare as in
SQLite and Python: 1 and 1.0 are equal, and floats must agree exactly.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean, pstdev
from typing import Any, TypeAlias

Key: TypeAlias = str | int | float | bool | tuple[Any, ...] | None
KeyRow: TypeAlias = tuple[Key, ...]
Rows: TypeAlias = Iterable[Sequence[Any]]

OUTLIER_DEVIATIONS = 3.0
VES_REWARDS = ((2.0, 1.25), (1.0, 1.0), (0.5, 0.75), (0.25, 0.5))
VES_LOWEST_REWARD = 0.25


def cell_key(cell: Any) -> Key:
    """The cell as something that compares and hashes: a blob or an infinity becomes a tuple."""
    return tuple(sorted(cell.items())) if isinstance(cell, dict) else cell


def row_keys(rows: Rows) -> list[KeyRow]:
    """Every row as a tuple of comparable cells, in order."""
    return [tuple(map(cell_key, row)) for row in rows]


def ordered_digest(rows: Rows) -> str:
    """A digest that is equal for equal rows in equal order (SHA-256, hex)."""
    return _digest(map(_row_text, rows))


def result_digest(rows: Rows) -> str:
    """A digest that is equal for the same rows as often, in any order (SHA-256, hex)."""
    return _digest(sorted(map(_row_text, rows)))


def distinct_digest(rows: Rows) -> str:
    """A digest that is equal for the same different rows, in any order (SHA-256, hex)."""
    return _digest(sorted(set(map(_row_text, rows))))


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "replace")).hexdigest()


def _row_text(row: Sequence[Any]) -> str:
    cells = [int(cell) if _is_whole(cell) else cell for cell in row]
    return json.dumps(cells, ensure_ascii=False, sort_keys=True)


def _is_whole(cell: Any) -> bool:
    return isinstance(cell, float) and math.isfinite(cell) and cell.is_integer()


def execution_match(predicted: Rows, gold: Rows) -> bool:
    """BIRD's EX for one question: equal sets of rows.

    Order and duplicates do not matter; the order and number of columns do. Source: `set(predicted)
    == set(gold)` in BIRD's evaluation_ex.py. Whoever calls this has made sure that both ran: an
    error or a time-out never matches.
    """
    return set(row_keys(predicted)) == set(row_keys(gold))


def soft_f1(predicted: Rows, gold: Rows) -> float:
    """BIRD's Soft-F1 for one question, from 0 to 1.

    Duplicates are dropped, keeping the first; row i is compared with row i by the cells they share.
    Source: evaluation_f1.py of BIRD mini-dev. A gold row without cells cannot occur in SQL.
    """
    ours, theirs = (list(dict.fromkeys(row_keys(rows))) for rows in (predicted, gold))
    if not ours and not theirs:
        return 1.0
    shared = [_row_shares(*pair) for pair in zip(ours, theirs, strict=False)]
    hits = sum(share[0] for share in shared)
    only_ours = sum(share[1] for share in shared) + max(0, len(ours) - len(theirs))
    only_theirs = sum(share[2] for share in shared) + max(0, len(theirs) - len(ours))
    precision = hits / (hits + only_ours) if hits + only_ours else 0.0
    recall = hits / (hits + only_theirs) if hits + only_theirs else 0.0
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


def _row_shares(ours: KeyRow, theirs: KeyRow) -> tuple[float, float, float]:
    """Cells in both, in ours only and in theirs only, each as a share of their width."""
    hits = sum(cell in theirs for cell in ours)
    missed = sum(cell not in ours for cell in theirs)
    width = len(theirs)
    return hits / width, (len(ours) - hits) / width, missed / width


def time_ratio(gold_seconds: Sequence[float], predicted_seconds: Sequence[float]) -> float:
    """How many times faster than gold a prediction ran, from paired timings in seconds.

    The mean of the ratios within three standard deviations of their mean, or of all where none is
    (equal ratios, on which the strict comparison of the original leaves nothing to divide by).
    Source: `clean_abnormal` in evaluation_ves.py of BIRD mini-dev.

    Raises:
        ValueError: if there are no pairs, or not as many of one as of the other.
    """
    if not gold_seconds:
        raise ValueError("a time ratio needs at least one pair of timings")
    ratios = [ours / theirs for ours, theirs in zip(gold_seconds, predicted_seconds, strict=True)]
    mean, deviation = fmean(ratios), pstdev(ratios)
    bound = OUTLIER_DEVIATIONS * deviation
    return fmean([ratio for ratio in ratios if abs(ratio - mean) < bound] or ratios)


def ves_reward(ratio: float) -> float:
    """BIRD's reward for a right prediction that is `ratio` times as fast as gold.

    1.25 from 2, 1 from 1, 0.75 from 0.5, 0.5 from 0.25, else 0.25. Source: evaluation_ves.py.
    """
    return next((reward for least, reward in VES_REWARDS if ratio >= least), VES_LOWEST_REWARD)


def r_ves(rewards: Sequence[float]) -> float:
    """BIRD's R-VES of a run, in percent: 100 · mean of √reward, a wrong answer's reward being 0."""
    return 100 * fmean(map(math.sqrt, rewards)) if rewards else 0.0


def spider_match(predicted: Rows, gold: Rows, ordered: bool) -> bool:
    """Spider's execution match: equal multisets of rows under some permutation of the columns.

    `ordered` (the gold statement has ORDER BY) asks for the same order of rows as well. Source:
    `result_eq` in exec_eval.py of test-suite-sql-eval.
    """
    ours, theirs = row_keys(predicted), row_keys(gold)
    if len(ours) != len(theirs):
        return False
    if not ours:
        return True
    if len(ours[0]) != len(theirs[0]):
        return False
    return _columns_can_match(ours, theirs, ordered)


def _columns_can_match(ours: list[KeyRow], theirs: list[KeyRow], ordered: bool) -> bool:
    our_columns, their_columns = list(zip(*ours, strict=True)), list(zip(*theirs, strict=True))
    same = _same_in_order if ordered else _same_in_any_order
    partners = [
        [place for place, column in enumerate(our_columns) if same([column], [wanted])]
        for wanted in their_columns
    ]
    return _assign(partners, (), our_columns, their_columns, ordered)


def _assign(
    partners: list[list[int]],
    chosen: tuple[int, ...],
    our_columns: list[tuple[Key, ...]],
    their_columns: list[tuple[Key, ...]],
    ordered: bool,
) -> bool:
    """Try our columns for their next column; every prefix must match, so few are ever tried."""
    same = _same_in_order if ordered else _same_in_any_order
    if not same([our_columns[place] for place in chosen], their_columns[: len(chosen)]):
        return False
    if len(chosen) == len(their_columns):
        return True
    tried: set[tuple[Key, ...]] = set()
    for place in partners[len(chosen)]:
        if place in chosen or our_columns[place] in tried:
            continue
        tried.add(our_columns[place])
        if _assign(partners, (*chosen, place), our_columns, their_columns, ordered):
            return True
    return False


def _same_in_order(ours: Sequence[tuple[Key, ...]], theirs: Sequence[tuple[Key, ...]]) -> bool:
    return list(ours) == list(theirs)


def _same_in_any_order(ours: Sequence[tuple[Key, ...]], theirs: Sequence[tuple[Key, ...]]) -> bool:
    return Counter(zip(*ours, strict=True)) == Counter(zip(*theirs, strict=True))
