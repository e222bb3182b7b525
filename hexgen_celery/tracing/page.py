"""A question's timeline as one HTML page that needs nothing else: no script, no network. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from string import Template

from hexgen_celery.tracing.timeline import AttemptSpan, Timeline

COLOURS = {"wait": "#c9ced6", "prefill": "#e0a030", "decode": "#2f7ed8", "work": "#5aa469"}
_LEFT, _WIDTH, _ROW = 190, 760, 20

_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>$title</title>
<style>
body { font: 14px system-ui, sans-serif; margin: 2em; color: #222; max-width: 1000px }
table { border-collapse: collapse; margin: 1em 0 }
td, th { border-bottom: 1px solid #ddd; padding: .25em .8em; text-align: left }
td.n { text-align: right; font-variant-numeric: tabular-nums }
.key span { display: inline-block; width: 1em; height: 1em; margin: 0 .3em 0 1em;
  vertical-align: -2px }
</style></head><body>
<h1>$title</h1>
<table>$facts</table>
<p class="key">$key</p>
$chart
<table><tr>$heading</tr>$rows</table>
<h2>Why there</h2>
<table><tr><th>request</th><th>queue</th><th>decided by</th></tr>$reasons</table>
</body></html>
""")

_COLUMNS = ("request", "stage", "where", "waited", "worked", "input", "cached", "output", "budget")


def timeline_page(question_id: str, timeline: Timeline) -> str:
    """The page of one question."""
    key = "".join(
        f'<span style="background:{colour}"></span>{name}' for name, colour in COLOURS.items()
    )
    heading = "".join(f"<th>{name}</th>" for name in (*_COLUMNS, "debit", "end"))
    return _PAGE.substitute(
        title=escape(f"Question {question_id}: {timeline.status}"),
        facts="".join(map(_pair, _facts(timeline))),
        key=key,
        chart=_chart(timeline),
        heading=heading,
        rows="".join(map(_row, timeline.attempts)),
        reasons="".join(_reasons(span) for span in timeline.attempts if span.reasons),
    )


def _facts(timeline: Timeline) -> Iterable[tuple[str, str]]:
    yield "took", f"{timeline.end - timeline.submitted_at:.3f} s"
    if timeline.deadline is not None:
        left = timeline.deadline - timeline.end
        yield "deadline", f"{abs(left):.3f} s {'left' if left >= 0 else 'too late'}"
    for name in ("definition", "database", "tenant", "slo_class"):
        if timeline.facts.get(name):
            yield name.replace("_", " "), str(timeline.facts[name])


def _pair(pair: tuple[str, str]) -> str:
    return f"<tr><th>{escape(pair[0])}</th><td>{escape(pair[1])}</td></tr>"


def _chart(timeline: Timeline) -> str:
    height = _ROW * (len(timeline.attempts) + 2)
    scale = _WIDTH / max(timeline.end - timeline.submitted_at, 1e-6)
    bars = "".join(_bars(timeline, span, n, scale) for n, span in enumerate(timeline.attempts))
    return (
        f'<svg width="{_LEFT + _WIDTH + 20}" height="{height}" role="img" '
        f'font-size="12">{bars}{_axis(timeline, height, scale)}</svg>'
    )


def _bars(timeline: Timeline, span: AttemptSpan, number: int, scale: float) -> str:
    top = number * _ROW + 4
    drawn = [f'<text x="0" y="{top + 12}">{escape(_label(span))}</text>']
    for name, start, end in span.phases(timeline.end):
        left = _LEFT + (start - timeline.submitted_at) * scale
        width = max((end - start) * scale, 0.5)
        drawn.append(
            f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_ROW - 6}" '
            f'fill="{COLOURS[name]}"><title>{escape(span.node)}: {name} {end - start:.3f} s'
            "</title></rect>"
        )
    return "".join(drawn)


def _axis(timeline: Timeline, height: int, scale: float) -> str:
    length = timeline.end - timeline.submitted_at
    marks = [
        f'<text x="{_LEFT + length * part / 4 * scale:.1f}" y="{height - 8}" fill="#777">'
        f"{length * part / 4:.2f} s</text>"
        for part in range(4)
    ]
    deadline = timeline.deadline
    if deadline is not None and deadline <= timeline.end:
        at = _LEFT + (deadline - timeline.submitted_at) * scale
        marks.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{height}" stroke="#c33"/>')
    return "".join(marks)


def _label(span: AttemptSpan) -> str:
    return span.node if span.attempt == 1 else f"{span.node} (attempt {span.attempt})"


def _row(span: AttemptSpan) -> str:
    texts = (_label(span), span.stage, span.where or span.queue)
    tokens = (span.numbers.get(f"{name}_tokens") for name in ("input", "cached", "output"))
    cells = "".join(f"<td>{escape(text)}</td>" for text in texts)
    cells += "".join(map(_seconds, (span.waited, span.worked)))
    cells += "".join(f'<td class="n">{"" if n is None else f"{n:g}"}</td>' for n in tokens)
    cells += "".join(_seconds(span.numbers.get(name)) for name in ("budget", "debit"))
    ending = f"{span.ending}: {span.cause}" if span.cause else span.ending
    return f"<tr>{cells}<td>{escape(ending)}</td></tr>"


def _seconds(value: float | None) -> str:
    return f'<td class="n">{"" if value is None else f"{value:.3f} s"}</td>'


def _reasons(span: AttemptSpan) -> str:
    why = ", ".join(f"{name} {_plain(value)}" for name, value in span.reasons.items())
    cells = (_label(span), span.queue, why)
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _plain(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
