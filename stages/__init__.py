"""The four stages of text-to-SQL: what each asks a model, and what it makes of the answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from stages.candidate_generation import CandidateGeneration
from stages.evaluation import Evaluation
from stages.schema_linking import SchemaLinking
from stages.self_correction import SelfCorrection


@dataclass(frozen=True, slots=True)
class TextToSqlStages:
    """The stages of the text-to-sql workflow."""

    schema_linking: SchemaLinking = field(default_factory=SchemaLinking)
    candidate_generation: CandidateGeneration = field(default_factory=CandidateGeneration)
    self_correction: SelfCorrection = field(default_factory=SelfCorrection)
    evaluation: Evaluation = field(default_factory=Evaluation)


def build_stages() -> TextToSqlStages:
    """The stages with their prompts read; what a `stages_module` must offer."""
    return TextToSqlStages()


__all__ = [
    "CandidateGeneration",
    "Evaluation",
    "SchemaLinking",
    "SelfCorrection",
    "TextToSqlStages",
    "build_stages",
]
