"""Counting prompt parts: once each, behind the requests, and not at all without a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import redis

from hexgen_celery.errors import ModelUnavailable
from hexgen_celery.part_tokens import Name
from workers.part_counter import MOST_WAITING, REST_SECONDS, PartCounter


class _Store:
    def __init__(self) -> None:
        self.counts: dict[Name, int] = {}
        self.away = False

    def read(self, names: Sequence[Name]) -> dict[Name, int]:
        return {name: self.counts[name] for name in names if name in self.counts}

    def write(self, name: Name, tokens: int) -> None:
        if self.away:
            raise redis.ConnectionError("gone")
        self.counts[name] = tokens


class _Tokenizer:
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer: int | None = 7

    def __call__(self, text: str) -> int | None:
        self.asked.append(text)
        return self.answer


class _World:
    def __init__(self) -> None:
        self.store, self.tokenize, self.time = _Store(), _Tokenizer(), 0.0
        self.counter = PartCounter(
            self.store,  # type: ignore[arg-type]
            "m",
            self.tokenize,
            now=lambda: self.time,
        )

    def offer(self, **texts: str) -> None:
        """Met by two requests."""
        self.counter.offer(texts)
        self.counter.offer(texts)


def test_each_part_is_counted_once() -> None:
    world = _World()
    world.offer(a="text a", b="text b")
    assert world.counter.count() == 2
    world.offer(a="text a")
    assert world.counter.count() == 0
    assert world.tokenize.asked == ["text a", "text b"]
    assert world.store.counts == {("m", "a"): 7, ("m", "b"): 7}


def test_what_one_request_alone_has_is_not_counted() -> None:
    world = _World()
    world.counter.offer({"a": "text a"})
    assert world.counter.count() == 0
    assert world.tokenize.asked == []


def test_what_another_worker_counted_is_not_asked_again() -> None:
    world = _World()
    world.store.counts["m", "a"] = 5
    world.offer(a="text a")
    assert world.counter.count() == 0
    assert world.tokenize.asked == []


@pytest.mark.parametrize("broken", [False, True])
def test_a_server_without_a_tokenizer_is_left_alone_for_a_while(broken: bool) -> None:
    world = _World()
    world.tokenize.answer = None
    if broken:
        error = ModelUnavailable("away")

        def refuse(_text: str) -> int | None:
            world.tokenize.asked.append("x")
            raise error

        world.counter._tokenize = refuse
    world.offer(a="text a", b="text b")
    assert world.counter.count() == 0
    world.offer(a="text a")
    assert world.counter.count() == 0
    assert len(world.tokenize.asked) == 1
    world.time = REST_SECONDS + 1
    world.counter._tokenize = world.tokenize
    world.tokenize.answer = 3
    world.offer(a="text a")
    assert world.counter.count() == 1


def test_a_part_that_could_not_be_kept_is_counted_later() -> None:
    world = _World()
    world.store.away = True
    world.offer(a="text a")
    with pytest.raises(redis.ConnectionError):
        world.counter.count()
    world.store.away = False
    assert world.counter.count() == 1


def test_a_burst_is_bounded() -> None:
    world = _World()
    world.offer(**{f"p{number}": "x" for number in range(MOST_WAITING + 50)})
    assert world.counter.count() == MOST_WAITING
