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
    HEADER_VERSION,
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
    header = {"version": HEADER_VERSION, "numbers": [1, None, 0, 2**40, 2**40, 0, 0]}
    assert Urgency.from_header(header).kv_tokens == 2**32 - 1


def test_more_work_than_scripts_count_exactly_is_cut() -> None:
    header = {"version": HEADER_VERSION, "numbers": [1, None, 0, 0, 0, 2**70, 2**63]}
    urgency = Urgency.from_header(header)
    assert urgency.prefill_us == urgency.decode_us == 2**52


NUMBERS = [5.0, None, 0, 1, 1, 1, 1]
OTHER_FORMS = [
    *({"version": HEADER_VERSION, "numbers": n} for n in ([], [1, 2], "latest", [None] * 7, None)),
    {"version": HEADER_VERSION},
    {"version": HEADER_VERSION, "numbers": [1.0, None, 0, math.inf, 0, 0, 0]},
    {"version": HEADER_VERSION, "numbers": [math.nan, None, 0, 0, 0, 0, 0]},
    {"version": HEADER_VERSION, "numbers": [1.0, math.nan, 0, 0, 0, 0, 0]},
    {"version": HEADER_VERSION, "numbers": [1.0, None, math.inf, 0, 0, 0, 0]},
    {"version": HEADER_VERSION, "numbers": [1.0, None, 0, -1, 0, 0, 0]},
    {"version": HEADER_VERSION, "numbers": [1.0, None, 0, 0, 0, 0, -1]},
]
OTHER_VERSIONS = [
    {"version": HEADER_VERSION + 1, "numbers": NUMBERS},
    {"version": HEADER_VERSION + 1, "latest_start": 5.0},
    {"version": True, "numbers": NUMBERS},
    {"version": None},
    {"numbers": NUMBERS},
    NUMBERS,
    "latest",
]


@pytest.mark.parametrize("header", OTHER_FORMS)
def test_a_header_of_another_form_is_refused(header: Any) -> None:
    with pytest.raises(ValueError, match=r"could|convert|header of version|not|is no"):
        Urgency.from_header(header)


@pytest.mark.parametrize("header", OTHER_VERSIONS)
def test_a_header_of_another_version_is_refused_and_both_versions_are_named(header: Any) -> None:
    with pytest.raises(ValueError, match=rf"version .* of the header, not {HEADER_VERSION}"):
        Urgency.from_header(header)


@pytest.mark.parametrize("header", OTHER_FORMS + OTHER_VERSIONS)
def test_a_message_whose_header_cannot_be_read_waits_by_arrival_under_its_task_id(
    header: Any,
) -> None:
    sent = outgoing("sql", message(**{HEADER: header}), 3.0)
    stored = decode(sent.token, sent.value)
    assert stored.urgency == Urgency(3.0, since=3.0)
    assert sent.token == token_of("w/n/1")
    assert sent.unread
    delivered = kombu_message(Claimed(stored))
    assert delivered["body"] == message()["body"]
    assert delivered["headers"][HEADER] == Urgency(3.0, since=3.0).to_header()


def test_a_header_that_is_read_leaves_nothing_to_say() -> None:
    assert outgoing("sql", message(), 0.0).unread is None
    assert outgoing("sql", message(**{HEADER: Urgency(1.0).to_header()}), 0.0).unread is None


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
