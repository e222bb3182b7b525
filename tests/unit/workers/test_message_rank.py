"""The rank of a delivered message, as the body of a stage task reads it."""

from __future__ import annotations

import pytest

from hexgen_celery.transport.messages import Claimed, Queued, Urgency, kombu_message
from workers.stage_tasks import latest_start_of

PAYLOAD = b'{"headers": {"id": "w/n/1"}, "properties": {"delivery_tag": "x"}, "body": ""}'


def test_it_is_the_rank_that_the_queue_holds_not_the_one_it_was_sent_with() -> None:
    ranked_anew = Queued("token", "gpu.a100.x", Urgency(key=42.5), PAYLOAD)
    message = kombu_message(Claimed(ranked_anew))
    assert latest_start_of(message["headers"]["hexgen"]) == 42.5


@pytest.mark.parametrize("header", [None, {}, "text", {"version": 99, "numbers": []}])
def test_messages_of_others_have_none(header: object) -> None:
    assert latest_start_of(header) is None
