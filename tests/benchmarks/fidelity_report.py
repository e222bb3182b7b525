"""The fidelity report: one HTML page with plots of what was measured and what was predicted."""

from __future__ import annotations

import html
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from hexgen_celery.core.profiles import Profile
from hexgen_celery.reports import plots
from tests.benchmarks.fidelity_runs import FidelityRun, figures
from tests.benchmarks.fidelity_timeline import SHARES, QuestionTimes, RequestTimes

_STYLE = (
    "body{font:15px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{border:1px solid #ccc;padding:.2rem .6rem;"
    "text-align:right}th:first-child,td:first-child{text-align:left}svg{max-width:100%;height:auto}"
)
_BINS = 12
Cell = str | float


def write(directory: Path, profile: Profile, runs: Sequence[FidelityRun]) -> Path:
    """Write `index.html`; returns its path."""
    parts = [
        "<h1>Fidelity on real vLLM</h1>",
        f"<p>{html.escape(_introduction(profile, runs))}</p>",
        "<h2>Predicted against measured</h2>",
        _table(("run", "figure", "measured, s", "predicted, s", "error, %"), _figure_rows(runs)),
        "<h2>Where the error of the mean comes from</h2>",
        "<p>Per cent of the measured mean latency, along the path that decided each question's "
        "latency; above 0: predicted too long.</p>",
        _table(("run", *SHARES, "sum"), _share_rows(runs, profile)),
        _share_plot(runs, profile),
        "<h2>Latencies</h2>",
        *(_latency_plot(run) for run in runs),
        "<h2>Single requests</h2>",
        *_request_plots(runs),
        "<h2>The profile</h2>",
        _table(("term", "value", "where from"), _profile_rows(profile)),
    ]
    page = f"<!doctype html><meta charset=utf-8><title>Fidelity</title><style>{_STYLE}</style>"
    path = directory / "index.html"
    path.write_text(page + "\n".join(parts), encoding="utf-8")
    return path


def _introduction(profile: Profile, runs: Sequence[FidelityRun]) -> str:
    count = len(runs[0].real) if runs else 0
    return (
        f"{len(runs)} runs of {count} questions of the trace workload through the whole stack on "
        f"one vLLM server ({profile.model} on a CPU, profile {profile.name}), and the simulator's "
        "prediction of the same arrivals under the same policies."
    )


def _name(run: FidelityRun) -> str:
    return f"{run.load}, run {run.seed + 1}"


def _figure_rows(runs: Sequence[FidelityRun]) -> Iterable[Sequence[Cell]]:
    for run in runs:
        seen, expected, errors = figures(run.real), figures(run.simulated), run.errors()
        for name in seen:
            yield (_name(run), name, seen[name], expected[name], errors[name])


def _share_rows(runs: Sequence[FidelityRun], profile: Profile) -> Iterable[Sequence[Cell]]:
    for run in runs:
        shares = run.shares(profile)
        yield (_name(run), *(shares[name] for name in SHARES), sum(shares.values()))


def _share_plot(runs: Sequence[FidelityRun], profile: Profile) -> str:
    groups = {_name(run): run.shares(profile) for run in runs}
    return plots.bars(groups, title="Error of the mean by share", up="% of the measured mean")


def _latency_plot(run: FidelityRun) -> str:
    curves = {"measured": _distribution(run.real), "predicted": _distribution(run.simulated)}
    return plots.lines(
        curves, title=f"Latencies, {_name(run)}", across="seconds", up="share of questions"
    )


def _distribution(questions: Sequence[QuestionTimes]) -> list[tuple[float, float]]:
    latencies = sorted(question.latency for question in questions)
    return [(at, (place + 1) / len(latencies)) for place, at in enumerate(latencies)]


def _request_plots(runs: Sequence[FidelityRun]) -> Iterable[str]:
    for load in dict.fromkeys(run.load for run in runs):
        taken = [run for run in runs if run.load == load]
        real = [one for run in taken for question in run.real for one in question.requests]
        simulated = [
            one for run in taken for question in run.simulated for one in question.requests
        ]
        yield _binned_plot(
            real,
            simulated,
            _first_token,
            title=f"First token, {load}",
            across="prompt tokens that had to be computed",
            up="seconds (median)",
        )
        yield _binned_plot(
            real,
            simulated,
            _token_seconds,
            title=f"Decoding, {load}",
            across="tokens of the answer",
            up="seconds per token (median)",
        )


def _first_token(request: RequestTimes) -> tuple[float, float]:
    return request.uncached, request.first_token - request.sent


def _token_seconds(request: RequestTimes) -> tuple[float, float]:
    steps = request.output_tokens - 1
    seconds = request.ended - request.first_token
    return request.output_tokens, seconds / steps if steps else float("nan")


def _binned_plot(
    real: Sequence[RequestTimes],
    simulated: Sequence[RequestTimes],
    point: Callable[[RequestTimes], tuple[float, float]],
    **labels: str,
) -> str:
    curves = {"measured": _binned(map(point, real)), "predicted": _binned(map(point, simulated))}
    return plots.lines(curves, **labels)


def _binned(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Medians of equally large groups of points by what lies across."""
    ordered = sorted(point for point in points if point[1] == point[1])
    size = max(1, len(ordered) // _BINS)
    groups = [ordered[place : place + size] for place in range(0, len(ordered), size)]
    return [
        (statistics.median(x for x, _ in group), statistics.median(y for _, y in group))
        for group in groups
    ]


def _profile_rows(profile: Profile) -> Iterable[Sequence[Cell]]:
    for name, origin in profile.provenance:
        yield (name, f"{getattr(profile, name):.6g}", f"{origin.kind}: {origin.source}")


def _table(heads: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(one)}</td>' for one in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(value: Cell) -> str:
    return html.escape(value) if isinstance(value, str) else f"{value:.1f}"
