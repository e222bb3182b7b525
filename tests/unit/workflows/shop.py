"""A small real database, a scripted model, and the text-to-sql workflow over both."""

from __future__ import annotations

import hashlib
import json
import random
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hexgen_celery.errors import UnknownDatabase
from hexgen_celery.settings import PipelineSettings
from hexgen_celery.workflows.definition import Json, LlmCall, NodeSpec, SqlCall
from hexgen_celery.workflows.output_lengths import TabledLengths
from hexgen_celery.workflows.request_writer import RequestWriter
from hexgen_celery.workflows.schema_text import SchemaText, delimited_schema
from hexgen_celery.workflows.text_to_sql import TextToSql
from hexgen_celery.workflows.tokens import RatioCounter
from stages import build_stages
from tests.unit.workflows.memory_executor import Finished, MemoryExecutor, submission_of

SCHEMA = """CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL);
CREATE TABLE sale (id INTEGER PRIMARY KEY, item_id INTEGER REFERENCES item(id), day TEXT);"""
ROWS = """INSERT INTO item VALUES (1, 'pen', 2.5), (2, 'ink', 4.0), (3, 'cup', 7.0);
INSERT INTO sale VALUES (1, 1, '2024-01-05'), (2, 1, '2024-02-06'), (3, 2, '2024-02-07');"""

GOOD = "SELECT name FROM item WHERE price > 3"
SAME = "SELECT i.name FROM item AS i WHERE i.price > 3.0 ORDER BY i.name"
OTHER = "SELECT name FROM item WHERE price < 3"
THIRD = "SELECT COUNT(*) FROM item"
EMPTY = "SELECT name FROM item WHERE price > 1000"
WRONG = "SELECT title FROM item"
WORSE = "SELECT nothing FROM nowhere"

LINKED = '{"keywords": ["dear"], "tables": ["item"], "columns": ["item.price", "item.name"]}'

FOUND = {
    "values": [{"table": "item", "column": "name", "value": "ink", "keyword": "ink", "score": 1.0}],
    "columns": ["item.price"],
    "indexed": True,
}


def fence(sql: str) -> str:
    """SQL as a model writes it."""
    return f"Here it is.\n```sql\n{sql}\n```"


class OneSchema:
    """A source that knows the shop."""

    def __init__(self, text: str = SCHEMA) -> None:
        self.text = text
        self.asked = 0

    def schema(self, database: str) -> SchemaText:
        self.asked += 1
        if database != "shop":
            raise UnknownDatabase(f"no database {database!r}")
        return delimited_schema(self.text, RatioCounter())

    def narrowed(self, database: str, columns: Sequence[str], max_tokens: int) -> SchemaText:
        text = f"-- narrowed to {', '.join(columns)}, {max_tokens} tokens"
        return delimited_schema(text, RatioCounter())


def text_to_sql(pipeline: PipelineSettings | None = None, schema: str = SCHEMA) -> TextToSql:
    """The workflow with the shipped stages."""
    writer = RequestWriter(RatioCounter(), TabledLengths())
    return TextToSql(build_stages(), OneSchema(schema), pipeline or PipelineSettings(), writer)


def run_sql(call: SqlCall) -> Json:
    """What an sql worker answers: the shop's rows, or what it has stored for keywords."""
    if call.op == "retrieve":
        return FOUND
    return execute(call.sql)


def execute(sql: str) -> Json:
    """Run the statement on a fresh copy of the shop; the result as an sql worker reports it."""
    with sqlite3.connect(":memory:") as connection:
        connection.executescript(SCHEMA + ROWS)
        try:
            cursor = connection.execute(sql)
        except sqlite3.Error as error:
            return {"status": "error", "error": str(error), "row_count": 0, "columns": []}
        rows = cursor.fetchall()
        columns = [column[0] for column in cursor.description]
    digest = hashlib.sha256(json.dumps(sorted(map(repr, rows))).encode()).hexdigest()
    return {
        "status": "ok",
        "columns": columns,
        "row_count": len(rows),
        "truncated": False,
        "digest": digest,
        "error": "",
    }


@dataclass
class ShopModel:
    """Answers LLM nodes by id from a script and runs SQL nodes for real.

    A scripted None is a node that fails for good. Nodes without a script get `otherwise`.
    """

    script: Mapping[str, str | None]
    otherwise: str | None = ""
    broken_sql: frozenset[str] = frozenset()
    specs: dict[str, NodeSpec] = field(default_factory=dict)

    def __call__(self, spec: NodeSpec) -> Finished:
        self.specs[spec.id] = spec
        if isinstance(spec.call, SqlCall):
            if spec.id in self.broken_sql:
                return Finished(error={"message": "the sandbox is gone", "hint": "restart it"})
            return Finished(run_sql(spec.call))
        text = self.script.get(spec.id, self.otherwise)
        if text is None:
            return Finished(error={"code": "model_unavailable", "message": "no server answers"})
        return Finished({"text": text, "finish_reason": "stop"})

    def tail(self, node: str) -> str:
        """The question-dependent part of that node's prompt."""
        call = self.specs[node].call
        assert isinstance(call, LlmCall)
        return call.tail


def shop_question(
    script: Mapping[str, str | None],
    *,
    options: Json | None = None,
    otherwise: str | None = "",
    broken_sql: frozenset[str] = frozenset(),
    seed: int = 1,
) -> tuple[MemoryExecutor, ShopModel]:
    """A question over the shop whose model follows `script`."""
    model = ShopModel({"link": LINKED, **script}, otherwise, broken_sql)
    submission = submission_of(
        "text_to_sql", "Which items are dear?", evidence="dear: price > 3", options=options or {}
    )
    return MemoryExecutor(text_to_sql(), submission, model, random.Random(seed)), model
