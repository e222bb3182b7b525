"""Reading workloads: canonical lines, published traces, recorded times, and what is wrong."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hexgen_celery.core.prefix import PrefixPart
from hexgen_celery.errors import InvalidWorkload
from hexgen_celery.workloads import RecordedTimes, dump_question, read_workload

DATA = Path(os.environ.get("HEXGEN_DATA", Path(__file__).parents[4] / "shared" / "data"))
needs_data = pytest.mark.skipif(
    not (DATA / "workloads").is_dir(), reason="shared data are absent (set HEXGEN_DATA)"
)

LINE: dict[str, Any] = {
    "question": "q",
    "database": "db",
    "requests": [
        {"id": 0, "stage": "a", "step": "one", "after": [], "input_tokens": 30, "output_tokens": 5},
        {
            "id": 1,
            "stage": "b",
            "step": "two",
            "after": [0],
            "input_tokens": 50,
            "output_tokens": 7,
            "template_tokens": 20,
            "schema_tokens": 10,
        },
    ],
    "split": "train",
}


def write(tmp_path: Path, *rows: object, name: str = "w.jsonl") -> Path:
    path = tmp_path / name
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def test_a_canonical_line(tmp_path: Path) -> None:
    workload = read_workload(write(tmp_path, LINE))
    (question,) = workload.questions
    assert (workload.name, question.split, workload.recorded) == ("w", "train", False)
    assert workload.part("test") == ()
    second = question.requests[1]
    assert second.after == (0,)
    assert second.prefix("x") == (PrefixPart("template:two", 20), PrefixPart("schema:x", 10))
    assert question.requests[0].prefix("x") == ()


def test_recorded_times_survive_a_round_trip(tmp_path: Path) -> None:
    (question,) = read_workload(write(tmp_path, LINE)).questions
    first = replace(question.requests[0], times=RecordedTimes(1.0, 1.5, 2.0))
    recorded = replace(
        question,
        arrival=0.5,
        tenant="t",
        slo_seconds=9.0,
        requests=(first, *question.requests[1:]),
    )
    workload = read_workload(write(tmp_path, dump_question(recorded)))
    assert workload.questions == (recorded,)
    assert workload.recorded


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"requests": None}, "requests"),
        ({"requests": []}, "requests"),
        ({"requests": [7]}, "requests"),
        ({"arrival": "noon"}, "arrival"),
        ({"requests": [{**LINE["requests"][1]}]}, "after"),
        ({"requests": [{**LINE["requests"][0], "after": [[0]]}]}, "after"),
        ({"requests": [{**LINE["requests"][0], "after": "0"}]}, "after"),
        ({"requests": [LINE["requests"][0], LINE["requests"][0]]}, "id"),
        ({"requests": [{**LINE["requests"][0], "output_tokens": 0}]}, "output_tokens"),
        ({"requests": [{**LINE["requests"][0], "template_tokens": 31}]}, "input_tokens"),
    ],
)
def test_a_wrong_line_names_its_place(tmp_path: Path, change: dict[str, Any], field: str) -> None:
    path = write(tmp_path, LINE, {**LINE, **change})
    with pytest.raises(InvalidWorkload, match="line 2") as caught:
        read_workload(path)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "no questions"), ("{", "line 1"), ("[1]", "published"), ("[", "not JSON")],
)
def test_a_file_that_is_no_workload(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "w.json"
    path.write_text(text)
    with pytest.raises(InvalidWorkload, match=message):
        read_workload(path)
    with pytest.raises(InvalidWorkload, match="cannot read"):
        read_workload(tmp_path / "absent")


PUBLISHED = [
    {
        "Text2SQLRequest": [
            {"step": "Information Retriever", "input_length": 301, "output_length": 28},
            {"step": "generate_candidate_x", "input_length": 9158 + 150, "output_length": 9},
            {"step": "generate_candidate_x", "input_length": 5292 + 140, "output_length": 9},
            {"step": "revise", "input_length": 3059 + 160, "output_length": 9},
            {"step": "evaluate", "input_length": 400, "output_length": 22},
            {"step": "evaluate", "input_length": 401, "output_length": 22},
            {"step": "unit_tester", "input_length": 278, "output_length": 4},
        ]
    }
]


def test_a_published_trace_gets_its_edges_and_parts_back(tmp_path: Path) -> None:
    (question,) = read_workload(write(tmp_path, PUBLISHED, name="t.json")).questions
    edges = [request.after for request in question.requests]
    assert edges == [(), (0,), (0,), (1, 2), (3,), (3,), (4, 5)]
    assert [r.schema_tokens for r in question.requests] == [0, 140, 140, 140, 0, 0, 0]
    assert question.requests[2].step == "generate_candidate_2"
    assert question.database == "t"


@pytest.mark.parametrize(
    ("rows", "field"),
    [
        ([{"step": "dance", "input_length": 1, "output_length": 1}], "step"),
        ([{"step": "revise", "output_length": 1}], "input_tokens"),
        (
            [{"step": "generate_candidate_x", "input_length": None, "output_length": 1}],
            "input_tokens",
        ),
        (
            [{"step": "generate_candidate_x", "input_length": "x", "output_length": 1}],
            "input_tokens",
        ),
        (["revise"], "Text2SQLRequest"),
        (None, "Text2SQLRequest"),
    ],
)
def test_a_wrong_published_trace_is_explained(tmp_path: Path, rows: object, field: str) -> None:
    path = write(tmp_path, [*PUBLISHED, {"Text2SQLRequest": rows}], name="t.json")
    with pytest.raises(InvalidWorkload, match="entry 1") as caught:
        read_workload(path)
    assert caught.value.field == field


@needs_data
@pytest.mark.data
@pytest.mark.parametrize("name", ["trace1", "trace2", "financial"])
def test_the_published_files_give_the_canonical_workloads(name: str) -> None:
    canonical = read_workload(DATA / "workloads" / f"{name}.jsonl").questions
    published = read_workload(DATA / "traces" / f"{name}.json").questions
    assert len(canonical) == len(published)
    for one, other in zip(canonical, published, strict=True):
        assert len(one.requests) == len(other.requests)
        for a, b in zip(one.requests, other.requests, strict=True):
            # The schema's size is told from the shortest prompt, so up to 10 tokens too high.
            assert 0 <= b.schema_tokens - a.schema_tokens <= 10
            assert a == replace(b, schema_tokens=a.schema_tokens)
