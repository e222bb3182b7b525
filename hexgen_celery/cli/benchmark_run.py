"""What `hexgen bird run` and `hexgen spider run` share: ask, score, report, and go on later."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hexgen_celery.answers import Outcome
from hexgen_celery.api import Client
from hexgen_celery.cli.answering_servers import emulated_instances
from hexgen_celery.cli.benchmark_clusters import answering_cluster
from hexgen_celery.cli.benchmark_options import RunOptions
from hexgen_celery.cli.context import CliContext
from hexgen_celery.cli.local_cluster import fresh_home
from hexgen_celery.cli.output import console
from hexgen_celery.errors import MissingPrerequisite
from hexgen_celery.evaluation.asked_file import AskedFile
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
from hexgen_celery.store.endings import SOURCE, STORE
from hexgen_celery.workflows.registry import load_stages

NOT_A_SCORE = (
    "Answers were replayed from published predictions by emulated servers; "
    "this EX is not the score of a model."
)
EMULATED = (
    "Answered by emulated servers ({}): their timing is modelled; this EX is not the score of a "
    "model."
)
_SERVERS = "servers.json"


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
            "from_store": sum(trace.detail.get(SOURCE) == STORE for trace in traces),
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
        options = self.options
        manner = Manner(options.slo, options.pipeline, options.parallel, run.asked.note)
        if left:
            cluster = answering_cluster(cli, replay, self.options.speed)
            with cluster as client, _bar("asking", len(left), quiet) as step:
                for path in self.chosen.databases.values():
                    client.add_database(path)
                _note_servers(run, client)  # also now, lest the run is broken off
                for question, outcome in asked_or_found(client, run.asked, left, manner):
                    known[question.key] = Trace.of(question, outcome)
                    run.traces.append(known[question.key])
                    step()
                _note_servers(run, client)
        return [known[each.key] for each in questions]

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


def asked_or_found(
    client: Client, asked: AskedFile, questions: Sequence[GoldQuestion], manner: Manner
) -> Iterator[tuple[GoldQuestion, Outcome | None]]:
    """The end of each question: of those asked before the run broke off, what became of them.

    Redis knows that, or the store where Redis has forgotten it; the others are asked.
    """
    ids = asked.read()
    by_id = {ids[each.key]: each for each in questions if each.key in ids}
    found = set()
    for name, outcome in client.ended(list(by_id)):
        found.add(by_id[name].key)
        yield by_id[name], outcome
    yield from ask_all(client, [each for each in questions if each.key not in found], manner)


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
