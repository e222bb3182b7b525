"""One measurement at a time on a live server, through the same client that requests go through."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from hexgen_celery.llm import ChatRequest, Completion, LlmClient
from hexgen_celery.profiling_llm.samples import CacheEffect, DecodeSample, PrefillSample

# Common English words are one token each, more or less, in every tokenizer.
WORDS = (
    "time",
    "year",
    "people",
    "way",
    "day",
    "man",
    "thing",
    "woman",
    "life",
    "child",
    "world",
    "school",
    "state",
    "family",
    "student",
    "group",
    "country",
    "problem",
    "hand",
    "part",
    "place",
    "case",
    "week",
    "company",
    "system",
)
_CALIBRATION_WORDS = 400


class Prober:
    """Asks `model` at `client` for answers of exact lengths, with prompts that no cache knows.

    Raises:
        ModelUnavailable: the server cannot be reached or does not serve the model.
    """

    def __init__(self, client: LlmClient, model: str, seed: int = 0) -> None:
        self._client = client
        self._model = model
        self._rng = random.Random(seed)
        self._names = (f"profile-{seed}-{number}" for number in itertools.count())
        warm_up = self._ask(self._text(_CALIBRATION_WORDS), 2)
        self._words_per_token = _CALIBRATION_WORDS / warm_up.input_tokens

    def prefill(self, tokens: int, repeats: int) -> PrefillSample:
        """The least disturbed of `repeats` fresh prompts of about `tokens` tokens."""
        answers = [self._ask(self._prompt(tokens), 1) for _ in range(repeats)]
        best = min(answers, key=lambda answer: answer.first_token_seconds)
        return PrefillSample(best.input_tokens - best.cached_tokens, best.first_token_seconds)

    def decode(self, batch: int, context: int, steps: int, repeats: int) -> DecodeSample:
        """The least disturbed of `repeats` batches of prompts of about `context` tokens.

        The request that got its first token last decoded beside the others.
        """
        batches = [self._decode_once(batch, context, steps) for _ in range(repeats)]
        # By the end and not by the step: a first token that is late makes the steps look short.
        return decode_sample(min(batches, key=lambda answers: max(one.seconds for one in answers)))

    def cache_effect(self, tokens: int) -> CacheEffect:
        """One prompt twice in a row."""
        prompt = self._prompt(tokens)
        shared = {"prefix": f"{next(self._names)}:{tokens}"}
        cold, warm = (self._ask(prompt, 1, shared) for _ in range(2))
        return CacheEffect(
            cold.input_tokens,
            cold.first_token_seconds,
            warm.first_token_seconds,
            warm.cached_tokens,
        )

    def _decode_once(self, batch: int, context: int, steps: int) -> list[Completion]:
        prompts = [self._prompt(context) for _ in range(batch)]
        with ThreadPoolExecutor(batch) as pool:
            return list(pool.map(lambda prompt: self._ask(prompt, steps + 1), prompts))

    def _ask(
        self, prompt: str, output_tokens: int, metadata: dict[str, str] | None = None
    ) -> Completion:
        return self._client.complete(
            ChatRequest(
                model=self._model,
                messages=(("user", prompt),),
                max_tokens=output_tokens,
                forced_output_tokens=output_tokens,
                metadata=metadata or {},
            )
        )

    def _prompt(self, tokens: int) -> str:
        return self._text(max(1, round(tokens * self._words_per_token)))

    def _text(self, words: int) -> str:
        """Random words behind a random number, so that no two prompts begin alike."""
        return " ".join((f"{self._rng.random()}", *self._rng.choices(WORDS, k=words)))


def decode_sample(answers: Sequence[Completion]) -> DecodeSample:
    """A step's duration, batch and context while the request decoded that got its first token last.

    All were asked at one moment. Some may end before the last one does, when the prompts of the
    batch took many steps: so batch and context are means over the time in which it decoded.
    """
    last = max(answers, key=lambda answer: answer.first_token_seconds)
    begin, end = last.first_token_seconds, last.seconds
    seconds = (end - begin) / max(1, last.output_tokens - 1)
    if end <= begin:
        return DecodeSample(len(answers), sum(answer.input_tokens for answer in answers), seconds)
    batch = context = 0.0
    for answer in answers:
        until = min(answer.seconds, end)
        share = max(0.0, until - begin) / (end - begin)
        batch += share
        context += share * (answer.input_tokens + _generated(answer, (begin + until) / 2))
    return DecodeSample(batch, context, seconds)


def _generated(answer: Completion, at: float) -> float:
    """Tokens that it had `at` seconds after it was asked, taking its steps as equally long."""
    decoding = answer.seconds - answer.first_token_seconds
    if decoding <= 0:
        return float(answer.output_tokens)
    done = min(1.0, max(0.0, (at - answer.first_token_seconds) / decoding))
    return 1 + done * (answer.output_tokens - 1)
