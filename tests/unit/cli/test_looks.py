"""Looks that are taken in a thread."""

from __future__ import annotations

import contextlib
import select
import threading
from collections.abc import Callable, Iterator

import pytest

from hexgen_celery.cli.looks import Looks, Read
from hexgen_celery.errors import BrokerUnavailable
from hexgen_celery.overview import ClusterCounts, Overview

PATIENCE = 30.0
EMPTY = Overview(ClusterCounts(now=1.0, instances=(), pools=(), processes=()), (), ())
AWAY = BrokerUnavailable("away")


class Deployment:
    """Its reader answers what `read` does; `left` is set once it is disconnected."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self.left = threading.Event()

    @contextlib.contextmanager
    def opening(self) -> Iterator[Read]:
        yield self._read
        self.left.set()


def _raising(error: Exception) -> Callable[[], Overview]:
    def read() -> Overview:
        raise error

    return read


def test_a_look_is_there_after_it_was_asked_for() -> None:
    deployment = Deployment(lambda: EMPTY)
    with Looks(deployment.opening) as looks:
        assert not select.select([looks], [], [], 0.05)[0]
        for _ in range(2):
            looks.ask()
            assert select.select([looks], [], [], PATIENCE)[0]
            assert looks.take() is EMPTY
        assert not select.select([looks], [], [], 0)[0]
    assert deployment.left.wait(PATIENCE)


def test_after_an_error_it_looks_again() -> None:
    with Looks(Deployment(_raising(AWAY)).opening) as looks:
        for _ in range(2):
            looks.ask()
            with pytest.raises(BrokerUnavailable):
                looks.take()


def test_that_nothing_can_be_reached_is_told() -> None:
    def opening() -> contextlib.AbstractContextManager[Read]:
        raise AWAY

    with Looks(opening) as looks, pytest.raises(BrokerUnavailable):
        looks.take()


def test_leaving_waits_for_no_answer() -> None:
    begun, answer = threading.Event(), threading.Event()

    def read() -> Overview:
        begun.set()
        answer.wait(PATIENCE)
        return EMPTY

    deployment = Deployment(read)
    with Looks(deployment.opening) as looks:
        looks.ask()
        assert begun.wait(PATIENCE)
    assert not deployment.left.is_set()
    answer.set()
    assert deployment.left.wait(PATIENCE)
