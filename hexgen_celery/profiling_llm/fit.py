"""From measured times to the terms of a profile: weighted least squares without negative terms.

Relative errors are minimised (each row is divided by its time), so that a short prompt counts as
much as a long one. A term that comes out negative is left out and the others are fitted again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hexgen_celery.profiling_llm.samples import DecodeSample, PrefillSample

Matrix = list[list[float]]

_SINGULAR = 1e-12


@dataclass(frozen=True, slots=True)
class Row:
    """One measured time and the quantity that each term multiplies."""

    factors: tuple[float, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Fit:
    """Terms by name, in the units of their factors.

    `term_errors`: by how much of the measured time (mean) a term's standard error moves the
    prediction. `mean_error` and `worst_error` are of the whole prediction, relative.
    """

    terms: Mapping[str, float]
    term_errors: Mapping[str, float]
    mean_error: float
    worst_error: float


def fit_prefill(samples: Sequence[PrefillSample]) -> Fit:
    """`overhead` (s), `per_token` (s) and `quadratic` (s per token and token of context).

    The mean context of a fresh prompt of n tokens is n/2, as in `Profile.prefill_seconds`.
    """
    rows = [Row((1.0, s.tokens, s.tokens * s.tokens / 2), s.seconds) for s in samples]
    return fit_terms(("overhead", "per_token", "quadratic"), rows)


def fit_decode(samples: Sequence[DecodeSample]) -> Fit:
    """`base` (s a step), `per_sequence` (s) and `per_context_token` (s)."""
    rows = [Row((1.0, s.batch, s.context_tokens), s.step_seconds) for s in samples]
    return fit_terms(("base", "per_sequence", "per_context_token"), rows)


def fit_terms(names: Sequence[str], rows: Sequence[Row]) -> Fit:
    """The non-negative terms that explain `rows` best.

    Raises:
        ValueError: no rows, or a time that is not positive.
    """
    if not rows or any(row.seconds <= 0 for row in rows):
        raise ValueError("a fit needs at least one positive time")
    kept = list(range(len(names)))
    values, errors = _solve(rows, kept)
    while min(values) < 0 and len(kept) > 1:
        kept.pop(values.index(min(values)))
        values, errors = _solve(rows, kept)
    terms = [0.0] * len(names)
    term_errors = [0.0] * len(names)
    for place, value, error in zip(kept, values, errors, strict=True):
        terms[place], term_errors[place] = max(0.0, value), error
    misses = [_miss(row, terms) for row in rows]
    return Fit(
        dict(zip(names, terms, strict=True)),
        dict(zip(names, term_errors, strict=True)),
        sum(misses) / len(misses),
        max(misses),
    )


def _miss(row: Row, terms: Sequence[float]) -> float:
    predicted = sum(f * t for f, t in zip(row.factors, terms, strict=True))
    return abs(predicted - row.seconds) / row.seconds


def _solve(rows: Sequence[Row], kept: Sequence[int]) -> tuple[list[float], list[float]]:
    """Values of the kept terms, and their errors as shares of the measured time."""
    weighted = [[row.factors[place] / row.seconds for place in kept] for row in rows]
    scales = [max(abs(line[n]) for line in weighted) or 1.0 for n in range(len(kept))]
    design = [
        [value / scale for value, scale in zip(line, scales, strict=True)] for line in weighted
    ]
    normal = [
        [sum(line[i] * line[j] for line in design) for j in range(len(kept))]
        for i in range(len(kept))
    ]
    inverse = _inverse(normal)
    moments = [sum(line[i] for line in design) for i in range(len(kept))]
    scaled = [sum(a * b for a, b in zip(line, moments, strict=True)) for line in inverse]
    spread = _spread(design, scaled)
    shares = [sum(line[n] for line in design) / len(design) for n in range(len(kept))]
    errors = [spread * math.sqrt(max(0.0, inverse[n][n])) * shares[n] for n in range(len(kept))]
    return [value / scale for value, scale in zip(scaled, scales, strict=True)], errors


def _spread(design: Matrix, scaled: Sequence[float]) -> float:
    """Standard deviation of the relative misses; every weighted time is 1."""
    misses = [1.0 - sum(a * b for a, b in zip(line, scaled, strict=True)) for line in design]
    freedom = max(1, len(design) - len(scaled))
    return math.sqrt(sum(miss * miss for miss in misses) / freedom)


def _inverse(matrix: Matrix) -> Matrix:
    """Gauss-Jordan with pivoting; a term that the rows cannot tell from others gets 0."""
    size = len(matrix)
    work = [[*line, *(float(i == n) for i in range(size))] for n, line in enumerate(matrix)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda n: abs(work[n][column]))
        work[column], work[pivot] = work[pivot], work[column]
        if abs(work[column][column]) < _SINGULAR:
            work[column] = [0.0] * (2 * size)
            continue
        work[column] = [value / work[column][column] for value in work[column]]
        for n in range(size):
            if n != column and work[n][column]:
                factor = work[n][column]
                work[n] = [a - factor * b for a, b in zip(work[n], work[column], strict=True)]
    return [line[size:] for line in work]
