"""Estimates that follow what really happens: learnt by one process, read by all routers."""

from hexgen_celery.learning.knowledge import Knowledge
from hexgen_celery.learning.learner import Learner
from hexgen_celery.learning.shared import SharedKnowledge

__all__ = ["Knowledge", "Learner", "SharedKnowledge"]
