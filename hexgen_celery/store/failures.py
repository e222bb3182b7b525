"""What a database driver's error says about the store, whoever called the driver. Pure."""

from __future__ import annotations

from hexgen_celery.errors import HexgenError
from hexgen_celery.store.errors import StoreOutdated, StoreUnavailable

# SQLSTATEs of PostgreSQL, and how SQLite's messages begin.
_UNDEFINED, _TOO_LARGE = ("42P01", "42703"), "54"
_ABSENT = ("no such table", "no such column")

# The classes of errors that every driver has, by name; `TimeoutError` is that of a pool.
_OF_VALUES = ("DataError", "IntegrityError", "ProgrammingError", "NotSupportedError")
_AWAY = ("OperationalError", "InterfaceError", "InternalError", "DatabaseError", "TimeoutError")
_KINDS = frozenset((*_OF_VALUES, *_AWAY))

# What to do, by what SQLite says; any other cause is a server that is away.
_MENDING = {
    "malformed": "move the file away, and put a back-up in its place or make a new one with "
    "`hexgen store migrate`",
    "not a database": "move the file away, and make a new one with `hexgen store migrate`",
    "readonly": "make the file and its directory writable for this user",
    "unable to open": "make its directory, and the file, readable and writable for this user",
    "full": "make room on its disk",
    "locked": "end the program that holds it",
}
_IS_IT_UP = "is the server up, and does it let this host and user in?"


def named_failure(error: BaseException, place: str) -> HexgenError | None:
    """What the driver's `error` says about the store at `place`; None where it is about a value."""
    cause = str(error).strip()
    state = str(getattr(error, "sqlstate", None) or "")
    if state in _UNDEFINED or cause.startswith(_ABSENT) or "has no column" in cause:
        return StoreOutdated(
            f"the store {place} lacks what this version needs: {cause}",
            field="store.url",
            hint="run `hexgen store migrate`",
        )
    if _kind(error) not in _AWAY or state.startswith(_TOO_LARGE):
        return None
    return StoreUnavailable(
        f"the store {place} cannot be used: {cause}",
        field="store.url",
        hint=f"{_mending(cause)}; what ends meanwhile waits in Redis",
    )


def _kind(error: BaseException) -> str:
    """Drivers derive classes of their own from those that all have."""
    return next((kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _KINDS), "")


def _mending(cause: str) -> str:
    return next((hint for said, hint in _MENDING.items() if said in cause), _IS_IT_UP)
