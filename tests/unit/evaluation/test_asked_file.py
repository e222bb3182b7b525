"""A run that was broken off finds the ends of what it had asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from hexgen_celery.answers import NoAnswer, Outcome
from hexgen_celery.cli.benchmark_run import asked_or_found
from hexgen_celery.evaluation.asked_file import AskedFile
from hexgen_celery.evaluation.asking import Manner
from hexgen_celery.evaluation.questions import GoldQuestion

QUESTIONS = [GoldQuestion(n, "shop", f"Question {n}?", "SELECT 1") for n in range(4)]


def test_the_last_id_of_each_question_counts(tmp_path: Path) -> None:
    file = AskedFile(tmp_path / "asked.jsonl")
    assert file.read() == {}
    for question, name in ((QUESTIONS[0], "a"), (QUESTIONS[1], "b"), (QUESTIONS[0], "c")):
        file.note(question, name)
    with (tmp_path / "asked.jsonl").open("a") as broken_off:
        broken_off.write('{"key": "shop:3", "i')
    assert file.read() == {"shop:0": "c", "shop:1": "b"}


class Client:
    """Knows the ends of some questions; the others it is asked."""

    def __init__(self, known: Iterable[str]) -> None:
        self.known = set(known)
        self.asked: list[str] = []

    def ended(self, names: Iterable[str]) -> Iterator[tuple[str, Outcome]]:
        for name in names:
            if name in self.known:
                yield name, NoAnswer(name, "failed", {"source": "store"})

    def ask(self, question: str, *_: Any, **__: Any) -> Any:
        self.asked.append(question)
        return type("Pending", (), {"id": f"id of {question}"})()

    def completed(self, pendings: Iterable[Any], **_: Any) -> Iterator[tuple[Any, Outcome]]:
        for pending in pendings:
            yield pending, NoAnswer(pending.id, "failed", {})


def test_only_what_is_not_known_is_asked_again(tmp_path: Path) -> None:
    asked = AskedFile(tmp_path / "asked.jsonl")
    for question in QUESTIONS[:3]:
        asked.note(question, f"id-{question.key}")
    client = Client(["id-shop:0", "id-shop:2"])
    manner = Manner(60.0, {}, 2, asked.note)
    ends = dict(asked_or_found(cast("Any", client), asked, QUESTIONS, manner))
    assert {question.key for question in ends} == {question.key for question in QUESTIONS}
    assert client.asked == ["Question 1?", "Question 3?"]
    assert asked.read()["shop:1"] == "id of Question 1?"
