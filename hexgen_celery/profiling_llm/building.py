"""From measurements to a profile, or a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hexgen_celery.core.profiles import Profile, Provenance
from hexgen_celery.profiling_llm.fit import Fit, fit_decode, fit_prefill
from hexgen_celery.profiling_llm.samples import Measurements, ProfileRefused

WORST_FIT = 0.25
DECODE_TERMS = {
    "decode_base": "base",
    "decode_per_sequence": "per_sequence",
    "decode_per_context_token": "per_context_token",
}

VLLM_DEFAULT = Provenance("modelled", "vLLM's default; the server does not tell")


@dataclass(frozen=True, slots=True)
class Hardware:
    """What a profile says that cannot be measured from outside. Sizes in tokens.

    The fields named `…_source` say where those numbers come from.
    """

    name: str
    gpu: str
    gpus: int
    model: str
    kv_tokens: int
    kv_source: Provenance
    max_model_len: int
    max_model_len_source: Provenance
    max_sequences: int = 256
    max_batched_tokens: int = 8192
    max_sequences_source: Provenance = VLLM_DEFAULT
    max_batched_tokens_source: Provenance = VLLM_DEFAULT
    block_tokens: int = 16


@dataclass(frozen=True, slots=True)
class MeasuredProfile:
    """A profile with its fits. `errors`: relative error by term of the profile."""

    profile: Profile
    prefill: Fit
    decode: Fit
    measurements: Measurements

    @property
    def errors(self) -> Mapping[str, float]:
        """By how much of the measured time each term's uncertainty moves the prediction."""
        decode = {name: self.decode.term_errors[term] for name, term in DECODE_TERMS.items()}
        prefill = self.prefill.term_errors
        return {
            "prefill_tokens_per_second": prefill["per_token"],
            "prefill_quadratic": prefill["quadratic"],
            "prefill_base": prefill["overhead"],
            **decode,
        }

    def to_json(self) -> dict[str, Any]:
        """Terms, errors and what was measured, as plain values."""
        cache = self.measurements.cache
        profile = self.profile
        return {
            "profile": profile.name,
            "terms": {name: getattr(profile, name) for name in self.errors},
            "term_errors": dict(self.errors),
            "fit": {
                name: {"mean_error": fit.mean_error, "worst_error": fit.worst_error}
                for name, fit in (("prefill", self.prefill), ("decode", self.decode))
            },
            "kv_tokens": profile.kv_tokens,
            "max_model_len": profile.max_model_len,
            "cache": None
            if cache is None
            else {
                "input_tokens": cache.input_tokens,
                "cold_seconds": cache.cold_seconds,
                "warm_seconds": cache.warm_seconds,
                "cached_tokens": cache.cached_tokens,
            },
            "seconds": self.measurements.seconds,
        }


def build_profile(
    measurements: Measurements,
    hardware: Hardware,
    when: str,
    server: str,
    worst_fit: float = WORST_FIT,
) -> MeasuredProfile:
    """Fit the terms; `when` (a date) and `server` go into their provenance.

    Raises:
        ProfileRefused: a prediction misses a measured time by more than `worst_fit`, or prefill or
            decode came out as taking no time.
    """
    prefill, decode = fit_prefill(measurements.prefill), fit_decode(measurements.decode)
    for what, fit in (("prefill", prefill), ("decode", decode)):
        _refuse_bad(what, fit, worst_fit)
    if prefill.terms["per_token"] <= 0 or decode.terms["base"] <= 0:
        raise ProfileRefused(
            "the measured times do not grow with the prompt, or not with the answer",
            hint="measure an idle server; a server that answers from a store has no such profile",
        )
    origin = _origin(measurements, when, server)
    profile = Profile(
        name=hardware.name,
        gpu=hardware.gpu,
        gpus=hardware.gpus,
        model=hardware.model,
        prefill_tokens_per_second=1.0 / prefill.terms["per_token"],
        prefill_quadratic=prefill.terms["quadratic"],
        decode_base=decode.terms["base"],
        decode_per_sequence=decode.terms["per_sequence"],
        decode_per_context_token=decode.terms["per_context_token"],
        kv_tokens=hardware.kv_tokens,
        max_sequences=hardware.max_sequences,
        max_model_len=hardware.max_model_len,
        max_batched_tokens=hardware.max_batched_tokens,
        block_tokens=hardware.block_tokens,
        prefill_base=prefill.terms["overhead"],
        provenance=_provenance(prefill, decode, hardware, origin),
    )
    return MeasuredProfile(profile, prefill, decode, measurements)


def _refuse_bad(what: str, fit: Fit, accepted: float) -> None:
    if fit.worst_error > accepted:
        raise ProfileRefused(
            f"the {what} model misses a measured time by {fit.worst_error:.0%} "
            f"(mean {fit.mean_error:.0%}); at most {accepted:.0%} is accepted",
            field=what,
            hint="measure again while nothing else uses the server or this machine, or accept "
            "a worse fit (--accept)",
        )


def _origin(measurements: Measurements, when: str, server: str) -> str:
    counts = f"{len(measurements.prefill)} prompt lengths, {len(measurements.decode)} batches"
    return f"{when}, {server}, hexgen profile, {counts} in {measurements.seconds:.0f} s"


def _provenance(
    prefill: Fit, decode: Fit, hardware: Hardware, origin: str
) -> tuple[tuple[str, Provenance], ...]:
    def measured(fit: Fit, term: str) -> Provenance:
        error = f"standard error {fit.term_errors[term]:.1%} of the time"
        return Provenance("measured", f"{origin}; {error}, fit worst {fit.worst_error:.1%}")

    return (
        ("prefill_tokens_per_second", measured(prefill, "per_token")),
        ("prefill_quadratic", measured(prefill, "quadratic")),
        ("prefill_base", measured(prefill, "overhead")),
        *((name, measured(decode, term)) for name, term in DECODE_TERMS.items()),
        ("kv_tokens", hardware.kv_source),
        ("max_sequences", hardware.max_sequences_source),
        ("max_model_len", hardware.max_model_len_source),
        ("max_batched_tokens", hardware.max_batched_tokens_source),
        ("block_tokens", hardware.kv_source),
    )
