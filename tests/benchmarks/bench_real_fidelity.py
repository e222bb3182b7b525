"""How well the simulator, with a profile measured in minutes, predicts a real vLLM server.

One server with the small real model on a CPU; questions of the trace workload through the whole
stack at two concurrencies; the same arrivals in the simulator. Runs are kept in build/fidelity, so
that they can be taken one at a time (HEXGEN_FIDELITY_NEW_RUNS) and reported together.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hexgen_celery.api import Client
from hexgen_celery.core.fleet import Fleet, FleetInstance
from hexgen_celery.core.profiles import Profile
from hexgen_celery.llm import ChatRequest, LlmClient
from hexgen_celery.profiles_io import load_profile
from hexgen_celery.simulator import Policies
from hexgen_celery.workloads import Workload, WorkloadQuestion, read_workload
from tests.benchmarks import fidelity_report
from tests.benchmarks.fidelity_live import ask_all
from tests.benchmarks.fidelity_runs import FidelityRun, read_runs
from tests.benchmarks.fidelity_timeline import simulated_questions
from tests.benchmarks.fidelity_workload import Draw, Scale, as_the_server_sees, predict, rate_for
from tests.benchmarks.real_vllm import (
    MODEL,
    Bystanders,
    ServerLimits,
    beside_the_engine,
    forget_prefixes,
    stack_before,
    vllm_server,
)
from tests.benchmarks.rows import BenchmarkSkipped, Row, measured

PROJECT = Path(__file__).parents[2]
DATA = Path(os.environ.get("HEXGEN_DATA", PROJECT / ".." / "shared" / "data"))
WORKLOAD = "trace1.jsonl"
OUTPUT = PROJECT / "build" / "fidelity"
LIMITS = ServerLimits(sequences=16)
PROFILE_SECONDS = 90.0
# A CPU that others use too is less regular than a GPU; the report shows the fit's errors.
ACCEPTED_FIT_PERCENT = 60.0
# Questions in flight that each load is to bring about.
LOADS = {"c2": 2.0, "c6": 6.0}
RUNS = 3
# At most so many new runs of each load now; what was kept before is used with them.
NEW_RUNS = int(os.environ.get("HEXGEN_FIDELITY_NEW_RUNS", "0"))
DRAW = Draw(int(os.environ.get("HEXGEN_FIDELITY_QUESTIONS", "40")))
BAR = 15.0


def run() -> list[Row]:
    """Errors of mean and 95th percentile by load, and the shares of the mean's error."""
    if not (DATA / "workloads" / WORKLOAD).is_file():
        raise BenchmarkSkipped(f"the shared data is absent at {DATA}")
    scale = Scale()
    recorded = read_workload(DATA / "workloads" / WORKLOAD).part("test")
    lines = [scale.question(question) for question in recorded]
    if not NEW_RUNS:
        shutil.rmtree(OUTPUT, ignore_errors=True)
    with beside_the_engine(), vllm_server(LIMITS) as url:
        profile = _profile(url)
        bench = Fidelity(url, profile, lines)
        with stack_before(url, _profile_path(), LIMITS.sequences) as client:
            bench.measure(client, _seeds())
    runs = read_runs(OUTPUT / "runs")
    fidelity_report.write(OUTPUT, profile, runs)
    return list(_rows(runs, profile))


def _seeds() -> range:
    kept = min((len(list((OUTPUT / "runs").glob(f"{load}-*.json"))) for load in LOADS), default=0)
    return range(kept, min(RUNS, kept + (NEW_RUNS or RUNS)))


def _profile_path() -> Path:
    return OUTPUT / "profile.toml"


def _profile(url: str) -> Profile:
    """The server's profile by `hexgen profile`, or the one that earlier runs kept."""
    path = _profile_path()
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        limits = ["--max-sequences", str(LIMITS.sequences)]
        limits += ["--max-batched-tokens", str(LIMITS.batched_tokens)]
        hexgen = str(Path(sys.executable).with_name("hexgen"))
        command = [hexgen, "profile", url, "--gpu", "cpu", *limits]
        command += ["--seconds", str(PROFILE_SECONDS), "--accept", str(ACCEPTED_FIT_PERCENT)]
        command += ["--output", str(path), "--json"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"hexgen profile ended with {done.returncode}: {done.stderr}")
        (OUTPUT / "profile.json").write_text(done.stdout, encoding="utf-8")
    return load_profile(path)


class Fidelity:
    """Measures and predicts at one server."""

    def __init__(self, url: str, profile: Profile, lines: list[WorkloadQuestion]) -> None:
        self._url = url
        self._lines = lines
        self._fleet = Fleet("real", MODEL, (FleetInstance("real-1", "real", profile),))
        self._chat_tokens = _chat_template_tokens(url)
        seen = as_the_server_sees(Workload(WORKLOAD, tuple(lines)), self._chat_tokens)
        self._seen_lines = seen.questions

    def measure(self, client: Client, seeds: range) -> None:
        """Both loads with each seed; every run is kept as soon as it is over."""
        for seed in seeds:
            for load, wanted in LOADS.items():
                self._one(client, load, wanted, seed).save(OUTPUT / "runs")

    def _one(self, client: Client, load: str, wanted: float, seed: int) -> FidelityRun:
        rate = rate_for(wanted, self._seen_lines, DRAW, self._fleet, seed)
        workload = DRAW.workload(self._lines, rate, seed)
        predicted = predict(
            as_the_server_sees(workload, self._chat_tokens), self._fleet, Policies()
        )
        forget_prefixes(self._url)
        bystanders = Bystanders()
        real = ask_all(client, workload)
        return FidelityRun(
            load, seed, rate, bystanders.share(), tuple(real), tuple(simulated_questions(predicted))
        )


def _chat_template_tokens(url: str) -> int:
    """Tokens that the model's chat template adds to a message."""
    with LlmClient(url) as client:
        asked = client.complete(ChatRequest(MODEL, (("user", " the man"),), max_tokens=1))
    return asked.input_tokens - 2


def _rows(runs: list[FidelityRun], profile: Profile) -> Iterator[Row]:
    for load in LOADS:
        taken = [one for one in runs if one.load == load]
        notes: dict[str, Any] = {
            "questions": DRAW.questions,
            "rates": [round(one.rate, 4) for one in taken],
            "bystanders": [round(one.bystanders, 3) for one in taken],
            "shares": [_rounded(one.shares(profile)) for one in taken],
        }
        for name in ("mean", "p95"):
            errors = [one.errors()[name] for one in taken]
            yield measured(
                f"real.fidelity_{name}_error_percent_{load}", errors, "%", bar=BAR, **notes
            )


def _rounded(shares: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 1) for name, value in shares.items()}
