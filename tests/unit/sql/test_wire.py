"""Frames and JSON-safe cells of the sandbox pipe."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexgen_celery.sql import wire
from workers.sandbox import read_requests


@given(st.lists(st.dictionaries(st.text(), st.integers() | st.text() | st.none()), max_size=5))
def test_frames_come_back_as_sent(messages: list[dict[str, object]]) -> None:
    stream = io.BytesIO(b"".join(map(wire.encode_frame, messages)))
    assert list(read_requests(stream)) == messages


def test_a_frame_longer_than_allowed_is_refused() -> None:
    with pytest.raises(ValueError, match="exceeds"):
        wire.frame_length(b"\xff\xff\xff\xff")


def test_a_body_that_is_no_object_is_refused() -> None:
    with pytest.raises(ValueError, match="object"):
        wire.decode_body(b"[1]")


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (b"\x00\xff", {"$blob": "00ff", "bytes": 2}),
        (float("inf"), {"$float": "inf"}),
        (1.5, 1.5),
        (2**63 - 1, 2**63 - 1),
        (None, None),
        ("é", "é"),
    ],
)
def test_cells_are_json_safe(value: object, cell: object) -> None:
    assert wire.json_cell(value) == cell
    assert wire.decode_body(wire.encode_frame({"cell": cell})[4:]) == {"cell": cell}


def test_large_blobs_are_cut_but_say_their_size() -> None:
    cell = wire.json_cell(bytes(wire.MAX_BLOB_BYTES + 10))
    assert cell["bytes"] == wire.MAX_BLOB_BYTES + 10
    assert len(cell["$blob"]) == 2 * wire.MAX_BLOB_BYTES
    assert wire.cell_bytes(bytes(10**6)) < 2 * wire.MAX_BLOB_BYTES + 100
