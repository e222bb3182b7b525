"""Texts of an exact number of tokens, for requests of which only the lengths are recorded.

They are made of common words of three letters, each with the space before it: four characters,
which is what an emulated instance counts as a token, and one token in the vocabularies of today's
models (seen with SmolLM2's; a model's own vocabulary decides). So a replayed prompt has its
recorded length on both.
"""

from __future__ import annotations

import hashlib

from hexgen_celery.workflows.tokens import CHARACTERS_PER_TOKEN

_LISTED = """
    the and for are but not you all any can had her was one our out
    day get has him his how man new now old see two way who boy did
    its let put say she too use air arm art ask bad bag bed big bit
    box bus buy car cut dog eat end eye far few fly fun got hot job
"""
WORDS = tuple(_LISTED.split())
# One word for each value of a byte: 64 words, each for four values.
_OF_BYTE = tuple(f" {word}" for word in WORDS * 4)
_WORDS_PER_DIGEST = hashlib.sha256().digest_size
assert {len(word) for word in _OF_BYTE} == {CHARACTERS_PER_TOKEN}


def text_of_tokens(seed: str, tokens: int) -> str:
    """A text of `tokens` tokens; texts of different seeds differ within their first words.

    A shorter text of one seed is the beginning of a longer one.
    """
    digests = -(-tokens // _WORDS_PER_DIGEST)
    made = (hashlib.sha256(f"{seed}#{number}".encode()).digest() for number in range(digests))
    words = "".join(_OF_BYTE[value] for digest in made for value in digest)
    return words[: tokens * CHARACTERS_PER_TOKEN]
