"""A profile as the TOML text that `profiles_io` reads. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable

from hexgen_celery.core.profiles import Profile

_UNSOURCED = ("name", "gpu", "gpus", "model")


def profile_text(profile: Profile, comments: Iterable[str] = ()) -> str:
    """The file of `profile`, every number with its provenance, behind `comments`."""
    heading = [f"# {line}".rstrip() for line in comments]
    plain = [f"{name} = {json.dumps(getattr(profile, name))}" for name in _UNSOURCED]
    sourced = [
        f"{name} = {{ value = {getattr(profile, name)!r}, kind = {_quoted(origin.kind)}, "
        f"source = {_quoted(origin.source)} }}"
        for name, origin in profile.provenance
    ]
    return "\n".join((*heading, *plain, "", *sourced, ""))


def _quoted(text: str) -> str:
    """A basic TOML string: JSON's escapes are among TOML's."""
    return json.dumps(text, ensure_ascii=False)
