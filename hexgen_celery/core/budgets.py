"""The share of a question's SLO that each stage gets, and what it really took.

Source of the formula: the HexGen-Flow paper (arXiv 2505.05286). The budget of a request of stage s,
when it becomes ready, is

    (SLO − elapsed) · T̄(s) / (T̄(s) + Σ T̄(remaining stages))

with T̄ the mean seconds of a stage over the GPU types. An overrun is a debit: since `elapsed`
grew, every later budget is computed from less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


def stage_budget(left_seconds: float, stage_mean: float, later_means: Sequence[float]) -> float:
    """Seconds for the stage out of `left_seconds` of SLO; never negative.

    Raises:
        ValueError: if a mean is negative, or all are zero.
    """
    if stage_mean < 0 or any(mean < 0 for mean in later_means):
        raise ValueError(f"stage means must not be negative, got {[stage_mean, *later_means]}")
    total = stage_mean + sum(later_means)
    if total <= 0:
        raise ValueError("the means of the remaining stages are all zero")
    return max(0.0, left_seconds) * stage_mean / total


@dataclass(slots=True)
class StageAccount:
    """One stage's line in the ledger, seconds. Parallel requests of the stage share it."""

    stage: str
    budget: float
    opened_at: float
    requests: int = 0
    closed_at: float | None = None

    @property
    def taken(self) -> float:
        """Seconds from opening to the end of the stage's last request; 0 while it runs."""
        return 0.0 if self.closed_at is None else self.closed_at - self.opened_at

    @property
    def debit(self) -> float:
        """Seconds overrun (positive) or left over (negative); 0 while it runs."""
        return 0.0 if self.closed_at is None else self.taken - self.budget


@dataclass(slots=True)
class BudgetLedger:
    """The budgets of one question.

    `submitted_at` and `slo_seconds` bound it; `stage_means` gives T̄ per stage in the order in
    which the stages run. Requests of one stage that are open at the same time share one account,
    which is given once and closed when the last of them ends; a later request of the same stage
    (a correction round) opens a new one.
    """

    submitted_at: float
    slo_seconds: float
    stage_means: Mapping[str, float]
    accounts: list[StageAccount] = field(default_factory=list)
    _open: dict[str, StageAccount] = field(default_factory=dict)

    def open(self, stage: str, now: float) -> float:
        """A request of `stage` became ready; returns its budget in seconds.

        Raises:
            ValueError: if the stage is not one of `stage_means`.
        """
        account = self._open.get(stage) or self._new_account(stage, now)
        account.requests += 1
        return account.budget

    def close(self, stage: str, now: float) -> StageAccount | None:
        """A request of `stage` ended; returns the account if that was its last one.

        Raises:
            ValueError: if no request of the stage is open.
        """
        account = self._open.get(stage)
        if account is None:
            raise ValueError(f"no request of stage {stage!r} is open")
        account.requests -= 1
        if account.requests:
            return None
        account.closed_at = now
        return self._open.pop(stage)

    def left(self, now: float) -> float:
        """Seconds of SLO left; negative once the question is late."""
        return self.slo_seconds - (now - self.submitted_at)

    def overrun(self) -> float:
        """The sum of all debits of closed accounts, seconds."""
        return sum(max(0.0, account.debit) for account in self.accounts)

    def _new_account(self, stage: str, now: float) -> StageAccount:
        names = list(self.stage_means)
        if stage not in names:
            raise ValueError(f"unknown stage {stage!r}; the ledger knows: {', '.join(names)}")
        later = [self.stage_means[name] for name in names[names.index(stage) + 1 :]]
        budget = stage_budget(self.left(now), self.stage_means[stage], later)
        account = StageAccount(stage, budget, now)
        self.accounts.append(account)
        self._open[stage] = account
        return account
