"""Checks of everything that a question needs, each with the way to mend what is wrong."""

from hexgen_celery.health.checks import check_all
from hexgen_celery.health.outcome import Check, Verdict

__all__ = ["Check", "Verdict", "check_all"]
