"""The whole deployment at a glance, by reads whose size is bounded: for people and Prometheus."""

from hexgen_celery.overview.counts import ClusterCounts, CountsReader

__all__ = ["ClusterCounts", "CountsReader"]
