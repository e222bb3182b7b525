"""Plots as SVG text, to be put inside a page."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from hexgen_celery.errors import MissingPrerequisite

Points = Sequence[tuple[float, float]]
SIZE_INCHES = (7.0, 4.0)


def lines(curves: Mapping[str, Points], *, title: str, across: str, up: str) -> str:
    """Named curves; points that are not finite are left out."""
    figure, axes = _figure(title, across, up)
    for name, points in curves.items():
        finite = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
        axes.plot([x for x, _ in finite], [y for _, y in finite], marker=".", label=name)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize="small")
    return _svg(figure)


def bars(groups: Mapping[str, Mapping[str, float]], *, title: str, up: str) -> str:
    """Grouped bars: `groups[group][series]`; values that are not finite are left out."""
    figure, axes = _figure(title, "", up)
    series = list(dict.fromkeys(name for group in groups.values() for name in group))
    width = 0.8 / max(1, len(series))
    for number, name in enumerate(series):
        values = [group.get(name, math.nan) for group in groups.values()]
        places = [place + number * width for place in range(len(groups))]
        heights = [value if math.isfinite(value) else 0.0 for value in values]
        axes.bar(places, heights, width, label=name)
    middle = 0.4 - width / 2
    axes.set_xticks([place + middle for place in range(len(groups))])
    axes.set_xticklabels(list(groups), rotation=20, ha="right", fontsize="small")
    axes.legend(fontsize="small")
    return _svg(figure)


def _figure(title: str, across: str, up: str) -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingPrerequisite(
            "the report needs matplotlib", hint='pip install "hexgen-celery[report]"'
        ) from error
    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.grid(alpha=0.3)
    return figure, axes


def _svg(figure: Any) -> str:
    """The figure without the XML prologue, and without a date, so that it can be compared."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    svg = text.getvalue()
    return svg[svg.index("<svg") :]
