"""Answers as bytes: server-sent events and JSON objects in OpenAI's shape."""

from __future__ import annotations

import json
import time
from typing import Any

from workers.emulation.answers import PlannedAnswer
from workers.emulation.inference import InferenceRequest

DONE = b"data: [DONE]\n\n"


class AnswerWire:
    """Encodes one answer. What is the same in every chunk is encoded once."""

    def __init__(self, request: InferenceRequest, answer: PlannedAnswer, request_id: str) -> None:
        self._chat = request.chat
        self._answer = answer
        self._include_usage = request.include_usage
        self._envelope = {
            "id": f"{'chatcmpl' if request.chat else 'cmpl'}-{request_id}",
            "object": "chat.completion.chunk" if request.chat else "text_completion",
            "created": int(time.time()),
            "model": request.model,
            "system_fingerprint": f"emulated-{answer.source}",
        }
        self._head = b"data: " + json.dumps(self._envelope)[:-1].encode() + b', "choices": ['
        self._sent = 0

    def first_chunk(self, generated: int) -> bytes:
        """The opening of the stream with what exists at the first token."""
        opening = self._event(self._choice("", role="assistant")) if self._chat else b""
        return opening + self.next_chunk(generated)

    def next_chunk(self, generated: int) -> bytes:
        """What was generated since the last chunk (empty when nothing was)."""
        piece = self._text_up_to(generated)
        return self._event(self._choice(piece)) if piece else b""

    def last_chunk(self, cached_tokens: int) -> bytes:
        """The rest of the text, the reason for its end, usage if asked for, and the end mark."""
        rest = self.next_chunk(self._answer.output_tokens)
        ending = self._event(self._choice("", reason=self._answer.finish_reason))
        return rest + ending + self._usage_event(cached_tokens) + DONE

    def whole(self, cached_tokens: int) -> bytes:
        """The answer as one JSON object, for clients that do not stream."""
        text, reason = self._answer.text, self._answer.finish_reason
        said: dict[str, Any] = {"text": text}
        if self._chat:
            said = {"message": {"role": "assistant", "content": text}}
        body = self._envelope | {
            "object": "chat.completion" if self._chat else "text_completion",
            "choices": [{"index": 0, **said, "logprobs": None, "finish_reason": reason}],
            "usage": self._usage(cached_tokens),
        }
        return json.dumps(body).encode()

    def _text_up_to(self, generated: int) -> str:
        text, total = self._answer.text, self._answer.output_tokens
        end = len(text) if generated >= total else len(text) * generated // total
        start, self._sent = self._sent, max(self._sent, end)
        return text[start:end]

    def _choice(self, text: str, *, reason: str | None = None, role: str = "") -> bytes:
        said: dict[str, Any] = {"text": text}
        if self._chat:
            delta = ({"role": role} if role else {}) | ({"content": text} if not reason else {})
            said = {"delta": delta}
        return json.dumps({"index": 0, **said, "logprobs": None, "finish_reason": reason}).encode()

    def _event(self, choice: bytes) -> bytes:
        return self._head + choice + b"]}\n\n"

    def _usage_event(self, cached_tokens: int) -> bytes:
        if not self._include_usage:
            return b""
        usage = json.dumps(self._usage(cached_tokens)).encode()
        return self._head + b'], "usage": ' + usage + b"}\n\n"

    def _usage(self, cached_tokens: int) -> dict[str, Any]:
        answer = self._answer
        return {
            "prompt_tokens": answer.input_tokens,
            "completion_tokens": answer.output_tokens,
            "total_tokens": answer.input_tokens + answer.output_tokens,
            "prompt_tokens_details": {"cached_tokens": cached_tokens},
        }
