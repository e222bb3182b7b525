"""Which dispatch policy is in force, by tenant and model, changed while everything runs.

The configuration says what holds when nothing else was said; Redis holds the rest. Routers read it
with each decision, so that a change is in force with the next one.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import redis
import structlog

from hexgen_celery.core.dispatch import DispatchPolicy, build_dispatch
from hexgen_celery.core.registry import InvalidParameter, UnknownName
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.keys import Keys
from hexgen_celery.settings import RouterSettings

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """A dispatch policy by name with its parameters."""

    dispatch: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """As it is stored."""
        return json.dumps({"dispatch": self.dispatch, "parameters": dict(self.parameters)})

    @classmethod
    def from_json(cls, text: str) -> PolicyChoice:
        """What `to_json` gave; raises `ValueError` for anything else."""
        try:
            stored = json.loads(text)
            return cls(str(stored["dispatch"]), dict(stored.get("parameters", {})))
        except (TypeError, KeyError) as error:
            raise ValueError(f"no policy: {text[:100]}") from error

    def build(self, rng: random.Random) -> DispatchPolicy:
        """The policy itself.

        Raises:
            InvalidSettings: the policy or one of its parameters is unknown.
        """
        try:
            return build_dispatch(self.dispatch, rng, **self.parameters)
        except (UnknownName, InvalidParameter) as error:
            raise InvalidSettings(
                str(error), field="router.dispatch", hint="see docs/scheduling.md for the policies"
            ) from error


def scope(model: str = "", tenant: str = "") -> str:
    """The field of one (model, tenant); both empty: the whole deployment."""
    return f"{tenant}@{model}"


@dataclass(frozen=True, slots=True)
class StoredPolicies:
    """By scope: the policies that can be used, and why others cannot. Routers pass those over."""

    usable: dict[str, PolicyChoice] = field(default_factory=dict)
    unusable: dict[str, str] = field(default_factory=dict)


class PolicyStore:
    """Reads and changes the policies in force."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._key = keys.policies
        self._named: dict[str, str] = {}

    def set(self, choice: PolicyChoice, *, model: str = "", tenant: str = "") -> None:
        """Put `choice` in force for the requests of `tenant` for `model` (empty: all).

        Raises:
            InvalidSettings: it names an unknown policy or parameter.
        """
        choice.build(random.Random(0))
        self._client.hset(self._key, scope(model, tenant), choice.to_json())

    def clear(self, *, model: str = "", tenant: str = "") -> bool:
        """Go back to what holds otherwise; False when nothing was set."""
        return bool(self._client.hdel(self._key, scope(model, tenant)))

    def read(self) -> dict[str, PolicyChoice]:
        """What is in force, by scope. What routers cannot use is named once, and left out."""
        stored = self.stored()
        for name, why in stored.unusable.items():
            if self._named.get(name) != why:
                log.warning("a stored policy cannot be used", scope=name, error=why)
        self._named = stored.unusable
        return stored.usable

    def stored(self) -> StoredPolicies:
        """Everything that was set."""
        stored = StoredPolicies()
        for name, text in cast("dict[str, str]", self._client.hgetall(self._key)).items():
            try:
                choice = PolicyChoice.from_json(text)
                choice.build(random.Random(0))
            except (InvalidSettings, ValueError) as error:
                stored.unusable[name] = str(error)
            else:
                stored.usable[name] = choice
        return stored


class PolicyBook:
    """The policies of one router, built once each. Not thread-safe.

    A stored choice that cannot be built is reported once and passed over.

    Raises:
        InvalidSettings: the configured policy is unknown.
    """

    def __init__(self, settings: RouterSettings, rng: random.Random) -> None:
        self._rng = rng
        self._configured = PolicyChoice(settings.dispatch, settings.parameters).build(rng)
        self._built: dict[str, tuple[str, DispatchPolicy | None]] = {}

    def policy(self, stored: Mapping[str, str], model: str, tenant: str) -> DispatchPolicy:
        """The policy for a request: the narrowest scope in `stored` (raw hash), else configured."""
        if not stored:
            return self._configured
        for name in (scope(model, tenant), scope("", tenant), scope(model), scope()):
            text = stored.get(name)
            policy = self._policy(name, text) if text is not None else None
            if policy is not None:
                return policy
        return self._configured

    def _policy(self, name: str, text: str) -> DispatchPolicy | None:
        built_from, policy = self._built.get(name, ("", None))
        if built_from != text:
            policy = self._try(name, text)
            self._built[name] = (text, policy)
        return policy

    def _try(self, name: str, text: str) -> DispatchPolicy | None:
        try:
            return PolicyChoice.from_json(text).build(self._rng)
        except (InvalidSettings, ValueError) as error:
            log.warning("a stored policy cannot be used", scope=name, error=str(error))
            return None
