"""How many equal results decide a question early, by model, as it was learnt."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("agreement.toml")


@dataclass(frozen=True, slots=True)
class AgreementTable:
    """`needed` maps a piece of a model's name (small letters) to the equal results it needs."""

    needed: tuple[tuple[str, int], ...]
    otherwise: int

    def of(self, model: str) -> int:
        """Equal results needed of the model; `otherwise` for one that nothing was learnt of."""
        name = model.lower()
        return next((number for piece, number in self.needed if piece in name), self.otherwise)

    def of_all(self, models: Iterable[str]) -> int:
        """What is needed where any of `models` may write a candidate."""
        return max((self.of(model) for model in models), default=self.otherwise)


@cache
def learnt_agreement(path: Path = TABLE) -> AgreementTable:
    """The table in `path`, whose comments say what it was learnt from."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    models = tuple((str(each["name"]), int(each["needed"])) for each in content["models"])
    return AgreementTable(models, int(content["otherwise"]))
