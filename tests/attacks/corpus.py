"""Every attack: those written down in `statements/`, and those that a program has to write.

A file holds statements, each behind a line `--! name | verdict`. In a statement `{folder}`,
`{database}`, `{secret}` and `{text}` stand for the paths of the place it is run in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from tests.attacks.generated import GENERATED

STATEMENTS = Path(__file__).parent / "statements"
HEAD = re.compile(r"^--! (?P<name>\S+) \| (?P<verdict>refuse|bound)\n", re.MULTILINE)

Verdict = Literal["refuse", "bound"]
"""`refuse`: the statement must not succeed. `bound`: it may, within every limit."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One hostile statement. `kind` is the file it stands in."""

    kind: str
    name: str
    verdict: Verdict
    text: str

    def aimed_at(self, places: dict[str, str]) -> str:
        """The statement with the paths of a real place in it."""
        text = self.text
        for name, path in places.items():
            text = text.replace("{" + name + "}", path)
        return text


def attacks() -> list[Attack]:
    """All attacks, in order of kind."""
    written = [attack for path in sorted(STATEMENTS.glob("*.sql")) for attack in _read(path)]
    made = [Attack("7_generated", name, verdict, text) for name, verdict, text in GENERATED]
    return written + made


def _read(path: Path) -> Iterator[Attack]:
    text = path.read_text(encoding="utf-8")
    heads = list(HEAD.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    for head, end in zip(heads, ends, strict=True):
        statement = text[head.end() : end].removesuffix("\n")
        yield Attack(path.stem, head["name"], cast(Verdict, head["verdict"]), statement)
