"""The beginning of a text-to-sql question: keywords, what the database has for them, the schema.

    link ─ retrieve        a model names keywords, tables and columns; stored values are looked up
    retrieve               keywords come from rules: the question has too little time for a model
    retrieve ─ link        the schema is too long to send whole: the model sees what rules found

Whichever it is, the whole schema is sent on where it fits, since it is the part of a prompt that
servers have cached; what was found only draws attention, behind it. Only a schema that does not fit
is narrowed to what was found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hexgen_celery.workflows.candidate_branches import Nodes, error_text, is_final
from hexgen_celery.workflows.definition import (
    Json,
    NodeKind,
    NodeSpec,
    NodeState,
    NodeStatus,
    SqlCall,
    Submission,
)
from hexgen_celery.workflows.pipeline_options import PipelineOptions
from hexgen_celery.workflows.stage_contract import (
    LinkedSchema,
    LinkedValue,
    Question,
    SchemaLinkingStage,
    Stage,
)

LINK = "link"
RETRIEVE = "retrieve"
STEPS_MEMORY = "linking"
NARROW_MEMORY = "narrow"

MAX_LINKED_COLUMNS = 100
MAX_LINKED_VALUES = 24


@dataclass(frozen=True, slots=True)
class LinkingPlan:
    """The nodes of schema linking in order, and whether the schema must be narrowed."""

    steps: tuple[str, ...] = (LINK,)
    narrow: bool = False

    @classmethod
    def of(cls, options: PipelineOptions, slo_seconds: float, schema_tokens: int) -> LinkingPlan:
        """The plan for a question with `slo_seconds` over a schema of `schema_tokens`."""
        narrow = schema_tokens > options.schema_tokens
        in_haste = options.linking == "auto" and slo_seconds < options.linking_slo_seconds
        if options.linking == "rules" or in_haste:
            return cls((RETRIEVE,), narrow)
        return cls((RETRIEVE, LINK) if narrow else (LINK, RETRIEVE), narrow)

    @property
    def schema_comes_late(self) -> bool:
        """Whether the first node holds no schema, so that its text must come with later ones."""
        return self.steps[0] == RETRIEVE

    def to_memory(self) -> Json:
        """The plan as the workflow remembers it."""
        return {STEPS_MEMORY: list(self.steps), NARROW_MEMORY: self.narrow}

    @classmethod
    def from_memory(cls, memory: Mapping[str, Any]) -> LinkingPlan:
        """The inverse of `to_memory`."""
        return cls(tuple(memory.get(STEPS_MEMORY) or (LINK,)), bool(memory.get(NARROW_MEMORY)))

    def next_step(self, nodes: Nodes) -> str | None:
        """The node to add now; None while one is running, and when all are over."""
        for step in self.steps:
            if step not in nodes:
                return step
            if not is_final(nodes[step]):
                return None
        return None

    def is_over(self, nodes: Nodes) -> bool:
        """Whether every step is over."""
        return all(step in nodes and is_final(nodes[step]) for step in self.steps)


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What `retrieve` found: values and columns (`table.column`), the nearest first."""

    values: tuple[LinkedValue, ...] = ()
    columns: tuple[str, ...] = ()
    note: str = ""


def retrieve_spec(
    submission: Submission, keywords: Sequence[str], after: Sequence[str]
) -> NodeSpec:
    """The node that looks `keywords` up on an sql worker."""
    arguments = {"keywords": list(keywords)}
    call = SqlCall(submission.database, "", op=RETRIEVE, arguments=arguments)
    return NodeSpec(RETRIEVE, NodeKind.SQL, Stage.EXECUTE_SQL, RETRIEVE, call, tuple(after))


def keywords_of(question: Question, nodes: Nodes, stage: SchemaLinkingStage) -> tuple[str, ...]:
    """What to look up: the model's keywords, if there are any yet, and those that rules find."""
    asked = _read_link(nodes, stage)
    named = asked.keywords if asked else ()
    return tuple(dict.fromkeys((*named, *stage.keywords(question))))


def read_retrieved(nodes: Nodes) -> Retrieved:
    """What was retrieved; nothing, with a note, where that failed."""
    state = nodes.get(RETRIEVE)
    if state is None or not is_final(state):
        return Retrieved()
    if state.status is not NodeStatus.DONE or state.result is None:
        return Retrieved(note=f"no stored values were looked up ({_cause(state)})")
    return retrieved_from(state.result)


def retrieved_from(result: Json) -> Retrieved:
    """What an sql worker answered."""
    columns = (each for each in _list(result.get("columns")) if isinstance(each, str))
    return Retrieved(tuple(_values(result.get("values"))), tuple(columns))


def linked_by_rules(keywords: Sequence[str], retrieved: Retrieved) -> LinkedSchema:
    """The linked schema of a question for which no model was asked."""
    return _merged(LinkedSchema(keywords=tuple(keywords), by_rules=True), retrieved)


def read_linked(
    plan: LinkingPlan, question: Question, nodes: Nodes, stage: SchemaLinkingStage
) -> LinkedSchema | None:
    """What schema linking found, once it is over; partly empty, with a note, where it failed."""
    if not plan.is_over(nodes):
        return None
    retrieved = read_retrieved(nodes)
    asked = _read_link(nodes, stage) if LINK in plan.steps else None
    if asked is None:
        return linked_by_rules(stage.keywords(question), retrieved)
    return _merged(asked, retrieved)


def _merged(asked: LinkedSchema, retrieved: Retrieved) -> LinkedSchema:
    columns = asked.columns or retrieved.columns
    return LinkedSchema(
        keywords=asked.keywords,
        tables=asked.tables or _tables(columns),
        columns=columns[:MAX_LINKED_COLUMNS],
        note="; ".join(note for note in (asked.note, retrieved.note) if note),
        values=retrieved.values[:MAX_LINKED_VALUES],
        by_rules=asked.by_rules,
    )


def attention(linked: LinkedSchema, retrieved: Retrieved) -> tuple[str, ...]:
    """What a narrowed schema must hold: columns (`table.column`) and tables, most needed first."""
    places = (f"{value.table}.{value.column}" for value in linked.values)
    return tuple(dict.fromkeys((*linked.columns, *places, *retrieved.columns, *linked.tables)))


def _read_link(nodes: Nodes, stage: SchemaLinkingStage) -> LinkedSchema | None:
    state = nodes.get(LINK)
    if state is None or not is_final(state):
        return None
    if state.status is not NodeStatus.DONE or state.result is None:
        return LinkedSchema(note=f"schema linking failed ({_cause(state)}); all of it was used")
    return stage.read(str(state.result.get("text", "")))


def _cause(state: NodeState) -> str:
    return error_text(state.error) or "it was dropped"


def _values(found: object) -> list[LinkedValue]:
    texts = [each for each in _list(found) if isinstance(each, dict)]
    names = ("table", "column", "value", "keyword")
    return [LinkedValue(*(str(each.get(name, "")) for name in names)) for each in texts]


def _tables(columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(column.partition(".")[0] for column in columns))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
