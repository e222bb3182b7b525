"""What the stages make of a model's answers: the right value, or a harmless one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexgen_celery.workflows.stage_contract import Choice, LinkedSchema, Stages
from stages import build_stages
from stages.evaluation import MAX_REASON_CHARACTERS, MAX_TESTS
from stages.model_json import read_object, strings
from stages.schema_linking import UNREADABLE
from stages.sql_answers import CUT_OFF, NO_RECORDING, NO_SQL, read_sql_answer
from workers.emulation.tokens import filler

STAGES: Stages = build_stages()
HOSTILE = (
    "{" * 5000,
    '{"tables": ' + "[" * 100_000,
    '{"tables"',
    "\x00\ud800",
    '{"choice": NaN, "tests": Infinity, "tables": -Infinity}',
)


@pytest.mark.parametrize(
    "text",
    [
        '{"keywords": ["a"], "tables": ["t"], "columns": ["t.c"]}',
        '```json\n{"keywords": ["a"], "tables": ["t"], "columns": ["t.c"]}\n```',
        'Sure! {"keywords": ["a"], "tables": ["t", "t", " "], "columns": ["t.c", 7]} Done.',
        '<think>{"tables": ["wrong"]}</think>{"keywords":["a"],"tables":["t"],"columns":["t.c"]}',
        '{"tables": ["draft"]} or better {"keywords":["a"],"tables":["t"],"columns":["t.c"]}',
        '{broken {"keywords": ["a"], "tables": ["t"], "columns": ["t.c"]}',
    ],
)
def test_linked_schemas_are_read_from_whatever_is_around_them(text: str) -> None:
    assert STAGES.schema_linking.read(text) == LinkedSchema(("a",), ("t",), ("t.c",))


@pytest.mark.parametrize("text", ["", "no json", "[1, 2]", '{"columns": []}', '"tables"'])
def test_unreadable_linking_is_empty_and_says_so(text: str) -> None:
    assert STAGES.schema_linking.read(text) == LinkedSchema(note=UNREADABLE)


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ('{"choice": 2, "reason": " so "}', Choice(2, "so")),
        ('{"choice": "3"}', Choice(3, "")),
        ('{"choice": 1.0, "reason": 5}', Choice(1, "")),
        ('{"choice": 0}', None),
        ('{"choice": 4}', None),
        ('{"choice": true}', None),
        ('{"choice": 1.5}', None),
        ('{"choice": "²"}', None),
        ('{"choice": "two"}', None),
        ('{"choice": null}', None),
        ("2", None),
    ],
)
def test_choices_are_read_within_bounds(text: str, choice: Choice | None) -> None:
    assert STAGES.evaluation.read_choice(text, 3) == choice


def test_a_reason_is_cut() -> None:
    choice = STAGES.evaluation.read_choice(json.dumps({"choice": 1, "reason": "r" * 9999}), 1)
    assert choice is not None
    assert len(choice.reason) < MAX_REASON_CHARACTERS + 20


def test_unit_tests_are_bounded_and_tolerant() -> None:
    many = json.dumps({"tests": [f"test {n}" for n in range(50)] + [3, "", None]})
    assert len(STAGES.evaluation.read_unit_tests(many)) == MAX_TESTS
    assert STAGES.evaluation.read_unit_tests("none today") == ()
    assert STAGES.evaluation.read_unit_tests('{"tests": "one"}') == ()


def test_sql_is_found_unchanged() -> None:
    sql = 'SELECT "Unit Price (EUR)"\nFROM item -- all'
    for stage in (STAGES.candidate_generation, STAGES.self_correction):
        answer = stage.read(f"Well.\n```sql\n{sql}\n```\nDone.")
        assert (answer.sql, answer.problem) == (sql, "")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("I do not know.", NO_SQL),
        ("<think>let me see, the table", CUT_OFF),
        ("", NO_SQL),
    ],
)
def test_an_answer_without_sql_says_why(text: str, problem: str) -> None:
    answer = read_sql_answer(text)
    assert (answer.sql, answer.problem) == ("", problem)


def test_a_refused_statement_keeps_its_text_and_the_reason() -> None:
    answer = read_sql_answer("```sql\nWITH a AS (SELECT 1) DELETE FROM item\n```")
    assert answer.sql.startswith("WITH a")
    assert "only reading is allowed, not DELETE" in answer.problem


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_answers_are_harmless(text: str) -> None:
    read_everything(text)


@given(st.text(alphabet=st.sampled_from('{}[]",:\\ntruefals0123 `SELECT;()'), max_size=200))
def test_any_text_is_read_without_an_error(text: str) -> None:
    read_everything(text)


def read_everything(text: str) -> None:
    assert isinstance(STAGES.schema_linking.read(text), LinkedSchema)
    assert isinstance(STAGES.candidate_generation.read(text).sql, str)
    assert isinstance(STAGES.evaluation.read_unit_tests(text), tuple)
    choice = STAGES.evaluation.read_choice(text, 2)
    assert choice is None or choice.number in (1, 2)


@given(st.dictionaries(st.text(max_size=5), st.integers(), max_size=3), st.text(max_size=20))
def test_an_object_is_found_behind_any_text_without_braces(
    fields: dict[str, int], before: str
) -> None:
    wanted = {**fields, "key": 1}
    text = before.replace("{", "").replace("<", "") + json.dumps(wanted)
    assert read_object(text, "key") == wanted


def test_strings_keeps_texts_once_in_order() -> None:
    assert strings(["b", " a ", "b", 1, ""], 5) == ("b", "a")
    assert strings(["a", "b"], 1) == ("a",)
    assert strings("ab", 5) == ()


def test_an_emulated_server_without_a_recording_is_named_as_the_problem() -> None:
    answer = STAGES.candidate_generation.read(filler(64))
    assert (answer.sql, answer.problem) == ("", NO_RECORDING)
    assert "no recorded answer" in answer.problem
