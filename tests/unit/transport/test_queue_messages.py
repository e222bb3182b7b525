"""Messages of sorted sets: identity, urgency, and the binary form that scripts read."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexgen_celery.transport.channel import is_sorted
from hexgen_celery.transport.messages import (
    HEADER,
    Claimed,
    Urgency,
    decode,
    encode,
    kombu_message,
    outgoing,
    token_of,
)

times = st.floats(min_value=0, max_value=4e9)
tokens = st.integers(min_value=0, max_value=2**32 - 1)
work = st.integers(min_value=0, max_value=2**52)
urgencies = st.builds(Urgency, times, times | st.just(math.inf), times, tokens, tokens, work, work)


def message(**headers: Any) -> dict[str, Any]:
    return {
        "body": "[[], {}, {}]",
        "headers": {"id": "w/n/1", "task": "t", **headers},
        "properties": {"delivery_tag": "tag-1", "delivery_info": {"routing_key": "sql"}},
    }


@given(urgencies, st.text(min_size=1, max_size=40), st.binary())
def test_a_stored_value_is_read_back_exactly(urgency: Urgency, queue: str, payload: bytes) -> None:
    read = decode(b"token", encode(queue, urgency, payload))
    assert (read.token, read.queue, read.urgency, read.payload) == (
        "token",
        queue,
        urgency,
        payload,
    )
    assert read.is_sorted


@given(urgencies)
def test_an_urgency_survives_its_header(urgency: Urgency) -> None:
    header = json.loads(json.dumps(urgency.to_header(), allow_nan=False))
    assert Urgency.from_header(header) == urgency


def test_more_tokens_than_the_header_holds_are_cut() -> None:
    assert Urgency.from_header([1, None, 0, 2**40, 2**40, 0, 0]).kv_tokens == 2**32 - 1


@pytest.mark.parametrize("header", [[], [1, 2], "latest", [None] * 7])
def test_a_header_of_another_form_is_refused(header: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        Urgency.from_header(header)


@given(st.text(), st.text())
def test_tokens_name_identities(one: str, other: str) -> None:
    assert (token_of(one) == token_of(other)) == (one == other)
    assert token_of(one).islower() or token_of(one).isdigit()
    assert len(token_of(one)) == 12


def test_a_request_sent_twice_has_one_token() -> None:
    urgency = Urgency(5.0).to_header()
    first = message(**{HEADER: urgency})
    again = message(**{HEADER: urgency})
    again["properties"]["delivery_tag"] = "tag-2"
    assert outgoing("sql", first, 0.0).token == outgoing("sql", again, 0.0).token


def test_messages_of_other_clients_are_told_apart_by_publication_and_wait_in_order() -> None:
    first, again = message(), message()
    again["properties"]["delivery_tag"] = "tag-2"
    sent = [outgoing("sql", first, 1.0), outgoing("sql", again, 2.0)]
    assert sent[0].token != sent[1].token
    keys = [decode(one.token, one.value).urgency.key for one in sent]
    assert keys == [1.0, 2.0]


def test_the_urgency_is_stored_once_and_delivered_in_the_header() -> None:
    urgency = Urgency(5.0, 9.0, 1.0, 10, 8, 7, 6)
    sent = outgoing("gpu.a100.x", message(**{HEADER: urgency.to_header()}), 0.0)
    stored = decode(sent.token, sent.value)
    assert HEADER.encode() not in stored.payload
    delivered = kombu_message(Claimed(stored))
    assert delivered["headers"][HEADER] == urgency.to_header()
    assert delivered["properties"]["delivery_tag"] == sent.token
    assert "redelivered" not in delivered["headers"]


def test_a_redelivered_message_says_so() -> None:
    sent = outgoing("sql", message(), 0.0)
    delivered = kombu_message(Claimed(replace(decode(sent.token, sent.value), deliveries=1)))
    assert delivered["headers"]["redelivered"] is True
    assert delivered["properties"]["delivery_info"]["redelivered"] is True


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        ("sql", True),
        ("gpu.a100.x", True),
        ("hexgen.ask", False),
        ("celery", False),
        ("sqlx", False),
    ],
)
def test_which_queues_are_sorted(queue: str, expected: bool) -> None:
    assert is_sorted(queue) is expected
