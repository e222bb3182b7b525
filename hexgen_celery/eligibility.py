"""Which instances have room for a request, and what is said where none has. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hexgen_celery.errors import HexgenError
from hexgen_celery.instances import InstanceRecord
from hexgen_celery.live_cluster import Profiles, Wanted
from hexgen_celery.live_snapshot import Snapshot
from hexgen_celery.prompt_tokens import PromptTokens
from hexgen_celery.workflows.definition import LlmCall


class NoPool(HexgenError):
    """Raised when no pool can take a request now; it stays in the outbox and is tried again."""

    code = "no_pool"


def with_room(
    able: Sequence[InstanceRecord], call: LlmCall, prompt: PromptTokens
) -> list[InstanceRecord]:
    """Those of `able` that the request fits by what servers would count of it (tokens).

    Where it fits none our own count decides, and in the end what pools promise alone: a server that
    refuses it says why at once.
    """
    theirs, ours = prompt.input_tokens + call.max_tokens, call.input_tokens + call.max_tokens
    return (
        [each for each in able if each.offers_room(theirs)]
        or [each for each in able if each.offers_room(ours)]
        or [each for each in able if each.has_room(ours)]
    )


def no_pool(snapshot: Snapshot, wanted: Wanted, call: LlmCall, profiles: Profiles) -> NoPool:
    """The error that says what was wanted, and what each announced instance lacks."""
    needs = [f" serves {wanted.model}"] if wanted.model else [" is ready"]
    if wanted.tags:
        needs.append(f"has the tags {', '.join(sorted(wanted.tags))}")
    known = "; ".join(
        f"{record.name} ({record.queue}, {record.state}{_why(record, profiles)})"
        for record in snapshot.records
    )
    return NoPool(
        f"no instance{' and '.join(needs)} with room for {call.input_tokens + call.max_tokens} "
        f"tokens of context; announced: {known or 'none'}",
        hint="start one with `hexgen worker llm --instance NAME`",
    )


def _why(record: InstanceRecord, profiles: Profiles) -> str:
    reason = record.reason or profiles.trouble(record)
    return f": {reason}" if reason else ""
