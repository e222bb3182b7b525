"""What is expected of a request when it is placed: its output, its path, its budget. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hexgen_celery.core.budgets import stage_budget
from hexgen_celery.core.estimates import Estimate
from hexgen_celery.core.prefix import prefix_tokens
from hexgen_celery.core.profiles import Profile
from hexgen_celery.core.views import RequestView
from hexgen_celery.learning.knowledge import Knowledge
from hexgen_celery.outbox import OutboxEntry
from hexgen_celery.prompt_tokens import PromptTokens
from hexgen_celery.workflows.definition import LlmCall

# How many sequences are assumed to decode together when the seconds of a request are estimated
# before its instance is known.
TYPICAL_BATCH = 4.0


@dataclass(frozen=True, slots=True)
class Outlook:
    """Estimates of one request. `budget` is its stage's share of the time left, seconds; None
    where stages were never measured. Estimates are None where nothing was learnt yet."""

    view: RequestView
    output: Estimate | None = None
    remaining: Estimate | None = None
    budget: float | None = None

    def reasons(self) -> dict[str, float]:
        """What of it belongs into the trace."""
        facts: dict[str, float] = {}
        for name, estimate in (("output", self.output), ("remaining", self.remaining)):
            if estimate is not None:
                facts[name] = round(estimate.mean, 3)
                facts[f"{name}_p10"] = round(estimate.p10, 3)
                facts[f"{name}_p90"] = round(estimate.p90, 3)
        return facts


def outlook(
    entry: OutboxEntry,
    call: LlmCall,
    known: Knowledge,
    profiles: Iterable[Profile],
    *,
    now: float,
    prompt: PromptTokens,
    slack_seconds: float = 0.0,
) -> Outlook:
    """What is expected of `entry`, whose prompt is so long, at `now` (Unix seconds), on any of
    `profiles`.

    Its rank and its budget are those of the moment it became ready, however often it is looked at.
    Before anything was learnt of its step, the output is the call's own estimate.
    """
    spec, submission = entry.spec, entry.submission
    output = known.output(spec.stage, spec.step, submission.database)
    tokens = min(output.mean if output else call.output_tokens, float(call.max_tokens))
    remaining = known.remaining(
        spec.stage,
        spec.step,
        entry.round,
        submission.database,
        _own_seconds(call, prompt, tokens, profiles),
    )
    ready_at = entry.ready_at or now
    budget = _budget(entry, known, ready_at)
    view = RequestView(
        request_id=str(entry.ref),
        workflow_id=entry.ref.workflow_id,
        stage=spec.stage,
        step=spec.step,
        database=submission.database,
        tenant=submission.tenant,
        model=str(submission.options.get("model", "")),
        input_tokens=prompt.input_tokens,
        output_tokens=max(1.0, tokens),
        prefix=call.prefix,
        submitted_at=submission.submitted_at,
        deadline=submission.deadline,
        ready_at=ready_at,
        remaining_seconds=remaining.mean if remaining else 0.0,
        remaining_p10_seconds=remaining.p10 if remaining else 0.0,
        stage_budget_seconds=submission.deadline - ready_at if budget is None else budget,
        slack_seconds=slack_seconds,
    )
    return Outlook(view, output, remaining, budget)


def _own_seconds(
    call: LlmCall, prompt: PromptTokens, output_tokens: float, profiles: Iterable[Profile]
) -> float:
    """Seconds of the request with its shared beginning cached, on an average instance."""
    total = prompt.input_tokens
    uncached = max(0, total - round(prompt.per_counted * prefix_tokens(call.prefix)))
    each = [
        profile.execution_seconds(uncached, total, output_tokens, TYPICAL_BATCH)
        for profile in profiles
    ]
    return sum(each) / len(each) if each else 0.0


def _budget(entry: OutboxEntry, known: Knowledge, ready_at: float) -> float | None:
    means = known.stage_means(entry.submission.workflow)
    stage = entry.spec.stage
    if means.get(stage, 0.0) <= 0.0:
        return None
    names = list(means)
    later = [means[name] for name in names[names.index(stage) + 1 :]]
    return stage_budget(entry.submission.deadline - ready_at, means[stage], later)
