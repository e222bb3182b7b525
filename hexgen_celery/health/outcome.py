"""The outcome of a check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a check went. A warning does not stop questions from being answered."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one check; `hint` says how to mend it."""

    name: str
    verdict: Verdict
    detail: str
    hint: str = ""


def passed(name: str, detail: str) -> Check:
    """All is well."""
    return Check(name, Verdict.OK, detail)


def warned(name: str, detail: str, hint: str) -> Check:
    """Something needs care; questions are answered all the same."""
    return Check(name, Verdict.WARNING, detail, hint)


def failed(name: str, detail: str, hint: str) -> Check:
    """Something keeps questions from being answered."""
    return Check(name, Verdict.FAILED, detail, hint)
