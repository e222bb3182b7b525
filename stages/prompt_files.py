"""The fixed parts of prompts, which are files so that they can be read and changed as text."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_DIRECTORY = Path(__file__).parent / "prompts"


@cache
def prompt_text(name: str) -> str:
    """The text of `prompts/<name>.md`, ending with one blank line.

    Raises:
        FileNotFoundError: there is no such prompt.
    """
    return (_DIRECTORY / f"{name}.md").read_text(encoding="utf-8").strip() + "\n\n"


@cache
def candidate_styles() -> tuple[str, ...]:
    """The ways of working that candidates are asked for in turn, in the order of file names."""
    files = sorted((_DIRECTORY / "candidate_styles").glob("*.md"))
    return tuple(file.read_text(encoding="utf-8").strip() for file in files)
