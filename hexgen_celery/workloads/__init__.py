"""Workloads: recorded or published questions as DAGs of LLM requests with their token counts."""

from hexgen_celery.workloads.canonical import dump_question, parse_question
from hexgen_celery.workloads.model import RecordedTimes, Workload, WorkloadQuestion, WorkloadRequest
from hexgen_celery.workloads.reading import read_workload

__all__ = [
    "RecordedTimes",
    "Workload",
    "WorkloadQuestion",
    "WorkloadRequest",
    "dump_question",
    "parse_question",
    "read_workload",
]
