"""How many tokens a request is expected to generate (L̂_out), before anything was learnt.

| step | tokens | from |
|---|---|---|
| link | 120 | its JSON: keywords (median 48 in the traces) and about ten table and column names |
| candidate | 680 | mean of both candidate steps of the traces |
| revise | 115 | mean of the traces' `revise` |
| unit_tests | 100 | mean of the traces' `generate_unit_test` |
| choose | 60 | twice the median of the traces' `evaluate`: it also gives a reason |
| chat | 256 | a guess; chats are not in the traces |

The other steps are those of the published traces (requests of the canonical workloads' train split,
means): they serve the trace workflow, which must not look at the recorded lengths to estimate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

EXPECTED_TOKENS: Mapping[str, float] = {
    "link": 120.0,
    "candidate": 680.0,
    "revise": 115.0,
    "unit_tests": 100.0,
    "choose": 60.0,
    "chat": 256.0,
    "information_retriever": 7.0,
    "extract_keywords": 50.0,
    "generate_candidate_1": 830.0,
    "generate_candidate_2": 540.0,
    "unit_tester": 5.0,
    "generate_unit_test": 97.0,
    "evaluate": 31.0,
}
UNKNOWN_STEP_TOKENS = 128.0


class OutputLengths(Protocol):
    """Anything that estimates output lengths; a learning one can take the table's place."""

    def expected(self, stage: str, step: str, database: str) -> float:
        """Tokens such a request is expected to generate, greater than 0."""
        ...


@dataclass(frozen=True, slots=True)
class TabledLengths:
    """Estimates by step alone, from the table above."""

    table: Mapping[str, float] = field(default_factory=lambda: EXPECTED_TOKENS)
    otherwise: float = UNKNOWN_STEP_TOKENS

    def expected(self, stage: str, step: str, database: str) -> float:  # noqa: ARG002
        """Tokens such a request is expected to generate, greater than 0."""
        return self.table.get(step, self.otherwise)
