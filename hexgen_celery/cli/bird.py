"""`hexgen bird run`: the questions of a BIRD directory through the whole system, scored by EX."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from hexgen_celery.answers import Answer, Outcome
from hexgen_celery.api import Client, Pending, Question
from hexgen_celery.cli.cluster_file import emulated_cluster
from hexgen_celery.cli.context import CliContext, pass_cli
from hexgen_celery.cli.local_cluster import fresh_home, local_cluster, own_cluster
from hexgen_celery.cli.output import console, json_option, print_json, table
from hexgen_celery.cluster import EMBEDDED, read_cluster
from hexgen_celery.errors import HexgenError, InvalidSettings
from hexgen_celery.evaluation.bird import Subset, load_bird
from hexgen_celery.evaluation.predictions import read_predictions
from hexgen_celery.evaluation.questions import GoldQuestion, InvalidDataset, QuestionSet
from hexgen_celery.evaluation.replay import (
    REPLAYED_STAGES,
    ReplayShape,
    build_replay,
    write_replay,
)
from hexgen_celery.settings import Settings
from hexgen_celery.slo_report import Ending, SloReport

_SCORER = "workers.scoring"
_READY_SECONDS = 120.0
_GRACE_SECONDS = 30.0
_CLASS = "bird"
NOT_A_SCORE = (
    "Answers were replayed from published predictions by emulated servers; "
    "this EX is not the score of a model."
)


@dataclass(frozen=True, slots=True)
class BirdRun:
    """What to run: the questions, how each is asked, and where the answers come from."""

    chosen: QuestionSet
    questions: tuple[GoldQuestion, ...]
    slo_seconds: float
    shape: ReplayShape

    def asked(self) -> list[Question]:
        """The questions as submissions; the key lets an emulated server find its answers."""
        return [
            Question(
                each.question,
                each.database,
                self.slo_seconds,
                evidence=each.evidence,
                options={
                    "question_key": each.key,
                    "candidates": self.shape.candidates,
                    "correction_rounds": self.shape.rounds,
                },
            )
            for each in self.questions
        ]


@click.group("bird")
def bird_group() -> None:
    """Work with the BIRD benchmark."""


@bird_group.command("run")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--db", "database", help="Only questions about this database.")
@click.option("--limit", type=click.IntRange(1), help="Only the first so many questions.")
@click.option(
    "--subset",
    type=click.Choice(["auto", "dev", "mini", "train"]),
    default="auto",
    show_default=True,
    help="Which question file of the directory.",
)
@click.option(
    "--replay",
    type=click.Path(exists=True, path_type=Path),
    help="Answer from these prediction files by emulated servers instead of a model.",
)
@click.option("--slo", default=300.0, show_default=True, help="Seconds for each question.")
@click.option("--candidates", default=3, show_default=True, type=click.IntRange(1, 16))
@click.option("--rounds", default=2, show_default=True, type=click.IntRange(0, 10))
@click.option("--seed", default=7, show_default=True, help="Which file plays which part.")
@click.option(
    "--speed", default=20.0, show_default=True, help="How much faster emulated time runs."
)
@json_option
@pass_cli
def bird_command(
    cli: CliContext,
    directory: Path,
    database: str | None,
    limit: int | None,
    subset: Subset,
    replay: Path | None,
    slo: float,
    candidates: int,
    rounds: int,
    seed: int,
    speed: float,
    as_json: bool,
) -> int:
    """Ask the questions of DIRECTORY (BIRD's layout) and report EX by difficulty."""
    chosen = load_bird(directory, database, limit, subset)
    shape = ReplayShape(candidates, rounds)
    if replay is None:
        run = BirdRun(chosen, chosen.questions, slo, shape)
        place = _configured_cluster(cli)
    else:
        predictions = read_predictions(replay)
        questions = predictions.covered(chosen.questions)
        run = BirdRun(chosen, _some(questions, replay), slo, shape)
        home = fresh_home(cli.settings.up.directory / "bird")
        answers = home / "replay.jsonl"
        write_replay(build_replay(questions, predictions, shape, seed), answers)
        place = _replaying_cluster(home, answers, speed)
    with place as client:
        report = _run(client, run, quiet=as_json)
    report |= {
        "uncovered": len(chosen.questions) - len(run.questions),
        "replayed_stages": dict(REPLAYED_STAGES) if replay else {},
        "emulated": replay is not None or _any_emulated(cli.settings),
        "note": NOT_A_SCORE if replay else "",
    }
    print_json(report) if as_json else _show(report)
    return 0 if report["lost"] == 0 else 1


def _some(questions: tuple[GoldQuestion, ...], replay: Path) -> tuple[GoldQuestion, ...]:
    if not questions:
        raise InvalidDataset(
            f"{replay} holds no prediction for any chosen question",
            field="replay",
            hint="Name prediction files for this question set, or choose other questions",
        )
    return questions


@contextlib.contextmanager
def _replaying_cluster(home: Path, answers: Path, speed: float) -> Iterator[Client]:
    """A cluster of its own, because emulated servers answer from one replay only."""
    config = home / "cluster.toml"
    config.write_text(emulated_cluster(home, replay=[answers], speed=speed), encoding="utf-8")
    with own_cluster(config, _READY_SECONDS) as client:
        yield client


@contextlib.contextmanager
def _configured_cluster(cli: CliContext) -> Iterator[Client]:
    """The running cluster, else the configured one for the length of the run."""
    settings = cli.settings
    embedded = settings.broker.url.get_secret_value() == EMBEDDED
    if not embedded or read_cluster(settings.up.directory) is not None:
        with Client(settings) as client:
            yield client
        return
    if not settings.pools:
        raise InvalidSettings(
            "nobody can answer: no cluster runs and no pool is configured",
            field="pools",
            hint="declare [[pools]] in hexgen.toml, or replay predictions with --replay DIR",
        )
    with local_cluster(cli.config, _READY_SECONDS), Client(settings) as client:
        yield client


def _run(client: Client, run: BirdRun, *, quiet: bool) -> dict[str, Any]:
    for path in run.chosen.databases.values():
        client.add_database(path)
    pendings = client.ask_many(run.asked())
    outcomes = _collect(client, run, pendings, quiet=quiet)
    predictions = {
        each.key: outcome.sql
        for each, outcome in zip(run.questions, outcomes, strict=True)
        if isinstance(outcome, Answer)
    }
    slo = SloReport.of([Ending.of(_CLASS, outcome) for outcome in outcomes])
    score = _score(client, run, predictions)
    return {**score, "lost": slo.lost, "slo": slo.to_json(), "slo_seconds": run.slo_seconds}


def _collect(
    client: Client, run: BirdRun, pendings: Sequence[Pending], *, quiet: bool
) -> list[Outcome | None]:
    outcomes: dict[str, Outcome] = {}
    with console.status("asking…") as status:
        for pending, outcome in client.completed(
            pendings, timeout=run.slo_seconds + _GRACE_SECONDS
        ):
            outcomes[pending.id] = outcome
            if not quiet:
                status.update(f"{len(outcomes)} of {len(pendings)} questions have ended")
    return [outcomes.get(pending.id) for pending in pendings]


def _score(client: Client, run: BirdRun, predictions: Mapping[str, str]) -> dict[str, Any]:
    """Gold and predictions run in the sandbox of a program of its own, as all SQL does."""
    names = run.chosen.databases
    job = {
        "questions": [asdict(each) for each in run.questions],
        "files": {name: asdict(client.registry.entry(name).file) for name in names},
        "predictions": dict(predictions),
    }
    done = subprocess.run(
        [sys.executable, "-m", _SCORER],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise HexgenError(f"scoring failed: {done.stderr.strip().splitlines()[-1]}")
    score: dict[str, Any] = json.loads(done.stdout)
    return score


def _any_emulated(settings: Settings) -> bool:
    return any(each.engine == "emulated" for pool in settings.pools for each in pool.instances)


def _show(report: Mapping[str, Any]) -> None:
    rows = [*report["by_difficulty"].items(), ("all", report)]
    cells = [
        (name, tally["questions"], tally["answered"], tally["correct"], f"{tally['ex']:.3f}")
        for name, tally in rows
    ]
    columns = ("difficulty", "questions", "answered", "correct", "EX")
    console.print(table("", columns, cells))
    slo = report["slo"]
    console.print(
        f"SLO attainment {slo['attainment']:.1%} of {report['slo_seconds']:g} s, "
        f"P50 {slo['p50_seconds'] or 0:.2f} s, P95 {slo['p95_seconds'] or 0:.2f} s"
    )
    if report["uncovered"]:
        console.print(f"{report['uncovered']} questions without a prediction were left out")
    for stage, source in report["replayed_stages"].items():
        console.print(Text(f"{stage}: {source}", style="dim"))
    if report["note"]:
        console.print(Text(report["note"], style="yellow"))
