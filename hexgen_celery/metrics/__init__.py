"""Prometheus metrics: what a process did, what the cluster is like, and where to scrape them.

`catalogue` names every metric; nothing else is exported.
"""

from hexgen_celery.metrics.observer import Observer
from hexgen_celery.metrics.process_metrics import ProcessMetrics

__all__ = ["Observer", "ProcessMetrics"]
