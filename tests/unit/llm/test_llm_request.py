"""Request bodies, server addresses, keys and the cancel flag."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pydantic import SecretStr

from hexgen_celery.errors import InvalidSettings
from hexgen_celery.llm import CancelToken, ChatRequest
from hexgen_celery.llm.endpoint import Endpoint, authorization
from hexgen_celery.llm.payload import EXTRA_FIELDS, chat_body, extra_fields
from hexgen_celery.settings import LlmSettings

PLAIN = ChatRequest("m", (("system", "s"), ("user", "u")), max_tokens=10)


def test_a_plain_request_holds_openai_fields_only() -> None:
    body = chat_body(PLAIN)
    assert body == {
        "model": "m",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
        "max_tokens": 10,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert extra_fields(PLAIN) == {}


def test_optional_fields_appear_where_they_are_set() -> None:
    form = {"type": "json_object"}
    request = ChatRequest("m", (), 5, seed=0, stop=("x",), response_format=form)
    body = chat_body(request)
    assert (body["seed"], body["stop"], body["response_format"]) == (0, ["x"], form)


def test_extras_are_sent_only_where_they_may_be() -> None:
    request = ChatRequest("m", (), 99, priority=1.2345, forced_output_tokens=7, metadata={"a": "b"})
    body = chat_body(request)
    assert body["priority"] == 1234
    assert (body["min_tokens"], body["max_tokens"], body["ignore_eos"]) == (7, 7, True)
    assert body["metadata"] == {"a": "b"}
    plain = chat_body(request, EXTRA_FIELDS)
    assert not set(EXTRA_FIELDS) & set(plain)
    assert plain["max_tokens"] == 7
    assert "metadata" in chat_body(request, ("priority",))


@pytest.mark.parametrize(
    "url", ["http://h:8000", "http://h:8000/", "http://h:8000/v1", " http://h:8000/v1/ "]
)
def test_base_urls_may_end_with_v1_or_not(url: str) -> None:
    endpoint = Endpoint.parse(url)
    assert endpoint.api("models") == "http://h:8000/v1/models"
    assert endpoint.plain("version") == "http://h:8000/version"


@pytest.mark.parametrize("url", ["", "h:8000", "ftp://h", "http://", "http://h:port", "http://[x"])
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        Endpoint.parse(url)
    assert caught.value.field == "url"


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("localhost", True), ("127.0.0.5", True), ("[::1]", True), ("10.0.0.1", False), ("h", False)],
)
def test_loopback_is_known(host: str, loopback: bool) -> None:
    assert Endpoint.parse(f"http://{host}:1").is_loopback is loopback


def test_the_key_comes_from_the_setting_or_the_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("from-file\n")
    assert authorization(LlmSettings()) == {}
    assert authorization(LlmSettings(api_key=SecretStr("k"))) == {"Authorization": "Bearer k"}
    from_file = authorization(LlmSettings(api_key_file=file))
    assert from_file == {"Authorization": "Bearer from-file"}


def test_a_missing_key_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings) as caught:
        authorization(LlmSettings(api_key_file=tmp_path / "none"))
    assert caught.value.field == "llm.api_key_file"


def test_a_token_calls_its_subscribers_once() -> None:
    token, calls = CancelToken(), []
    token.subscribe(lambda: calls.append(1))
    gone = token.subscribe(lambda: calls.append(2))
    gone()
    token.set("expired")
    token.set("again")
    assert calls == [1]
    assert (token.is_set, token.reason) == (True, "expired")


def test_subscribing_late_calls_at_once() -> None:
    token, calls = CancelToken(), []
    token.set()
    token.subscribe(lambda: calls.append(1))()
    assert calls == [1]


def test_a_token_may_be_set_from_many_threads() -> None:
    token, calls = CancelToken(), []
    token.subscribe(lambda: calls.append(1))
    threads = [threading.Thread(target=token.set) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == [1]
