"""`hexgen demo`: a small heterogeneous cluster answers questions of two SLO classes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console

from hexgen_celery.answers import Outcome
from hexgen_celery.api import Client, Pending, Question
from hexgen_celery.cli.cluster_file import (
    cpu_vllm_cluster,
    emulated_cluster,
    real_server_cluster,
)
from hexgen_celery.cli.context import CliContext, pass_cli
from hexgen_celery.cli.demo_report import DemoReport, QuestionReport, show_report
from hexgen_celery.cli.demo_servers import ENGINES, ServerChoice, SloClasses, choose_servers
from hexgen_celery.cli.demo_verdicts import with_verdicts
from hexgen_celery.cli.live_view import view_of
from hexgen_celery.cli.local_cluster import fresh_home, own_cluster
from hexgen_celery.cli.output import console, json_option, print_json
from hexgen_celery.cli.progress import Progress, QuestionProgress
from hexgen_celery.cli.starting_notes import StartingNotes
from hexgen_celery.demo import DemoFiles, build_demo
from hexgen_celery.trace import OLDEST

_READY_SECONDS = 120.0
_GRACE_SECONDS = 15.0
_TICK_SECONDS = 0.1
_VLLM_READY_SECONDS = 900.0
_VLLM_QUESTIONS = 6


@click.command("demo")
@click.option("--llm-url", help="An OpenAI-compatible server to use instead of emulated ones.")
@click.option("--model", help="The model to ask there.")
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default=ENGINES[0],
    show_default=True,
    help="vllm-cpu: a real vLLM server here with a tiny model (first: make model).",
)
@click.option("--questions", "limit", type=click.IntRange(1), help="Only the first so many.")
@click.option("--interactive-slo", type=float, help="Seconds for an interactive question.")
@click.option("--relaxed-slo", type=float, help="Seconds for a relaxed question.")
@click.option(
    "--files",
    "files_only",
    type=click.Path(file_okay=False, path_type=Path),
    help="Only write database, questions and recorded answers into this directory.",
)
@click.option("--speed", default=1.0, show_default=True, help="Emulated time over real time.")
@json_option
@pass_cli
def demo_command(
    cli: CliContext,
    llm_url: str | None,
    model: str | None,
    engine: str,
    limit: int | None,
    interactive_slo: float | None,
    relaxed_slo: float | None,
    files_only: Path | None,
    speed: float,
    as_json: bool,
) -> int:
    """Start a cluster, ask all demo questions at once, report on answers and deadlines."""
    if files_only is not None:
        console.print(f"written: {build_demo(files_only).database.parent}", soft_wrap=True)
        return 0
    began = time.monotonic()
    screen = Console(stderr=True, highlight=False) if as_json else console
    servers = choose_servers(llm_url, model, speed, cli.settings.llm, engine)
    slo = SloClasses(interactive_slo or servers.slo.interactive, relaxed_slo or servers.slo.relaxed)
    if servers.is_tiny:
        limit = limit or _VLLM_QUESTIONS
    home = fresh_home(cli.settings.up.directory / "demo")
    files = build_demo(home / "data")
    screen.print(servers.description)
    notes = StartingNotes(screen, home / "logs")
    with demo_cluster(home, files, servers, notes) as client:
        screen.print(f"cluster ready after {time.monotonic() - began:.1f} s")
        report = ask_all(client, files, slo, limit, screen)
    if servers.is_real:
        report = with_verdicts(report, files)
    if as_json:
        print_json({**report.to_json(), "servers": servers.description, **asdict(servers)})
    else:
        show_report(console, report)
        console.print(servers.description, style="dim")
    ended_well = report.slo.lost == 0 if servers.is_tiny else report.good
    return 0 if ended_well else 1


@contextlib.contextmanager
def demo_cluster(
    home: Path, files: DemoFiles, servers: ServerChoice, notes: StartingNotes
) -> Iterator[Client]:
    """The cluster with the demo's database registered."""
    config = home / "cluster.toml"
    ready_seconds = _VLLM_READY_SECONDS if servers.is_tiny else _READY_SECONDS
    if servers.is_tiny:
        text = cpu_vllm_cluster(home)
    elif servers.url and servers.model:
        text = real_server_cluster(home, url=servers.url, model=servers.model)
    else:
        text = emulated_cluster(home, replay=[files.replay], speed=servers.speed)
    config.write_text(text, encoding="utf-8")
    with own_cluster(config, ready_seconds, notes) as client:
        client.add_database(files.database)
        yield client


def ask_all(
    client: Client, files: DemoFiles, slo: SloClasses, limit: int | None, screen: Console
) -> DemoReport:
    """Ask the demo's questions together and watch them to their ends."""
    asked = []
    for number, gold in enumerate(files.questions[:limit]):
        name, seconds = slo.of(number)
        options = {"question_key": gold.key}
        asked.append(
            (name, Question(gold.question, gold.database, seconds, gold.evidence, options=options))
        )
    began = time.monotonic()
    pendings = client.ask_many(question for _, question in asked)
    outcomes, first = _watch(client, _progress(asked, pendings), pendings, screen)
    return DemoReport(
        questions=tuple(
            QuestionReport(number, name, pending.question, outcomes.get(pending.id))
            for number, ((name, _), pending) in enumerate(zip(asked, pendings, strict=True), 1)
        ),
        seconds=time.monotonic() - began,
        first_answer_seconds=None if first is None else first - began,
    )


def _progress(asked: Sequence[tuple[str, Question]], pendings: Sequence[Pending]) -> Progress:
    now = time.time()
    return Progress(
        {
            pending.id: QuestionProgress(
                number, pending.question.question, name, now + pending.slo_seconds
            )
            for number, ((name, _), pending) in enumerate(zip(asked, pendings, strict=True), 1)
        }
    )


def _watch(
    client: Client, progress: Progress, pendings: Sequence[Pending], screen: Console
) -> tuple[dict[str, Outcome], float | None]:
    """Show the run until every question has ended; their ends, and when the first came."""
    outcomes: dict[str, Outcome] = {}
    first: float | None = None
    last_event = OLDEST
    until = time.monotonic() + max(pending.slo_seconds for pending in pendings) + _GRACE_SECONDS
    with view_of(progress, screen) as view:
        while len(outcomes) < len(pendings) and time.monotonic() < until:
            events = client.events.after(last_event)
            last_event = events[-1].id if events else last_event
            ended = progress.apply(event.event for event in events)
            view.show([progress.questions[name] for name in ended])
            waiting = [pending for pending in pendings if pending.id not in outcomes]
            found = client.completed(waiting, timeout=0.0)
            outcomes |= {pending.id: outcome for pending, outcome in found}
            if outcomes and first is None:
                first = time.monotonic()
            time.sleep(_TICK_SECONDS)
    return outcomes, first
