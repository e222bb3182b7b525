"""Checks of everything that a question needs, each with the way to mend what is wrong."""

from hexgen_celery.health.checks import Check, Verdict, check_all

__all__ = ["Check", "Verdict", "check_all"]
