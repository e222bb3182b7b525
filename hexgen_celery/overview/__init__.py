"""The whole deployment at a glance, by reads whose size is bounded: for people and Prometheus."""

from hexgen_celery.overview.counts import ClusterCounts, CountsReader
from hexgen_celery.overview.reader import Overview, OverviewReader
from hexgen_celery.overview.urgent import QuestionAtWork

__all__ = ["ClusterCounts", "CountsReader", "Overview", "OverviewReader", "QuestionAtWork"]
