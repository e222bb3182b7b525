"""How questions ended, from wherever that is still known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from hexgen_celery.answers import Answer, NoAnswer, Outcome
from hexgen_celery.results import ResultReader
from hexgen_celery.store.questions import stored_outcome
from hexgen_celery.store.reading import StoreReader

SOURCE, STORE = "source", "store"
"""What an outcome's detail says of itself where it is the store's."""


def find_endings(
    results: ResultReader, reader: StoreReader | None, workflow_ids: Iterable[str]
) -> Iterator[tuple[str, Outcome]]:
    """The outcome of each question that has ended: Redis', else the store's (without rows).

    Raises:
        BrokerUnavailable: Redis stayed away.
        StoreUnavailable, StoreOutdated: Redis does not know one, and the store cannot tell.
    """
    missing = dict.fromkeys(workflow_ids)
    for name, outcome in results.as_completed(list(missing), timeout=0.0):
        del missing[name]
        yield name, outcome
    for name in missing if reader else ():
        stored = reader.question(name) if reader else None
        ended = stored_outcome(stored) if stored else None
        if ended is not None:
            yield name, _marked(ended)


def _marked(outcome: Outcome) -> Outcome:
    detail = {**outcome.detail, SOURCE: STORE}
    if isinstance(outcome, Answer):
        return replace(outcome, detail=detail)
    return NoAnswer(outcome.workflow_id, outcome.status, detail)
