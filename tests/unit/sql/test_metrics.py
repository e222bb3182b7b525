"""The metrics on examples worked by hand."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexgen_celery.sql.metrics import (
    execution_match,
    ordered_digest,
    r_ves,
    result_digest,
    soft_f1,
    spider_match,
    time_ratio,
    ves_reward,
)

BLOB = {"$blob": "00", "bytes": 1}


@pytest.mark.parametrize(
    ("predicted", "gold", "match"),
    [
        ([[1, "a"], [2, "b"]], [[2, "b"], [1, "a"]], True),
        ([[1], [1]], [[1]], True),
        ([[1]], [[1.0]], True),
        ([["1"]], [[1]], False),
        ([[1, 2]], [[2, 1]], False),
        ([[1, None]], [[1]], False),
        ([[0.1 + 0.2]], [[0.3]], False),
        ([], [], True),
        ([[BLOB]], [[dict(BLOB)]], True),
        ([[{"$float": "inf"}]], [[{"$float": "-inf"}]], False),
    ],
)
def test_execution_match(
    predicted: list[list[object]], gold: list[list[object]], match: bool
) -> None:
    assert execution_match(predicted, gold) is match


ROWS = st.lists(
    st.tuples(
        st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        st.none() | st.just("x"),
    ),
    max_size=8,
)


@given(ROWS, st.integers())
def test_digests_and_order(rows: list[tuple[object, object]], seed: int) -> None:
    shuffled = list(rows)
    random.Random(seed).shuffle(shuffled)
    assert result_digest(rows) == result_digest(shuffled)
    assert (ordered_digest(rows) == ordered_digest(shuffled)) is (rows == shuffled)


def test_digests_tell_apart() -> None:
    assert result_digest([[1], [1]]) != result_digest([[1]])
    assert result_digest([[1]]) == result_digest([[1.0]])
    assert result_digest([["1"]]) != result_digest([[1]])
    assert result_digest([[1, 2]]) != result_digest([[1], [2]])
    assert result_digest([["a\nb"]]) != result_digest([["a"], ["b"]])
    assert result_digest([[BLOB]]) == result_digest([[{"bytes": 1, "$blob": "00"}]])


@pytest.mark.parametrize(
    ("predicted", "gold", "score"),
    [
        ([], [], 1.0),
        ([[1, 2]], [[1, 2]], 1.0),
        ([[2, 1]], [[1, 2]], 1.0),
        ([[1, 2], [1, 2]], [[1, 2]], 1.0),
        ([], [[1]], 0.0),
        ([[1]], [], 0.0),
        # hits 1/2, only ours 1/2, only theirs 1/2: precision = recall = 1/2
        ([[1, 3]], [[1, 2]], 0.5),
        # row 1 matches; row 2 is ours alone: precision 1/2, recall 1
        ([[1], [2]], [[1]], 2 / 3),
        # row 1 matches; row 2 is theirs alone: precision 1, recall 1/2
        ([[1]], [[1], [2]], 2 / 3),
        # compared by position: neither row fits its partner
        ([[1], [2]], [[2], [1]], 0.0),
        # one extra column: hits 1, only ours 1: precision 1/2, recall 1
        ([[1, 9]], [[1]], 2 / 3),
    ],
)
def test_soft_f1(predicted: list[list[object]], gold: list[list[object]], score: float) -> None:
    assert soft_f1(predicted, gold) == pytest.approx(score)


def test_time_ratio_drops_outliers() -> None:
    gold = [2.0] * 99 + [1000.0]
    assert time_ratio(gold, [1.0] * 100) == pytest.approx(2.0)
    assert time_ratio([1.0], [2.0]) == 0.5
    with pytest.raises(ValueError, match="at least one pair"):
        time_ratio([], [])


@pytest.mark.parametrize(
    ("ratio", "reward"),
    [(3, 1.25), (2, 1.25), (1.99, 1), (1, 1), (0.99, 0.75), (0.5, 0.75), (0.25, 0.5), (0.1, 0.25)],
)
def test_ves_reward(ratio: float, reward: float) -> None:
    assert ves_reward(ratio) == reward


def test_r_ves() -> None:
    assert r_ves([1, 0.25, 0, 1]) == pytest.approx(100 * (1 + 0.5 + 0 + 1) / 4)
    assert r_ves([]) == 0.0


@pytest.mark.parametrize(
    ("predicted", "gold", "ordered", "match"),
    [
        ([], [], True, True),
        ([[1]], [], False, False),
        ([[1], [2]], [[2], [1]], False, True),
        ([[1], [2]], [[2], [1]], True, False),
        ([[1], [1]], [[1]], False, False),
        ([["a", 1], ["b", 2]], [[1, "a"], [2, "b"]], True, True),
        ([["a", 2], ["b", 1]], [[1, "a"], [2, "b"]], False, False),
        ([[1, 2]], [[1]], False, False),
        # the same values in every column, paired differently
        ([[1, 2], [2, 1], [1, 1]], [[1, 1], [1, 2], [2, 1]], False, True),
        ([[1, 1], [2, 2]], [[1, 2], [2, 1]], False, False),
        ([[1, 2, 1], [2, 1, 2]], [[1, 1, 2], [2, 2, 1]], True, True),
    ],
)
def test_spider_match(
    predicted: list[list[object]], gold: list[list[object]], ordered: bool, match: bool
) -> None:
    assert spider_match(predicted, gold, ordered) is match


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=4, max_size=4), max_size=6),
    st.permutations(range(4)),
    st.integers(),
)
def test_spider_match_under_permutations(
    rows: list[list[int]], columns: list[int], seed: int
) -> None:
    permuted = [[row[column] for column in columns] for row in rows]
    assert spider_match(permuted, rows, ordered=True)
    random.Random(seed).shuffle(permuted)
    assert spider_match(permuted, rows, ordered=False)
