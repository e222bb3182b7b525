"""Frames and values on the pipe between the sandbox pool and the sandbox program.

A frame is a four-byte big-endian length and that many bytes of UTF-8 JSON. Standard library only.
"""

from __future__ import annotations

import json
import math
from typing import Any

LENGTH_BYTES = 4
MAX_FRAME_BYTES = 256 * 1024 * 1024
MAX_BLOB_BYTES = 65_536


def encode_frame(message: dict[str, Any]) -> bytes:
    """One message as bytes.

    Raises:
        ValueError: if it is longer than a frame may be.
    """
    body = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(
        "utf-8", "replace"
    )
    if len(body) > MAX_FRAME_BYTES:
        raise ValueError(f"a message of {len(body)} bytes exceeds {MAX_FRAME_BYTES}")
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def frame_length(prefix: bytes) -> int:
    """The length a frame's first four bytes announce.

    Raises:
        ValueError: if it exceeds the longest frame; the stream is then worthless.
    """
    length = int.from_bytes(prefix, "big")
    if length > MAX_FRAME_BYTES:
        raise ValueError(f"a frame of {length} bytes exceeds {MAX_FRAME_BYTES}")
    return length


def decode_body(body: bytes) -> dict[str, Any]:
    """The message in a frame's body.

    Raises:
        ValueError: if it is not a JSON object.
    """
    message = json.loads(body)
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
