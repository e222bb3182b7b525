"""Everything that `hexgen top` shows, read in a handful of round trips."""

from __future__ import annotations

from dataclasses import dataclass

from hexgen_celery.closing import Closing
from hexgen_celery.keys import Keys
from hexgen_celery.overview.counts import ClusterCounts, CountsReader
from hexgen_celery.overview.urgent import QuestionAtWork, QuestionsReader, most_urgent
from hexgen_celery.redis_client import connect, connect_binary, naming_a_lost_broker
from hexgen_celery.settings import Settings
from hexgen_celery.transport.inspection import QueueInspector, WaitingRequest


@dataclass(frozen=True, slots=True)
class Overview:
    """The deployment, its most urgent waiting requests, its questions by laxity."""

    counts: ClusterCounts
    urgent: tuple[WaitingRequest, ...]
    questions: tuple[QuestionAtWork, ...]

    @property
    def at_risk(self) -> tuple[QuestionAtWork, ...]:
        """The questions that may miss their deadlines, the least laxity first."""
        return tuple(question for question in self.questions if question.at_risk)


class OverviewReader(Closing):
    """Reads overviews of the deployment in `settings`, whose broker is a URL.

    Raises:
        BrokerUnavailable: Redis cannot be reached or refuses the credentials.
    """

    def __init__(self, settings: Settings) -> None:
        keys = Keys(settings.broker.prefix)
        self._client = connect(settings)
        self._binary = connect_binary(settings)
        self._counts = CountsReader(self._client, settings)
        self._questions = QuestionsReader(self._client, keys)
        self._inspector = QueueInspector(self._binary, keys.queue_root)
        self._is_sorted = settings.broker.transport == "urgency"

    @naming_a_lost_broker()
    def read(self, per_queue: int = 5) -> Overview:
        """The deployment now, with up to `per_queue` waiting requests of each queue."""
        counts = self._counts.read()
        urgent = most_urgent(self._inspector, counts, per_queue) if self._is_sorted else []
        questions = self._questions.nearest(counts.now, urgent)
        return Overview(counts, tuple(urgent), tuple(questions))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._binary.close()
