"""Errors in the words and shape of vLLM's API."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any


@dataclass(eq=False)
class ApiError(Exception):
    """An error answer: HTTP status, message, the request's field at fault, Retry-After seconds."""

    status: int
    message: str
    param: str | None = None
    retry_after: float | None = None

    def body(self) -> dict[str, Any]:
        """The JSON object vLLM answers with."""
        kind = HTTPStatus(self.status).phrase.title().replace(" ", "") + "Error"
        return {
            "error": {
                "message": self.message,
                "type": kind,
                "param": self.param,
                "code": self.status,
            }
        }

    def headers(self) -> dict[str, str]:
        """Retry-After, where a time is known."""
        return {} if self.retry_after is None else {"Retry-After": f"{self.retry_after:g}"}
