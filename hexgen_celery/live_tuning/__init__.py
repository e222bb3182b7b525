"""Following the load: the dispatch weight α of a running deployment, tuned on its recent past."""

from hexgen_celery.live_tuning.entries import TuningEntry, TuningStore
from hexgen_celery.live_tuning.review import Review, ReviewRules, review
from hexgen_celery.live_tuning.tuner import LiveTuner

__all__ = ["LiveTuner", "Review", "ReviewRules", "TuningEntry", "TuningStore", "review"]
