"""What `hexgen bird run` and `hexgen spider run` share: ask, score, report, and go on later."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from hexgen_celery.api import Client
from hexgen_celery.cli.answering_servers import emulated_instances
from hexgen_celery.cli.cluster_file import emulated_cluster
from hexgen_celery.cli.context import CliContext
from hexgen_celery.cli.local_cluster import fresh_home, local_cluster, own_cluster
from hexgen_celery.cli.output import console, table
from hexgen_celery.cluster import EMBEDDED, read_cluster
from hexgen_celery.errors import InvalidSettings, MissingPrerequisite
from hexgen_celery.evaluation.asking import Manner, ask_all
from hexgen_celery.evaluation.predictions import read_predictions
from hexgen_celery.evaluation.questions import GoldQuestion, InvalidDataset, QuestionSet
from hexgen_celery.evaluation.replay import (
    REPLAYED_STAGES,
    ReplayShape,
    build_replay,
    write_replay,
)
from hexgen_celery.evaluation.run_directory import (
    RunDirectory,
    RunIdentity,
    prompt_hashes,
    text_hash,
)
from hexgen_celery.evaluation.run_report import RunReport, statements_of
from hexgen_celery.evaluation.scoring_process import ScoringJob, score_statements
from hexgen_celery.evaluation.traces import LOST, Trace
from hexgen_celery.reports.run_pages import write_run_pages
from hexgen_celery.settings import Settings
from hexgen_celery.workflows.registry import load_stages

_READY_SECONDS = 120.0
NOT_A_SCORE = (
    "Answers were replayed from published predictions by emulated servers; "
    "this EX is not the score of a model."
)
EMULATED = (
    "Answered by emulated servers ({}): their timing is modelled; this EX is not the score of a "
    "model."
)
_SERVERS = "servers.json"
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run is made, as the command line says it."""

    slo: float
    candidates: int
    rounds: int
    agreement: int | None
    parallel: int
    timings: int
    replay: Path | None
    seed: int
    speed: float
    out: Path | None

    @property
    def pipeline(self) -> dict[str, Any]:
        """The options that every question is asked with."""
        given = {} if self.agreement is None else {"agreement": self.agreement}
        return {"candidates": self.candidates, "correction_rounds": self.rounds, **given}


_OPTIONS = (
    click.option("--db", "database", help="Only questions about this database."),
    click.option("--limit", type=click.IntRange(1), help="Only the first so many questions."),
    click.option(
        "--replay",
        type=click.Path(exists=True, path_type=Path),
        help="Answer from these prediction files by emulated servers instead of a model.",
    ),
    click.option("--slo", default=300.0, show_default=True, help="Seconds for each question."),
    click.option("--candidates", default=3, show_default=True, type=click.IntRange(1, 16)),
    click.option("--rounds", default=2, show_default=True, type=click.IntRange(0, 10)),
    click.option(
        "--agreement",
        type=click.IntRange(0, 16),
        help="Equal results that decide early, 0 for none; by default as learnt of the model.",
    ),
    click.option(
        "--parallel", default=16, show_default=True, type=click.IntRange(1), help="At a time."
    ),
    click.option(
        "--timings",
        default=0,
        show_default=True,
        type=click.IntRange(0),
        help="Times that right answers are timed for R-VES (BIRD takes 100).",
    ),
    click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        help="Directory of the run; the same run is continued there. Default: a new one.",
    ),
    click.option("--seed", default=7, show_default=True, help="Which file plays which part."),
    click.option(
        "--speed", default=20.0, show_default=True, help="How much faster emulated time runs."
    ),
)


def run_options(command: F) -> F:
    """The options of every benchmark run."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class BenchmarkRun:
    """A question set to be asked. `subset` is its part, in the set's own words."""

    benchmark: str
    chosen: QuestionSet
    options: RunOptions
    subset: str = ""

    def execute(self, cli: CliContext, *, quiet: bool) -> dict[str, Any]:
        """Ask what is not yet answered, score everything and write the report; its figures."""
        questions, place = self._prepare(cli.settings)
        out = self.options.out or _new_directory(cli.settings, self.benchmark)
        run = RunDirectory.open(out, self._identity(cli.settings, questions))
        traces = self._ask(cli, run, questions, place, quiet=quiet)
        report = self._score(run, questions, traces, quiet=quiet)
        emulated = run.read(_SERVERS).get("emulated", [])
        figures = report.to_json() | {
            "uncovered": len(self.chosen.questions) - len(questions),
            "replayed_stages": dict(REPLAYED_STAGES) if self.options.replay else {},
            "emulated": bool(emulated) or self.options.replay is not None,
            "note": self._note(emulated),
            "slo_seconds": self.options.slo,
            "directory": str(out),
        }
        run.write("summary.json", figures)
        return figures | _write_pages(report, figures["note"], out)

    def _note(self, emulated: Sequence[str]) -> str:
        """What the score is not, where emulated servers answered."""
        if self.options.replay:
            return NOT_A_SCORE
        return EMULATED.format(", ".join(emulated)) if emulated else ""

    def _prepare(self, settings: Settings) -> tuple[tuple[GoldQuestion, ...], Path | None]:
        """The questions, and the replay they are answered from, if any."""
        options = self.options
        if options.replay is None:
            return self.chosen.questions, None
        predictions = read_predictions(options.replay)
        questions = predictions.covered(self.chosen.questions)
        if not questions:
            raise InvalidDataset(
                f"{options.replay} holds no prediction for any chosen question",
                field="replay",
                hint="Name prediction files for this question set, or choose other questions",
            )
        answers = fresh_home(settings.up.directory / self.benchmark) / "replay.jsonl"
        shape = ReplayShape(options.candidates, options.rounds)
        write_replay(build_replay(questions, predictions, shape, options.seed), answers)
        return questions, answers

    def _identity(self, settings: Settings, questions: Sequence[GoldQuestion]) -> RunIdentity:
        options = self.options
        asked = "\n".join(f"{each.key}\t{each.question}\t{each.evidence}" for each in questions)
        replayed = {"replay": options.replay.name, "seed": options.seed} if options.replay else {}
        return RunIdentity(
            benchmark=self.benchmark,
            dataset={
                "file": self.chosen.source.name,
                "subset": self.subset,
                "questions": len(questions),
                "sha256": text_hash(asked),
            },
            pipeline={
                **settings.pipeline.model_dump(mode="json"),
                **options.pipeline,
                "slo_seconds": options.slo,
            },
            models=() if options.replay else tuple(sorted({p.model for p in settings.pools})),
            prompts=prompt_hashes(load_stages(settings.stages_module)),
            answers=replayed or {"by": "models"},
        )

    def _ask(
        self,
        cli: CliContext,
        run: RunDirectory,
        questions: Sequence[GoldQuestion],
        replay: Path | None,
        *,
        quiet: bool,
    ) -> list[Trace]:
        """The traces of all questions; those without an end before are asked now."""
        known = {key: trace for key, trace in run.traces.read().items() if trace.status != LOST}
        left = [each for each in questions if each.key not in known]
        manner = Manner(self.options.slo, self.options.pipeline, self.options.parallel)
        if left:
            with self._cluster(cli, replay) as client, _bar("asking", len(left), quiet) as step:
                for path in self.chosen.databases.values():
                    client.add_database(path)
                _note_servers(run, client)  # also now, lest the run is broken off
                for question, outcome in ask_all(client, left, manner):
                    known[question.key] = Trace.of(question, outcome)
                    run.traces.append(known[question.key])
                    step()
                _note_servers(run, client)
        return [known[each.key] for each in questions]

    def _cluster(
        self, cli: CliContext, replay: Path | None
    ) -> contextlib.AbstractContextManager[Client]:
        if replay is not None:
            return _replaying_cluster(replay, self.options.speed)
        return _configured_cluster(cli)

    def _score(
        self,
        run: RunDirectory,
        questions: Sequence[GoldQuestion],
        traces: Sequence[Trace],
        *,
        quiet: bool,
    ) -> RunReport:
        files = self.chosen.files()
        job = ScoringJob(questions, files, self.benchmark, self.options.timings)
        statements = list(dict.fromkeys(statements_of(traces)))
        with _bar("scoring", len(statements), quiet) as step:
            verdicts = score_statements(job, statements, step)
        return RunReport.of(run.identity, traces, verdicts)


def _new_directory(settings: Settings, benchmark: str) -> Path:
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    return settings.up.directory / "runs" / f"{benchmark}-{moment}"


def _note_servers(run: RunDirectory, client: Client) -> None:
    """Keep which emulated servers answered; those of the run's earlier parts stay named."""
    named = {*run.read(_SERVERS).get("emulated", []), *emulated_instances(client)}
    run.write(_SERVERS, {"emulated": sorted(named)})


def _write_pages(report: RunReport, note: str, directory: Path) -> dict[str, Any]:
    """The report pages that were written, or what to install for them."""
    try:
        pages = [str(path) for path in write_run_pages(report, note, directory)]
    except MissingPrerequisite as missing:
        return {"pages": [], "pages_hint": missing.hint}
    return {"pages": pages, "pages_hint": ""}


@contextlib.contextmanager
def _bar(what: str, total: int, quiet: bool) -> Iterator[Callable[[], None]]:
    """A progress bar; call what it gives once per step."""
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet) as progress:
        task = progress.add_task(what, total=total)
        yield lambda: progress.advance(task)


@contextlib.contextmanager
def _replaying_cluster(answers: Path, speed: float) -> Iterator[Client]:
    """A cluster of its own, because emulated servers answer from one replay only."""
    home = answers.parent
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


def show_run(figures: Mapping[str, Any]) -> None:
    """The figures of a run for a reader."""
    rows = [*figures["by_difficulty"].items(), ("all", figures)]
    cells = [
        (name, tally["questions"], tally["answered"], tally["correct"], f"{tally['ex']:.3f}")
        for name, tally in rows
    ]
    columns = ("difficulty", "questions", "answered", "correct", "EX")
    console.print(table("", columns, cells))
    slo = figures["slo"]
    console.print(
        f"SLO attainment {slo['attainment']:.1%} of {figures['slo_seconds']:g} s, "
        f"P50 {slo['p50_seconds'] or 0:.2f} s, P95 {slo['p95_seconds'] or 0:.2f} s"
    )
    changed = ", ".join(
        f"{name}: {counts['healed']} healed, {counts['harmed']} harmed of {counts['changed']}"
        for name, counts in figures["changes"].items()
    )
    console.print(f"candidates changed by {changed}")
    if figures["uncovered"]:
        console.print(f"{figures['uncovered']} questions without a prediction were left out")
    for stage, source in figures["replayed_stages"].items():
        console.print(Text(f"{stage}: {source}", style="dim"))
    if figures["note"]:
        console.print(Text(figures["note"], style="yellow"))
    if figures["pages_hint"]:
        console.print(f"traces and figures: {figures['directory']}", soft_wrap=True)
        hint = f"a report with plots is written there after {figures['pages_hint']}"
        console.print(Text(hint, style="dim"), soft_wrap=True)
    else:
        console.print(f"traces and report: {figures['directory']}", soft_wrap=True)
