"""`hexgen plan` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from hexgen_celery.cli.plan import plan_command
from hexgen_celery.errors import InvalidSettings, InvalidWorkload

KINDS = ("a100-80g-x1-qwen3-30b-a3b", "a6000-x1-qwen3-30b-a3b")


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    rows = [
        {
            "question": f"q{number}",
            "database": "d",
            "requests": [
                {
                    "id": 0,
                    "stage": "generation",
                    "step": "candidate",
                    "after": [],
                    "input_tokens": 3000,
                    "output_tokens": 200,
                    "template_tokens": 2000,
                }
            ],
        }
        for number in range(60)
    ]
    path = tmp_path / "workload.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    return path


def arguments(path: Path, *more: str) -> list[str]:
    offered = [text for kind in KINDS for text in ("--profile", kind)]
    length = ["--questions", "80", "--processes", "1", "--most", "4", "--model", "Qwen3-30B-A3B"]
    return [str(path), "--slo", "10", "--rate", "1", *offered, *length, *more]


def test_the_cheapest_mix_is_named(workload: Path) -> None:
    result = CliRunner().invoke(plan_command, arguments(workload), catch_exceptions=False)
    assert result.exit_code == 0
    assert "Take 2 × a6000-x1-qwen3-30b-a3b at 1.20 per hour" in result.output
    assert "chosen" in result.output


def test_other_prices_change_the_answer(workload: Path, tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text("[gpu_hour]\nA100-80G = 0.1\nA6000 = 5.0\n", encoding="utf-8")
    more = arguments(workload, "--prices", str(prices), "--json")
    result = CliRunner().invoke(plan_command, more, catch_exceptions=False)
    chosen = json.loads(result.output.splitlines()[-1])["chosen"]
    assert chosen["instances"] == {"a100-80g-x1-qwen3-30b-a3b": 1}
    assert chosen["price_per_hour"] == pytest.approx(0.1)


def test_what_cannot_be_planned_is_explained(workload: Path) -> None:
    def run(*more: str) -> None:
        CliRunner().invoke(plan_command, arguments(workload, *more), catch_exceptions=False)

    with pytest.raises(InvalidSettings, match="no mix of up to 4 instances holds"):
        run("--slo", "0.5")
    with pytest.raises(InvalidSettings, match="attainment must lie between 0 and 1"):
        run("--attainment", "95")
    with pytest.raises(InvalidWorkload, match=r"too few to tell an attainment of 0\.99"):
        run("--attainment", "0.99")
    with pytest.raises(InvalidSettings, match="no profile serves Llama"):
        run("--model", "Llama-3.1-70B")


def test_all_shipped_kinds_are_on_offer_by_default(workload: Path) -> None:
    more = [str(workload), "--slo", "10", "--rate", "1", "--most", "1", "--questions", "60"]
    model = ["--model", "Qwen3-30B-A3B", "--processes", "1", "--json"]
    result = CliRunner().invoke(plan_command, [*more, *model], catch_exceptions=False)
    assert json.loads(result.output.splitlines()[-1])["chosen"]["instances"] == {
        "l40s-x1-qwen3-30b-a3b": 1
    }
