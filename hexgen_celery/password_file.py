"""Passwords that stand in files of their own."""

from __future__ import annotations

from pathlib import Path

from hexgen_celery.errors import InvalidSettings


def read_password(path: Path, field: str) -> str:
    """The password in `path`, which the setting `field` names.

    Raises:
        InvalidSettings: the file cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is no text"
        raise InvalidSettings(
            f"cannot read the password file {path}: {cause}",
            field=field,
            hint="give a readable file that holds the password alone",
        ) from error
