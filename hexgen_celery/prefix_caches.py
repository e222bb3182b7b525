"""What every instance probably has in its prefix cache, as one router follows it.

Each placement leaves a note in a capped stream; every router applies the notes of all to shadow
caches of its own. Notes that were missed only make an estimate worse.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hexgen_celery.core.prefix import Prefix, PrefixPart
from hexgen_celery.core.prefix_ledger import PrefixLedger
from hexgen_celery.core.profiles import Profile
from hexgen_celery.core.views import RequestView

CacheFactor = Callable[[str], float]
_in_few_characters = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class PlacementNote:
    """A request went to an instance. `router` says who placed it; lengths in tokens."""

    router: str
    instance: str
    prefix: Prefix
    input_tokens: int
    output_tokens: int

    def to_json(self) -> str:
        """As it stands in the stream."""
        parts = [[part.key, part.tokens] for part in self.prefix]
        values = [self.router, self.instance, parts, self.input_tokens, self.output_tokens]
        return _in_few_characters(values)

    @classmethod
    def from_json(cls, text: str) -> PlacementNote:
        """The note that `to_json` wrote."""
        router, instance, parts, input_tokens, output_tokens = json.loads(text)
        prefix = tuple(PrefixPart(key, tokens) for key, tokens in parts)
        return cls(router, instance, prefix, input_tokens, output_tokens)


@dataclass(slots=True)
class _Shadow:
    epoch: float
    ledger: PrefixLedger


class PrefixCaches:
    """The shadow caches of one router, called `router`. Not thread-safe."""

    def __init__(self, router: str) -> None:
        self.router = router
        self._shadows: dict[str, _Shadow] = {}

    def follow(self, instance: str, profile: Profile, epoch: float) -> None:
        """An instance exists; one with a new epoch has started with an empty cache."""
        shadow = self._shadows.get(instance)
        if shadow is None:
            self._shadows[instance] = _Shadow(epoch, PrefixLedger(profile))
        elif shadow.epoch != epoch:
            shadow.epoch = epoch
            shadow.ledger.clear()

    def forget(self, instance: str) -> None:
        """An instance is not announced any more and its name may never come back."""
        self._shadows.pop(instance, None)

    def cached_tokens(self, instance: str, prefix: Prefix) -> int:
        """Leading tokens of `prefix` believed to be cached there."""
        shadow = self._shadows.get(instance)
        return shadow.ledger.cached_tokens(prefix) if shadow else 0

    def lookup(self, instance: str, factor: float) -> Callable[[Prefix], int]:
        """`cached_tokens` of one instance in its server's tokens, `factor` for one of ours."""
        shadow = self._shadows[instance]
        if factor == 1.0:
            return shadow.ledger.cached_tokens
        return lambda prefix: int(factor * shadow.ledger.cached_tokens(prefix))

    def placed(self, instance: str, request: RequestView) -> PlacementNote:
        """This router sends `request` there; what to tell the others."""
        note = PlacementNote(
            self.router,
            instance,
            request.prefix,
            request.input_tokens,
            round(request.output_tokens),
        )
        self._apply(note)
        return note

    def read(self, notes: Iterable[str]) -> None:
        """Apply what other routers placed."""
        for text in notes:
            note = PlacementNote.from_json(text)
            if note.router != self.router:
                self._apply(note)

    def _apply(self, note: PlacementNote) -> None:
        shadow = self._shadows.get(note.instance)
        if shadow is not None:
            shadow.ledger.note(note.prefix, note.input_tokens, note.output_tokens)
