"""Recorded questions as a reader sees them, and as workloads that can be run again."""

from hexgen_celery.tracing.export import exportable, workload_question
from hexgen_celery.tracing.history import History, RecordedQuestions
from hexgen_celery.tracing.page import timeline_page
from hexgen_celery.tracing.timeline import AttemptSpan, Timeline, timeline_of

__all__ = [
    "AttemptSpan",
    "History",
    "RecordedQuestions",
    "Timeline",
    "exportable",
    "timeline_of",
    "timeline_page",
    "workload_question",
]
