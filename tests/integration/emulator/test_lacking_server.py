"""A server that has chat completions and nothing else: each thing it lacks is said once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from hexgen_celery.errors import ModelUnavailable
from hexgen_celery.llm import CancelToken, ChatRequest, LlmClient
from tests.integration.emulator.running_server import MODEL, run_app
from workers.server_probe import ServerProbe

ASK = ChatRequest(MODEL, (("user", "how many heroes?"),), max_tokens=8)


def _app(usage: dict[str, object] | None) -> web.Application:
    async def chat(_: web.Request) -> web.Response:
        choice = {"message": {"content": "two"}, "finish_reason": "stop"}
        return web.json_response({"choices": [choice], "usage": usage})

    async def no_models(_: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": []})

    app = web.Application()
    app.add_routes([web.post("/v1/chat/completions", chat), web.get("/v1/models", no_models)])
    return app


def _lacks(logs: Sequence[Mapping[str, object]]) -> list[object]:
    return [entry["lacks"] for entry in logs if entry["event"] == "llm.server_lacks"]


def test_questions_are_answered_and_each_lack_is_said_once() -> None:
    app = _app({"prompt_tokens": 5})
    with run_app(app) as server, LlmClient(server.url) as client, capture_logs() as logs:
        for _ in range(2):
            assert client.complete(ASK).text == "two"
            assert client.tokenize("text") is None
            with pytest.raises(ModelUnavailable):
                client.metrics()
            client.check(MODEL)
            ServerProbe(client, MODEL, 4096).probe(CancelToken())
    assert sorted(map(str, _lacks(logs))) == [
        "/metrics",
        "/tokenize",
        "a list of its models",
        "cached_tokens",
    ]


def test_a_server_that_counts_nothing_says_so_once() -> None:
    with run_app(_app(None)) as server, LlmClient(server.url) as client, capture_logs() as logs:
        answers = [client.complete(ASK) for _ in range(2)]
    assert _lacks(logs) == ["usage"]
    assert not any(answer.usage_reported or answer.cache_reported for answer in answers)
