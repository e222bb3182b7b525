"""The ends of questions, from Redis where it knows them, else from the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from hexgen_celery.answers import NoAnswer, Outcome
from hexgen_celery.store.endings import find_endings
from hexgen_celery.store.models import Workflow
from hexgen_celery.store.reading import StoredQuestion, StoreReader
from tests.unit.store.question_samples import question

AT = 1_700_000_000.0


class Results:
    """Knows the end of one question."""

    def as_completed(
        self, names: Iterable[str], timeout: float | None
    ) -> Iterator[tuple[str, Outcome]]:
        assert timeout == 0.0
        for name in names:
            if name == "recent":
                yield name, NoAnswer(name, "failed", {"stage": "evaluation"})


class Store:
    """Knows a question that failed and one that runs; says what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def question(self, name: str) -> StoredQuestion | None:
        self.asked.append(name)
        if name == "unknown":
            return None
        row = question(name, AT).rows[Workflow][0]
        ended = name != "running"
        row |= {"status": "failed", "cause": "no luck", "complete": ended}
        return StoredQuestion(row, (), (), (), ())


def test_redis_is_asked_first_and_the_store_for_the_rest() -> None:
    store = Store()
    names = ["recent", "old", "running", "unknown"]
    ends = dict(find_endings(cast("Any", Results()), cast("StoreReader", store), names))
    assert set(ends) == {"recent", "old"}
    assert "source" not in ends["recent"].detail
    old = ends["old"]
    assert isinstance(old, NoAnswer)
    assert (old.status, old.cause, old.detail["source"]) == ("failed", "no luck", "store")
    assert store.asked == ["old", "running", "unknown"]


def test_without_a_store_only_redis_is_asked() -> None:
    ends = dict(find_endings(cast("Any", Results()), None, ["recent", "old"]))
    assert set(ends) == {"recent"}
