"""`hexgen tune` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from hexgen_celery.cli.tune import tune_command
from hexgen_celery.errors import InvalidSettings, InvalidWorkload


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    rows = [
        {
            "question": f"q{number}",
            "database": "d",
            "arrival": 0.7 * number,
            "slo_seconds": 15.0,
            "requests": [
                {
                    "id": 0,
                    "stage": "generation",
                    "step": "candidate",
                    "after": [],
                    "input_tokens": 3000,
                    "output_tokens": 100 + 3 * number,
                    "template_tokens": 2000,
                }
            ],
        }
        for number in range(45)
    ]
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    return path


def small(path: Path, *more: str) -> list[str]:
    length = ["--questions", "20", "--seeds", "1", "--processes", "1"]
    return [str(path), "--cluster", "het-30b", *length, *more]


def test_a_table_and_a_verdict(trace: Path) -> None:
    result = CliRunner().invoke(tune_command, small(trace), catch_exceptions=False)
    assert result.exit_code == 0
    assert "alpha α 0.5" in result.output
    assert "gain" in result.output
    assert "confidence" in result.output


def test_json_holds_choice_prediction_and_confidence(trace: Path) -> None:
    arguments = small(trace, "--json", "--objective", "attainment", "--alpha", "0.9")
    result = CliRunner().invoke(tune_command, arguments, catch_exceptions=False)
    report = json.loads(result.output.splitlines()[-1])
    assert report["objective"] == "attainment"
    assert report["incumbent"]["alpha"] == 0.9
    assert 0.0 <= report["confidence"] <= 1.0
    assert len(report["tried"]) == 11
    assert report["chosen"]["dispatch"] == "alpha"


def test_mistakes_are_explained(trace: Path) -> None:
    def run(*more: str) -> None:
        CliRunner().invoke(tune_command, small(trace, *more), catch_exceptions=False)

    with pytest.raises(InvalidSettings, match="unknown dispatch policy 'alfa'"):
        run("--incumbent", "alfa")
    with pytest.raises(InvalidSettings, match="alpha must lie between 0 and 1"):
        run("--alpha", "7")
    trace.write_text(trace.read_text(encoding="utf-8").splitlines()[0] + "\n", encoding="utf-8")
    with pytest.raises(InvalidWorkload, match="too few to tune on"):
        run()
