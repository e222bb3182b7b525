"""The command `hexgen simulate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from hexgen_celery.cli.simulate import simulate_command
from hexgen_celery.errors import HexgenError
from hexgen_celery.workloads import dump_question
from tests.unit.simulator.small_world import WORKLOAD


@pytest.fixture
def workload(tmp_path: Path) -> str:
    path = tmp_path / "small.jsonl"
    path.write_text("\n".join(json.dumps(dump_question(line)) for line in WORKLOAD.questions))
    return str(path)


SHORT = ["--questions", "30", "--warmup", "5", "--databases", "3"]


def test_json_has_the_promised_figures(workload: str) -> None:
    arguments = [workload, "--rate", "0.4", *SHORT, "--alpha", "0.3", "--json"]
    result = CliRunner().invoke(simulate_command, arguments, catch_exceptions=False)
    figures = json.loads(result.output.splitlines()[-1])
    assert figures["dispatch"] == "alpha"
    assert figures["rate"] == 0.4
    expected = {"order", "p50", "p95", "p99", "throughput", "attainment", "stable"}
    expected |= {"simulated_seconds_per_second", "bound_p95", "utilisation", "spread"}
    assert expected <= set(figures)
    assert 0 < figures["bound_p50"] <= figures["p50"] <= figures["p95"] <= figures["p99"]


def test_a_load_is_a_share_of_the_capacity(workload: str) -> None:
    arguments = [workload, "--load", "0.5", *SHORT, "--dispatch", "round-robin", "--json"]
    result = CliRunner().invoke(simulate_command, arguments, catch_exceptions=False)
    figures = json.loads(result.output.splitlines()[-1])
    assert figures["rate"] == pytest.approx(0.5 * figures["capacity"])


def test_the_table_reads_well(workload: str) -> None:
    arguments = [workload, "--rate", "0.4", *SHORT, "--set", "arrivals.cv=3", "--arrivals", "gamma"]
    arguments += ["--chat-rate", "0.2", "--incident", "down:a100-1:30"]
    result = CliRunner().invoke(simulate_command, arguments, catch_exceptions=False)
    assert "95th percentile" in result.output
    assert "busy, pool a100-70b" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--load or --rate"),
        (["--rate", "1", "--load", "1"], "--load or --rate"),
        (["--rate", "0"], "rate"),
        (["--rate", "1", "--dispatch", "psychic"], "unknown dispatch policy 'psychic'"),
        (["--rate", "1", "--set", "order.x=1"], "no parameter 'x'"),
        (["--rate", "1", "--set", "nonsense"], "GROUP.NAME=VALUE"),
        (["--rate", "1", "--alpha", "7"], "alpha must lie between"),
        (["--rate", "1", "--seeds", "0"], "--seeds"),
        (["--rate", "1", "--chat-rate", "-1"], "--chat-rate"),
        (["--rate", "1", "--incident", "explode:a100-1:3"], "KIND:INSTANCE:SECONDS"),
        (["--rate", "1", "--incident", "down:nobody:3"], "nobody"),
        (["--rate", "1", "--cluster", "nowhere"], "no cluster"),
        (["--arrivals", "recorded"], "does not say when"),
    ],
)
def test_bad_input_is_explained(workload: str, arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(simulate_command, [workload, *SHORT, *arguments])
    assert isinstance(result.exception, HexgenError)
    assert message in str(result.exception)
