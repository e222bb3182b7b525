"""What a request costs on an instance, in seconds: the terms that dispatch policies combine.

On a continuous-batching engine prefills run one after another while decodes run together: a new
request waits for the prefill ahead of it, and slows everybody who decodes beside it. Both show in

    own     = (prefill outstanding + own uncached prefill) / rate
              + L̂_out · (d0 + d1 · (running + 1) + d2 · (context there + own context))
    imposed = running · own uncached prefill / rate
              + (d1 + d2 · own context) · min(L̂_out · running, output left there)

with d0, d1, d2 the profile's decode terms.
"""

from __future__ import annotations

from hexgen_celery.core.views import InstanceView, RequestView


def uncached_tokens(request: RequestView, view: InstanceView) -> int:
    """Prompt tokens the instance would have to compute."""
    return max(0, request.input_tokens - view.cached_tokens(request.prefix))


def prefill_seconds(request: RequestView, view: InstanceView, uncached: float) -> float:
    """Seconds to compute the request's own `uncached` tokens, nothing else running."""
    return view.profile.prefill_seconds(uncached, request.input_tokens - uncached)


def decode_seconds(request: RequestView, view: InstanceView) -> float:
    """Seconds to generate the expected output beside what runs there now."""
    profile = view.profile
    step = (
        profile.decode_base
        + profile.decode_per_sequence * (view.running + 1)
        + profile.decode_per_context_token * (view.running_context_tokens + request.input_tokens)
    )
    return request.output_tokens * step


def idle_seconds(request: RequestView, view: InstanceView) -> float:
    """t_comp: the whole request alone on an empty instance with a cold cache."""
    return view.profile.execution_seconds(
        request.input_tokens, request.input_tokens, request.output_tokens
    )


def execution_seconds(request: RequestView, view: InstanceView) -> float:
    """t_exec: uncached prefill, then decode in the batch it would join."""
    uncached = uncached_tokens(request, view)
    return prefill_seconds(request, view, uncached) + decode_seconds(request, view)


def prefill_ahead_seconds(view: InstanceView) -> float:
    """Seconds of prefill already promised to the instance."""
    return view.outstanding_prefill_tokens / view.profile.prefill_tokens_per_second


def imposed_seconds(request: RequestView, view: InstanceView, own_prefill: float) -> float:
    """Seconds of delay, summed over the requests running there, that this one causes."""
    if not view.running:
        return 0.0
    profile = view.profile
    slope = profile.decode_per_sequence + profile.decode_per_context_token * request.input_tokens
    overlap = min(request.output_tokens * view.running, view.outstanding_output_tokens)
    return view.running * own_prefill + slope * overlap


def outstanding_requests(view: InstanceView) -> int:
    """Requests dispatched there and not finished."""
    return view.running + view.waiting


def outstanding_seconds(view: InstanceView) -> float:
    """Seconds until the instance has worked off what it holds, decoding all of it together."""
    profile = view.profile
    count = outstanding_requests(view)
    if not count:
        return 0.0
    batch = min(count, profile.max_sequences)
    step = profile.decode_step_seconds(batch, view.running_context_tokens)
    return prefill_ahead_seconds(view) + view.outstanding_output_tokens / batch * step
