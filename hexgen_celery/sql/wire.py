"""Frames and values on the pipe between the sandbox pool and the sandbox program.

A frame is a four-byte big-endian length and that many bytes of UTF-8 JSON, in which unpaired
surrogates (of a path that is not UTF-8, of a careless statement) pass as they are. Standard library
only.
"""

from __future__ import annotations

import json
import math
from typing import Any

LENGTH_BYTES = 4
MAX_FRAME_BYTES = 256 * 1024 * 1024
MAX_BLOB_BYTES = 65_536
MAX_ESCAPE = 6
"""Bytes that JSON may take for one byte of text (a control character)."""
ANSWER_BYTES = 65_536
"""Bytes of an answer around its names and cells: the error text and the fixed fields."""


def encode_frame(message: dict[str, Any]) -> bytes:
    """One message as bytes.

    Raises:
        ValueError: if it is longer than a frame may be.
    """
    body = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )
    if len(body) > MAX_FRAME_BYTES:
        raise ValueError(f"a message of {len(body)} bytes exceeds {MAX_FRAME_BYTES}")
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def frame_length(prefix: bytes, most: int = MAX_FRAME_BYTES) -> int:
    """The length a frame's first four bytes announce.

    Raises:
        ValueError: if it exceeds `most` bytes; the stream is then worthless.
    """
    length = int.from_bytes(prefix, "big")
    if length > most:
        raise ValueError(f"a frame of {length} bytes exceeds {most}")
    return length


def largest_answer(result_bytes: int) -> int:
    """Bytes of the longest frame for a result of `result_bytes` of names and as many of cells."""
    return ANSWER_BYTES + MAX_ESCAPE * 2 * result_bytes


def decode_body(body: bytes) -> dict[str, Any]:
    """The message in a frame's body.

    Raises:
        ValueError: if it is not a JSON object, or nested too deeply to be one of ours.
    """
    try:
        message = json.loads(body)
    except RecursionError as error:
        raise ValueError("the message is nested too deeply") from error
    if not isinstance(message, dict):
        raise ValueError(f"expected a JSON object, got {type(message).__name__}")
    return message


def json_cell(value: Any) -> Any:
    """A SQLite value as JSON can carry it: blobs as capped hex, infinities by name."""
    if isinstance(value, bytes):
        return {"$blob": value[:MAX_BLOB_BYTES].hex(), "bytes": len(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    return value


def cell_bytes(value: Any) -> int:
    """About how many bytes the cell takes on the wire."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "replace")) + 3
    if isinstance(value, bytes):
        return 2 * min(len(value), MAX_BLOB_BYTES) + 24
    return 12
