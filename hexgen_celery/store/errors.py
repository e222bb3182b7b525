"""What can be wrong with the store."""

from __future__ import annotations

from hexgen_celery.errors import HexgenError


class StoreUnavailable(HexgenError):
    """Raised when the store cannot be reached or refuses to work; nothing is lost by that."""

    code = "store_unavailable"


class StoreOutdated(HexgenError):
    """Raised when the store's tables are not those of this version; the hint is the command."""

    code = "store_outdated"


class StoreNotEmpty(HexgenError):
    """Raised when going back to an earlier version would delete what is stored."""

    code = "store_not_empty"
