"""The LLM servers: pools, their instances, emulated ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from hexgen_celery.settings.section import (
    Name,
    Positive,
    PositiveInt,
    Section,
)


class InstanceSettings(Section):
    """One LLM server. Either `url` of a running one, or `engine` for `hexgen up` to start."""

    name: Name
    url: str | None = None
    engine: Literal["external", "emulated"] = "external"
    port: Annotated[int, Field(ge=0, le=65535)] = 0

    @model_validator(mode="after")
    def _external_has_url(self) -> InstanceSettings:
        if self.engine == "external" and not self.url:
            raise ValueError(f'instance {self.name!r} needs `url` (or `engine = "emulated"`)')
        return self


class PoolSettings(Section):
    """Interchangeable instances: one GPU type, model, context length and profile."""

    name: Name
    gpu: Name
    model: str
    profile: str
    max_model_len: PositiveInt | None = None
    tags: tuple[str, ...] = ()
    concurrency: PositiveInt = 64
    instances: tuple[InstanceSettings, ...] = Field(min_length=1)

    @property
    def queue(self) -> str:
        """The pool's queue: what the router chooses."""
        return f"gpu.{self.gpu}.{self.name}"


class EmulatorSettings(Section):
    """Emulated instances: how fast emulated time runs, and where their answers come from."""

    speed: Positive = 1.0
    replay: tuple[Path, ...] = ()
