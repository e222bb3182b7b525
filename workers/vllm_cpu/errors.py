"""What can go wrong while the CPU build of vLLM or a small model is made."""

from __future__ import annotations

from hexgen_celery.errors import HexgenError, MissingPrerequisite


class PackagesUnavailable(MissingPrerequisite):
    """Raised when a package cannot be fetched: no network, no such version, or too slow."""

    code = "packages_unavailable"


class WrongChecksum(HexgenError):
    """Raised when a downloaded file is not the file that was expected."""

    code = "wrong_checksum"


class ConversionFailed(HexgenError):
    """Raised when the weights could not be converted into a model that vLLM loads."""

    code = "conversion_failed"
