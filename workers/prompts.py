"""Prompts, assembled by the worker from parts named by hash."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from hexgen_celery.parts import SYNTHETIC, MissingPart
from hexgen_celery.workflows.definition import LlmCall
from hexgen_celery.workflows.synthetic import text_of_tokens

QUESTION_ROLE = "user"

Message = tuple[str, str]


class Parts(Protocol):
    """Where the texts of parts are kept."""

    def get(self, hashes: Sequence[str]) -> list[str]:
        """The texts of `hashes`, in order; raises `MissingPart`."""
        ...


def _to_nobody(_texts: Mapping[str, str]) -> None:
    """Nobody wants to know which parts are used."""


class PromptAssembler:
    """Builds chat messages. Safe from many threads.

    `on_parts` is told the stored parts of each prompt, text by hash.
    """

    def __init__(
        self, parts: Parts, on_parts: Callable[[Mapping[str, str]], object] = _to_nobody
    ) -> None:
        self._parts = parts
        self._on_parts = on_parts

    def messages(self, call: LlmCall) -> tuple[Message, ...]:
        """The messages of `call`: its parts in order, then its tail as the user's.

        Neighbours with one role become one message, joined without a separator (parts end their own
        lines), so that lengths add up exactly.

        Raises:
            MissingPart: a part is not stored.
        """
        texts = self._texts([part.hash for part in call.parts])
        pieces = [(part.role, texts[part.hash]) for part in call.parts]
        if call.tail or not pieces:
            pieces.append((QUESTION_ROLE, call.tail))
        return _merged(pieces)

    def _texts(self, hashes: Sequence[str]) -> dict[str, str]:
        texts = {name: synthetic_text(name) for name in hashes if name.startswith(SYNTHETIC)}
        stored = [name for name in hashes if name not in texts]
        if stored:
            found = dict(zip(stored, self._parts.get(stored), strict=True))
            self._on_parts(found)
            texts.update(found)
        return texts


@lru_cache(maxsize=256)
def synthetic_text(name: str) -> str:
    """The text of the synthetic part `syn:<key>:<tokens>`: see `text_of_tokens`.

    Two parts with different keys differ within their first words.

    Raises:
        MissingPart: the name does not have that form.
    """
    key, _, tokens = name.removeprefix(SYNTHETIC).rpartition(":")
    if not key or not tokens.isdigit():
        raise MissingPart(f"{name!r} is not a synthetic part", hint="use syn:<key>:<tokens>")
    return text_of_tokens(key, int(tokens))


def _merged(pieces: Iterable[Message]) -> tuple[Message, ...]:
    messages: list[tuple[str, list[str]]] = []
    for role, text in pieces:
        if messages and messages[-1][0] == role:
            messages[-1][1].append(text)
        else:
            messages.append((role, [text]))
    return tuple((role, "".join(texts)) for role, texts in messages)
