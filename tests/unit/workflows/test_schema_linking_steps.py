"""How a question begins: keywords by a model or by rules, stored values, a schema that fits."""

from __future__ import annotations

import pytest

from hexgen_celery.sql.catalog import Catalog, Column, ForeignKey, Table
from hexgen_celery.workflows.definition import Answer, Json, LlmCall, SqlCall
from hexgen_celery.workflows.linking import LINK, RETRIEVE, LinkingPlan
from hexgen_celery.workflows.pipeline_options import PipelineOptions
from hexgen_celery.workflows.registered_schemas import RegisteredSchemas
from hexgen_celery.workflows.tokens import RatioCounter
from tests.unit.workflows.memory_executor import MemoryExecutor, prompt_of
from tests.unit.workflows.shop import GOOD, SCHEMA, ShopModel, fence, shop_question

ONE = {"candidates": 1, "correction_rounds": 0}


def run(
    options: Json, *, link: str | None = None, broken: bool = False
) -> tuple[MemoryExecutor, ShopModel, Answer]:
    script = {"candidate.1": fence(GOOD)} | ({} if link is None else {"link": link})
    broken_sql = frozenset({RETRIEVE}) if broken else frozenset()
    executor, model = shop_question(script, options={**ONE, **options}, broken_sql=broken_sql)
    outcome = executor.run()
    assert isinstance(outcome, Answer)
    return executor, model, outcome


def keywords(model: ShopModel) -> list[str]:
    call = model.specs[RETRIEVE].call
    assert isinstance(call, SqlCall)
    found: list[str] = call.arguments["keywords"]
    return found


def options(**changes: object) -> PipelineOptions:
    return PipelineOptions(1, 0, 0.0, 1, 100, False, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("chosen", "slo", "tokens", "steps", "narrow"),
    [
        (options(), 60.0, 10, (LINK, RETRIEVE), False),
        (options(linking_slo_seconds=9.0), 8.0, 10, (RETRIEVE,), False),
        (options(linking="model", linking_slo_seconds=9.0), 8.0, 10, (LINK, RETRIEVE), False),
        (options(linking="rules"), 60.0, 10, (RETRIEVE,), False),
        (options(schema_tokens=9), 60.0, 10, (RETRIEVE, LINK), True),
        (options(schema_tokens=9, linking="rules"), 60.0, 10, (RETRIEVE,), True),
    ],
)
def test_the_plan_follows_time_and_size(
    chosen: PipelineOptions, slo: float, tokens: int, steps: tuple[str, ...], narrow: bool
) -> None:
    plan = LinkingPlan.of(chosen, slo, tokens)
    assert (plan.steps, plan.narrow) == (steps, narrow)
    assert LinkingPlan.from_memory(plan.to_memory()) == plan


def test_the_model_names_keywords_and_stored_values_reach_the_prompt() -> None:
    _, model, answer = run({})
    assert keywords(model)[0] == "dear"
    assert model.specs[RETRIEVE].after == (LINK,)
    tail = model.tail("candidate.1")
    assert "stored values that resemble words of the question:\nitem.name: 'ink'" in tail
    assert answer.detail["linked"]["values"][0]["value"] == "ink"
    assert answer.detail["linked"]["by_rules"] is False


def test_rules_need_no_model() -> None:
    executor, model, answer = run({"linking": "rules"})
    assert SCHEMA in prompt_of(model.specs["candidate.1"], executor.parts)
    assert LINK not in model.specs
    assert "items" in keywords(model)
    assert answer.detail["linked"]["by_rules"] is True
    assert answer.detail["linked"]["columns"] == ["item.price"]
    assert answer.detail["linked"]["tables"] == ["item"]


def test_a_failed_look_up_is_noted_and_costs_nothing_else() -> None:
    _, model, answer = run({}, broken=True)
    assert "stored values" not in model.tail("candidate.1")
    assert any("no stored values were looked up" in each for each in answer.detail["warnings"])


def test_an_unreadable_answer_leaves_the_retrieved_columns() -> None:
    _, _, answer = run({}, link="I do not know")
    assert answer.detail["linked"]["columns"] == ["item.price"]
    assert "no readable answer" in answer.detail["linked"]["note"]


def test_a_schema_that_does_not_fit_is_narrowed_twice() -> None:
    executor, model, _ = run({"schema_tokens": 5})
    link, candidate = (
        prompt_of(model.specs[each], executor.parts) for each in (LINK, "candidate.1")
    )
    assert model.specs[LINK].after == (RETRIEVE,)
    assert "narrowed to item.price, 5 tokens" in link
    assert "narrowed to item.price, item.name, item, 5 tokens" in candidate
    assert SCHEMA not in link + candidate
    call = model.specs["candidate.1"].call
    assert isinstance(call, LlmCall)
    assert executor.memory["schema"]["hash"] == call.parts[1].hash


class _Registry:
    """A registry with one wide database."""

    schema_sha256 = "1"

    def entry(self, name: str) -> _Registry:
        return self

    def schema(self, name: str) -> str:
        return "all of it"

    def catalog(self, name: str) -> Catalog:
        key = ForeignKey(("a_id",), "a", ("id",))
        wide = tuple(Column(f"c{number}", "TEXT") for number in range(50))
        first = Table("a", (Column("id", "INTEGER", primary_key=1), *wide))
        second = Table("b", (Column("a_id", "INTEGER"), *wide), (key,))
        return Catalog(name, (first, second))


def test_a_narrowed_schema_keeps_keys_and_fits() -> None:
    schemas = RegisteredSchemas(_Registry(), RatioCounter())
    text = schemas.narrowed("wide", ["a.c7", "b.c9", "a"], 60)
    assert "c7" in text.text
    assert "c9" in text.text
    assert "c8" not in text.text
    assert "id INTEGER PRIMARY KEY" in text.text
    assert "FOREIGN KEY (a_id) REFERENCES a (id)" in text.text
    assert text == schemas.narrowed("wide", ["a.c7", "b.c9", "a"], 60)
    keys_only = schemas.narrowed("wide", [], 60)
    assert "c7" not in keys_only.text
    assert "a_id" in keys_only.text
