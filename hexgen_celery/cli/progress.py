"""How far a set of questions has come, told by the deployment's stream of events. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hexgen_celery.workflows.definition import Json

WAITING = "waiting"
_ENDS = ("done", "failed", "dropped")


@dataclass(slots=True)
class QuestionProgress:
    """One question. `at_work` maps its unfinished requests to their stage and place."""

    number: int
    text: str
    slo_class: str
    deadline: float
    stage: str = WAITING
    requests_done: int = 0
    at_work: dict[str, str] = field(default_factory=dict)
    status: str = "running"

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.status == "running"


class Progress:
    """All questions of one run, by id."""

    def __init__(self, questions: Mapping[str, QuestionProgress]) -> None:
        self.questions = dict(questions)

    def apply(self, events: Iterable[Json]) -> list[str]:
        """Take in events of the deployment; returns the ids of questions that ended in them."""
        ended = []
        for event in events:
            question = self.questions.get(event["workflow"])
            if question is not None:
                _apply(question, event)
                if event["event"] == "finished":
                    ended.append(event["workflow"])
        return ended

    @property
    def running(self) -> list[QuestionProgress]:
        """Those that have not ended, the nearest deadline first."""
        left = [question for question in self.questions.values() if question.running]
        return sorted(left, key=lambda question: (question.deadline, question.number))

    def statuses(self) -> Counter[str]:
        """How many questions are in each state."""
        return Counter(question.status for question in self.questions.values())

    def places(self) -> Counter[str]:
        """How many requests wait or run at each place."""
        running = (question.at_work.values() for question in self.questions.values())
        return Counter(place for places in running for place in places)


def _apply(question: QuestionProgress, event: Json) -> None:
    kind, node = event["event"], event.get("node", "")
    if kind == "ready":
        question.stage = event["stage"]
        question.at_work[node] = WAITING
    elif kind == "sent" and node in question.at_work:
        question.at_work[node] = f"queue {event['queue']}"
    elif kind == "claimed":
        question.at_work[node] = event.get("instance") or event["queue"]
    elif kind in _ENDS:
        question.at_work.pop(node, None)
        question.requests_done += kind == "done"
    elif kind == "finished":
        question.status = event["status"]
        question.at_work.clear()
