"""Stage budgets and their debits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexgen_celery.core.budgets import BudgetLedger, stage_budget

MEANS = {"linking": 4.0, "generation": 4.0, "correction": 8.0}


def test_an_overrun_shrinks_later_budgets_as_in_the_papers_figure_3() -> None:
    ledger = BudgetLedger(0.0, 0.160, {"a": 40.0, "b": 40.0, "c": 80.0})
    assert ledger.open("a", 0.0) == pytest.approx(0.040)
    account = ledger.close("a", 0.050)
    assert account is not None
    assert account.taken == pytest.approx(0.050)
    assert account.debit == pytest.approx(0.010)
    # Without the overrun b would get 40 and c 80 of the 120 ms left; now they share 110.
    assert ledger.open("b", 0.050) == pytest.approx(0.110 / 3)
    ledger.close("b", 0.080)
    assert ledger.open("c", 0.080) == pytest.approx(0.080)
    assert ledger.overrun() == pytest.approx(0.010)


def test_parallel_requests_share_one_budget() -> None:
    ledger = BudgetLedger(0.0, 16.0, MEANS)
    assert ledger.open("linking", 0.0) == ledger.open("linking", 1.0) == pytest.approx(4.0)
    assert ledger.close("linking", 3.0) is None
    account = ledger.close("linking", 5.0)
    assert account is not None
    assert account.debit == pytest.approx(1.0)
    assert len(ledger.accounts) == 1


def test_a_later_round_opens_a_new_account() -> None:
    ledger = BudgetLedger(0.0, 16.0, MEANS)
    for start in (0.0, 4.0):
        ledger.open("correction", start)
        ledger.close("correction", start + 4.0)
    assert [account.budget for account in ledger.accounts] == [16.0, 12.0]
    assert [account.debit for account in ledger.accounts] == [-12.0, -8.0]


def test_a_late_question_has_no_budget_left() -> None:
    ledger = BudgetLedger(10.0, 16.0, MEANS)
    assert ledger.left(30.0) == -4.0
    assert ledger.open("linking", 30.0) == 0.0


def test_an_open_account_has_no_debit_yet() -> None:
    ledger = BudgetLedger(0.0, 16.0, MEANS)
    ledger.open("linking", 0.0)
    assert ledger.accounts[0].taken == ledger.accounts[0].debit == ledger.overrun() == 0.0


def test_misuse_is_explained() -> None:
    ledger = BudgetLedger(0.0, 16.0, MEANS)
    with pytest.raises(ValueError, match="unknown stage 'x'; the ledger knows: linking"):
        ledger.open("x", 0.0)
    with pytest.raises(ValueError, match="no request of stage 'linking' is open"):
        ledger.close("linking", 0.0)
    with pytest.raises(ValueError, match="must not be negative"):
        stage_budget(1.0, -1.0, [])
    with pytest.raises(ValueError, match="all zero"):
        stage_budget(1.0, 0.0, [0.0])


@given(
    left=st.floats(-10, 1e3),
    means=st.lists(st.floats(0.01, 100), min_size=1, max_size=6),
)
def test_budgets_taken_in_full_use_up_what_is_left(left: float, means: list[float]) -> None:
    total = 0.0
    for position, mean in enumerate(means):
        total += stage_budget(left - total, mean, means[position + 1 :])
    assert total == pytest.approx(max(0.0, left))


@given(left=st.floats(0, 1e3), overrun=st.floats(0, 1e3), mean=st.floats(0.01, 10))
def test_an_overrun_never_raises_a_budget(left: float, overrun: float, mean: float) -> None:
    assert stage_budget(left - overrun, mean, [3.0]) <= stage_budget(left, mean, [3.0])
