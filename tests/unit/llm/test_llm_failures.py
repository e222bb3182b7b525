"""Error replies become errors that name what is wrong and how to mend it."""

from __future__ import annotations

import json

import aiohttp
import pytest

from hexgen_celery.errors import HexgenError, ModelRefused, ModelUnavailable
from hexgen_celery.llm.failures import (
    ContextOverflow,
    ErrorReply,
    ExtrasRefused,
    TransientFailure,
    UnknownModel,
    connection_failure,
    lost_connection,
    parse_error,
)

SERVER = "http://llm:8000"


def _error(status: int, message: str, **fields: object) -> HexgenError:
    body = json.dumps({"error": {"message": message, **fields}})
    return parse_error(SERVER, status, body).to_exception()


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_overload_and_server_errors_may_pass(status: int) -> None:
    error = _error(status, "busy")
    assert isinstance(error, TransientFailure)
    assert str(status) in error.message
    assert "busy" in error.message


def test_retry_after_is_carried() -> None:
    error = ErrorReply(SERVER, 429, "slow down", retry_after=7.0).to_exception()
    assert isinstance(error, TransientFailure)
    assert error.retry_after == 7.0


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_names_the_setting(status: int) -> None:
    """It is the server's matter: the request goes elsewhere, and the server is looked at."""
    error = _error(status, "bad key")
    assert isinstance(error, ModelUnavailable)
    assert not isinstance(error, TransientFailure)
    assert error.field == "llm.api_key"
    assert "HEXGEN_LLM__API_KEY" in error.hint


def test_a_missing_model_is_told_from_a_missing_route() -> None:
    assert isinstance(_error(404, "The model `m` does not exist."), UnknownModel)
    other = parse_error(SERVER, 404, "Not Found").to_exception()
    assert isinstance(other, ModelUnavailable)
    assert not isinstance(other, UnknownModel)
    assert other.field == "url"


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 4096 tokens. However, you requested 5000.",
        "The decoder prompt (length 9) is longer than the maximum model length of 8.",
    ],
)
def test_context_overflow_is_recognised(message: str) -> None:
    error = _error(400, message, param="input_tokens")
    assert isinstance(error, ContextOverflow)
    assert error.field == "input_tokens"
    assert error.code == "context_overflow"


def test_the_overflow_code_alone_is_enough() -> None:
    assert isinstance(_error(400, "too long", code="context_length_exceeded"), ContextOverflow)


def test_a_bad_request_keeps_the_servers_words_and_field() -> None:
    error = _error(400, "temperature must be non-negative", param="temperature")
    assert type(error) is ModelRefused
    assert error.field == "temperature"
    assert "temperature must be non-negative" in error.message


@pytest.mark.parametrize(
    ("message", "param", "fields"),
    [
        ("Unrecognized request argument supplied: min_tokens", "", ("min_tokens",)),
        ("Extra inputs are not permitted", "body.priority", ("priority",)),
        ("metadata is not supported", "", ("metadata",)),
        ("Got priority 5 but Priority scheduling is not enabled.", "", ("priority",)),
        ("'metadata' is only allowed when 'store' is enabled", "metadata", ("metadata",)),
    ],
)
def test_fields_unknown_to_the_server_are_told_apart(
    message: str, param: str, fields: tuple[str, ...]
) -> None:
    error = _error(400, message, param=param)
    assert isinstance(error, ExtrasRefused)
    assert error.fields == fields


def test_a_wrong_value_of_an_extra_is_not_an_unknown_field() -> None:
    assert not isinstance(_error(400, "min_tokens must be at least 0"), ExtrasRefused)


def test_validation_details_and_plain_text_are_read() -> None:
    detail = json.dumps({"detail": [{"loc": ["body"], "msg": "field required"}]})
    assert "field required" in parse_error(SERVER, 422, detail).message
    assert (
        parse_error(SERVER, 502, "<html>bad\n gateway</html>").message == "<html>bad gateway</html>"
    )
    assert parse_error(SERVER, 502, "").message == "no reason given"
    assert parse_error(SERVER, 400, json.dumps("a string")).message == "a string"


def test_connection_trouble_may_pass_and_names_the_server() -> None:
    for cause in (aiohttp.ServerDisconnectedError(), TimeoutError(), ConnectionResetError()):
        error = connection_failure(SERVER, cause)
        assert isinstance(error, TransientFailure)
        assert SERVER in error.message


def test_trouble_after_the_first_token_is_final() -> None:
    assert type(lost_connection(SERVER, ConnectionResetError())) is ModelUnavailable
