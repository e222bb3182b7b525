"""The policies in use unless somebody chooses others, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class PolicyDefaults:
    """Names of registered policies and their parameters. Evidence: docs/scheduling.md.

    `alpha`, `patience` and slack: the weights of the dispatch score. `claim_every`: one claim in so
    many goes to the oldest demoted request; `claim_patience` and `claim_depth` bound how a large
    head is passed over. `kv_share` and `prefill_seconds`: what an instance may take in.
    """

    dispatch: str = "alpha"
    alpha: float = 0.2
    patience: float = 0.2
    use_slack: bool = True
    placement: Literal["instance", "pool", "auto"] = "instance"
    order: str = "latest-start"
    claim_every: int = 10
    claim_patience: int = 8
    claim_depth: int = 16
    admission: str = "allowance"
    kv_share: float = 0.9
    prefill_seconds: float = 2.0
    stealing: str = "none"


DEFAULTS = PolicyDefaults()
