"""Probing a server: a completed request, the right model, a context as long as promised."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from hexgen_celery.errors import ModelUnavailable, RequestCancelled
from hexgen_celery.instances import InstanceDirectory
from hexgen_celery.keys import Keys
from hexgen_celery.llm import CancelToken, LlmClient
from tests.integration.emulator.running_server import (
    MODEL,
    QUICK_RETRIES,
    SMALL,
    Pace,
    run_emulated,
)
from tests.integration.scheduling.live_world import instance
from tests.integration.transport.probe import wait_for
from tests.integration.workers.fake_llm import FakeLlm
from workers.instances import Announcer
from workers.kv_gauge import kv_usage
from workers.server_probe import InstanceRefused, ServerProbe

pytestmark = pytest.mark.integration


@pytest.fixture
def client() -> Iterator[LlmClient]:
    with run_emulated(Pace(profile=SMALL, speed=1000.0)) as server, LlmClient(server.url) as client:
        yield client


@pytest.mark.parametrize("promised", [None, 1000, SMALL.max_model_len])
def test_a_server_that_keeps_its_pools_promise_is_used(
    client: LlmClient, promised: int | None
) -> None:
    probe = ServerProbe(client, MODEL, promised)
    probe.check()
    probe.probe(CancelToken())


def test_a_shorter_context_is_refused_with_both_lengths(client: LlmClient) -> None:
    probe = ServerProbe(client, MODEL, SMALL.max_model_len + 1)
    with pytest.raises(InstanceRefused, match=r"4097 tokens, the server has 4096"):
        probe.probe(CancelToken())


def test_another_model_is_refused_with_what_is_served(client: LlmClient) -> None:
    other = ServerProbe(client, "another", None)
    with pytest.raises(InstanceRefused, match=f"serves {MODEL}"):
        other.probe(CancelToken())
    with pytest.raises(InstanceRefused, match=f"serves {MODEL}"):
        other.check()


def test_a_server_that_tells_no_context_is_believed() -> None:
    with FakeLlm() as server, LlmClient(server.url) as client:
        ServerProbe(client, server.model, 10**6).probe(CancelToken())
        assert server.requests[-1]["max_tokens"] == 1


def test_health_is_not_enough_a_request_must_be_completed() -> None:
    with FakeLlm() as server, LlmClient(server.url, QUICK_RETRIES) as client:
        probe = ServerProbe(client, server.model, None)
        server.status = 500
        probe.check()
        with pytest.raises(ModelUnavailable):
            probe.probe(CancelToken())


def test_a_probe_can_be_broken_off() -> None:
    with FakeLlm() as server, LlmClient(server.url) as client:
        cancel = CancelToken()
        cancel.set("the worker stops")
        with pytest.raises(RequestCancelled):
            ServerProbe(client, server.model, None).probe(cancel)


def test_the_gauge_of_an_emulated_server_is_read(client: LlmClient) -> None:
    assert kv_usage(client.metrics()) is not None


def test_a_server_without_metrics_says_so() -> None:
    with FakeLlm() as server, LlmClient(server.url) as client, pytest.raises(ModelUnavailable):
        client.metrics()


def test_the_context_that_a_server_says_it_has_is_announced(
    client: LlmClient, redis_client: redis.Redis, keys: Keys
) -> None:
    """Its pool promises none, and routers must not send what does not fit."""
    directory, probe = InstanceDirectory(redis_client, keys), ServerProbe(client, MODEL, None)
    announcer = Announcer(
        directory, instance("a1", state="starting"), probe, 0.05,
        offered_len=lambda: probe.offered_len,
    )  # fmt: skip
    announcer.start()
    try:
        wait_for(lambda: any(each.ready for each in directory.snapshot()[1]))
        (record,) = directory.snapshot()[1]
        assert record.offered_len == SMALL.max_model_len
        assert not record.offers_room(SMALL.max_model_len + 1)
    finally:
        announcer.stop()
