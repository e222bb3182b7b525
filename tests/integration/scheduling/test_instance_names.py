"""Two servers never go by one name."""

from __future__ import annotations

from dataclasses import replace

import pytest
import redis

from hexgen_celery.errors import InvalidSettings
from hexgen_celery.instances import InstanceDirectory
from tests.integration.scheduling.live_world import LiveWorld, instance
from workers.instance_name import refuse_taken_name

pytestmark = pytest.mark.integration

MINE = instance("a1", url="http://mine")
THEIRS = instance("a1", url="http://theirs", worker="llm-a1@elsewhere")


def _waited(seconds: float) -> None:
    pytest.fail(f"waited {seconds} s")


def test_a_name_that_another_worker_announces_is_refused(world: LiveWorld) -> None:
    world.directory.announce(THEIRS)
    beats: list[float] = []

    def beat(seconds: float) -> None:
        beats.append(seconds)
        world.directory.announce(THEIRS)

    with pytest.raises(InvalidSettings, match=r"llm-a1@elsewhere announces http://theirs"):
        refuse_taken_name(world.directory, MINE, 10.0, beat)
    assert len(beats) == 1


def test_what_a_dead_worker_left_is_waited_for(world: LiveWorld) -> None:
    world.directory.announce(THEIRS)
    refuse_taken_name(world.directory, MINE, 0.1)


def test_the_same_server_is_taken_over_at_once(world: LiveWorld) -> None:
    """As when a worker is replaced by a new one that starts before the old one has ended."""
    world.directory.announce(replace(MINE, worker="llm-a1@elsewhere"))
    refuse_taken_name(world.directory, MINE, 10.0, _waited)


def test_while_redis_is_away_nobody_is_refused(world: LiveWorld) -> None:
    with redis.Redis(port=1) as away:
        refuse_taken_name(InstanceDirectory(away, world.keys), MINE, 10.0, _waited)
