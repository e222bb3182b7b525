"""Questions that Redis lost are asked again, and no others."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from hexgen_celery.asking_again import LOOK_SECONDS, MOST_SENDINGS, AskingAgain
from hexgen_celery.errors import BrokerUnavailable

SENT = {"a": {"question": "A?"}, "b": {"question": "B?"}}


class World:
    """What Redis knows, what was sent, and the time."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.sent: list[tuple[str, Any]] = []
        self.now = 0.0
        self.away = False
        self.lost = AskingAgain(SENT, self.knows, self.send, lambda: self.now)

    def knows(self, names: Collection[str]) -> set[str]:
        return self.known & set(names)

    def send(self, name: str, payload: Any) -> None:
        if self.away:
            raise BrokerUnavailable("away")
        self.sent.append((name, payload))

    def look(self, *waiting: str) -> None:
        self.now += LOOK_SECONDS
        self.lost.look(waiting)


@pytest.fixture
def world() -> World:
    return World()


def test_unknown_at_two_looks_is_lost_and_sent_as_it_was(world: World) -> None:
    world.known = {"b"}
    world.look("a", "b")
    assert world.sent == []
    world.look("a", "b")
    assert world.sent == [("a", SENT["a"])]


def test_known_again_at_the_second_look_was_only_on_its_way(world: World) -> None:
    world.look("a")
    world.known = {"a"}
    world.look("a")
    world.known = set()
    world.look("a")
    assert world.sent == []


def test_what_somebody_else_sent_cannot_be_sent_again(world: World) -> None:
    for _ in range(3):
        world.look("stranger")
    assert world.sent == []


def test_nothing_is_looked_at_too_soon(world: World) -> None:
    for _ in range(10):
        world.lost.look(["a"])
    assert world.sent == []


def test_it_is_not_sent_for_ever(world: World) -> None:
    for _ in range(10 * MOST_SENDINGS):
        world.look("a")
    assert len(world.sent) == MOST_SENDINGS


def test_a_broker_that_is_away_is_tried_again(world: World) -> None:
    world.away = True
    for _ in range(4 * MOST_SENDINGS):
        world.look("a")
    world.away = False
    world.look("a")
    world.look("a")
    assert [name for name, _ in world.sent] == ["a"]
