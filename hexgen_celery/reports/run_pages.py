"""The report of an evaluation run as Markdown and as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hexgen_celery.evaluation.run_report import RunReport
from hexgen_celery.evaluation.scoring import Tally
from hexgen_celery.reports.pages import render
from hexgen_celery.reports.plots import bars

TITLES = {"bird": "BIRD", "spider": "Spider"}
Rows = Sequence[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts."""

    title: str
    columns: tuple[str, ...]
    rows: Rows


@dataclass(frozen=True, slots=True)
class RunPage:
    """What the templates show. `plots` are SVG texts; `note` says what the run is not."""

    title: str
    summary: str
    note: str
    tables: tuple[Table, ...]
    plots: tuple[str, ...]
    wrong: Table

    @property
    def every_table(self) -> tuple[Table, ...]:
        """The tables in order; the questions that were not right come last."""
        return (*self.tables, self.wrong)


def write_run_pages(report: RunReport, note: str, directory: Path) -> tuple[Path, Path]:
    """Write `report.md` and `report.html`; returns their paths.

    Raises:
        MissingPrerequisite: jinja2 or matplotlib is not installed.
    """
    page = _page(report, note)
    written = []
    for name, template in (("report.md", "run.md.j2"), ("report.html", "run.html.j2")):
        path = directory / name
        path.write_text(render(page, template), encoding="utf-8")
        written.append(path)
    return written[0], written[1]


def _page(report: RunReport, note: str) -> RunPage:
    score, benchmark = report.score, TITLES[report.identity.benchmark]
    total = score.total
    summary = (
        f"{total.questions} questions, {total.answered} answered, {total.correct} right: "
        f"EX {total.ex:.3f}. Soft-F1 {score.soft_f1:.3f}"
        + (f", R-VES {score.r_ves:.1f}" if score.r_ves is not None else "")
        + f". At least one candidate was right for {report.reachable}."
    )
    return RunPage(
        title=f"{benchmark} run",
        summary=summary,
        note=note,
        tables=(
            _tallies("By difficulty", "difficulty", score.by_difficulty),
            _tallies("By database", "database", score.by_database),
            _changes(report),
            _costs(report),
            _counts("How answers were decided", "decision", report.decided_by),
            _counts("Left out when time was short", "work", report.left_out),
            _identity(report),
        ),
        plots=_plots(report),
        wrong=_wrong(report),
    )


def _tallies(title: str, what: str, tallies: Mapping[str, Tally]) -> Table:
    rows = [(name, *_tally_cells(tally)) for name, tally in tallies.items()]
    return Table(title, (what, "questions", "answered", "right", "EX"), rows)


def _tally_cells(tally: Tally) -> tuple[str, ...]:
    counts = (tally.questions, tally.answered, tally.correct)
    return (*map(str, counts), f"{tally.ex:.3f}")


def _changes(report: RunReport) -> Table:
    rows = [
        (name, str(counts.changed), str(counts.healed), str(counts.harmed))
        for name, counts in report.changes.items()
    ]
    columns = ("candidates changed by", "changed", "healed", "harmed")
    return Table("Healed and harmed", columns, rows)


def _costs(report: RunReport) -> Table:
    costs, saved = report.costs, report.saved
    rows = [
        ("LLM requests per question", f"{costs.requests:.2f}"),
        ("executions per question", f"{costs.executions:.2f}"),
        ("input tokens per question", f"{costs.input_tokens:.0f}"),
        ("output tokens per question", f"{costs.output_tokens:.0f}"),
        ("requests cancelled by early decisions", str(saved.get("requests", 0))),
        ("tokens not spent by early decisions", str(saved.get("tokens", 0))),
        ("deadlines met", f"{report.slo.attainment:.1%}"),
    ]
    if report.agreement is not None:
        learnt = report.agreement
        share = f"{learnt.needed} ({100 * learnt.changed:.1f} % of the answers would change)"
        rows.append(("equal results this model needs", share))
    return Table("Costs", ("measure", "value"), rows)


def _counts(title: str, what: str, counts: Mapping[str, int]) -> Table:
    rows = [(str(name), str(number)) for name, number in counts.items()]
    return Table(title, (what, "questions"), rows)


def _identity(report: RunReport) -> Table:
    rows = [
        (f"{group}: {name}", str(value))
        for group, values in report.identity.to_json().items()
        if isinstance(values, dict)
        for name, value in values.items()
    ]
    plain = [
        ("version", report.identity.version),
        ("models", ", ".join(report.identity.models) or "none"),
    ]
    return Table("What was run", ("setting", "value"), [*plain, *rows])


def _wrong(report: RunReport) -> Table:
    rows = [
        (trace.key, trace.question, verdict.status, trace.sql or "", verdict.error)
        for trace, verdict in zip(report.traces, report.score.verdicts, strict=True)
        if not verdict.correct
    ]
    return Table("Not right", ("question", "text", "status", "SQL", "error"), rows)


def _plots(report: RunReport) -> tuple[str, ...]:
    score = report.score
    groups = (
        ("EX by difficulty", {name: {"EX": t.ex} for name, t in score.by_difficulty.items()}),
        ("EX by database", {name: {"EX": t.ex} for name, t in score.by_database.items()}),
        (
            "Candidates healed and harmed",
            {
                name: {"healed": float(counts.healed), "harmed": float(counts.harmed)}
                for name, counts in report.changes.items()
            },
        ),
        ("Questions by their LLM requests", _histogram(report)),
    )
    return tuple(bars(group, title=title, up="") for title, group in groups if group)


def _histogram(report: RunReport) -> dict[str, dict[str, float]]:
    counts: dict[int, float] = {}
    for trace in report.traces:
        stages = trace.detail.get("stages") or ()
        requests = sum(each["stage"] != "execute_sql" for each in stages)
        counts[requests] = counts.get(requests, 0.0) + 1
    return {str(number): {"questions": counts[number]} for number in sorted(counts)}
