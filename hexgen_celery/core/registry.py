"""Named, documented choices: one registry per kind of policy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import Field, dataclass, fields
from typing import Any, Generic, TypeVar

ProductT = TypeVar("ProductT")
FactoryT = TypeVar("FactoryT", bound=Callable[..., Any])

# What a parameter that is declared as the key may be; other declarations check themselves.
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "bool": ((bool,), "true or false"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "str": ((str,), "a text"),
}


class UnknownName(ValueError):
    """Raised when a policy is asked for by a name that nobody registered; lists those known."""


class InvalidParameter(ValueError):
    """Raised when a policy has no parameter of that name, or refuses its value."""


@dataclass(frozen=True, slots=True)
class NoParameters:
    """The parameters of a policy that has nothing to set."""


@dataclass(frozen=True, slots=True)
class Entry(Generic[ProductT]):
    """One registered choice: its frozen parameter dataclass and how to build it from that."""

    name: str
    parameters: type[Any]
    factory: Callable[..., ProductT]

    @property
    def summary(self) -> str:
        """The first line of the factory's docstring."""
        return (self.factory.__doc__ or "").strip().partition("\n")[0]

    def configure(self, values: dict[str, Any]) -> Any:
        """The parameter object for `values`; raises `InvalidParameter` naming the wrong one."""
        known = [field.name for field in fields(self.parameters)]
        for name in values:
            if name not in known:
                options = ", ".join(known) or "none"
                raise InvalidParameter(
                    f"{self.name} has no parameter {name!r}; its parameters: {options}"
                )
        declared = {field.name: field for field in fields(self.parameters)}
        fitting = {name: self._fitting(declared[name], value) for name, value in values.items()}
        try:
            return self.parameters(**fitting)
        except (TypeError, ValueError) as error:
            raise InvalidParameter(f"{self.name}: {error}") from error

    def _fitting(self, field: Field[Any], value: Any) -> Any:
        """`value` in the kind that `field` declares; raises `InvalidParameter` for another one."""
        declared = field.type if isinstance(field.type, str) else field.type.__name__
        if declared not in _KINDS:
            return value
        kinds, words = _KINDS[declared]
        if declared == "int" and isinstance(value, float) and value.is_integer():
            # Settings and JSON do not tell 16 from 16.0.
            return int(value)
        # Every comparison with a NaN is false, so that ranges would let it pass.
        endless = isinstance(value, float) and not math.isfinite(value)
        strange = isinstance(value, bool) and bool not in kinds
        if endless or strange or not isinstance(value, kinds):
            raise InvalidParameter(f"{self.name}: {field.name} must be {words}, got {value!r}")
        return value


class Registry(Generic[ProductT]):
    """The choices of one kind (`dispatch policy`, `order`, …) by name."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry[ProductT]] = {}

    def register(
        self, name: str, parameters: type[Any] = NoParameters
    ) -> Callable[[FactoryT], FactoryT]:
        """Decorate a factory `(parameters, *context) -> product` as the choice `name`."""

        def add(factory: FactoryT) -> FactoryT:
            if name in self._entries:
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            self._entries[name] = Entry(name, parameters, factory)
            return factory

        return add

    def names(self) -> list[str]:
        """All names, in the order of registration."""
        return list(self._entries)

    def entry(self, name: str) -> Entry[ProductT]:
        """The choice called `name`; raises `UnknownName`."""
        try:
            return self._entries[name]
        except KeyError:
            known = ", ".join(sorted(self._entries))
            raise UnknownName(f"unknown {self.kind} {name!r}; choose one of: {known}") from None

    def build(self, name: str, *context: Any, **values: Any) -> ProductT:
        """Build `name` from parameter `values`.

        Raises:
            UnknownName: if nothing is registered under `name`.
            InvalidParameter: if a value is unknown or impossible.
        """
        entry = self.entry(name)
        return entry.factory(entry.configure(values), *context)
