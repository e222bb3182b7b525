"""The LLM servers: pools, their instances, emulated ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from hexgen_celery.settings.section import (
    Name,
    Positive,
    PositiveInt,
    Section,
)
from hexgen_celery.settings.vllm import VllmSettings


class InstanceSettings(Section):
    """One LLM server. Either `url` of a running one, or `engine` for `hexgen up` to start.

    `vllm` says how `hexgen vllm serve` starts one with `engine = "vllm"`; its `url` is where
    workers on other hosts reach it.
    """

    name: Name
    url: str | None = None
    engine: Literal["external", "emulated", "vllm"] = "external"
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    vllm: VllmSettings | None = None

    @property
    def is_ours(self) -> bool:
        """Whether `hexgen up` starts it."""
        return self.engine != "external"

    @property
    def serving(self) -> VllmSettings:
        """How its vLLM server is started."""
        return self.vllm or VllmSettings()

    @model_validator(mode="before")
    @classmethod
    def _vllm_with_a_port_is_on_this_machine(cls, values: Any) -> Any:
        """Unless it is said where else workers reach it."""
        if not isinstance(values, dict) or values.get("engine") != "vllm":
            return values
        url, port = values.get("url"), values.get("port")
        return {**values, "url": f"http://127.0.0.1:{port}"} if port and not url else values

    @model_validator(mode="after")
    def _external_has_url(self) -> Self:
        if self.engine == "external" and not self.url:
            raise ValueError(
                f'instance {self.name!r} needs `url` (or `engine = "vllm"` or "emulated")'
            )
        return self

    @model_validator(mode="after")
    def _vllm_is_told_of_vllm_only(self) -> Self:
        if self.vllm is not None and self.engine != "vllm":
            raise ValueError(
                f'instance {self.name!r} has a table `vllm` but engine = "{self.engine}"'
            )
        return self

    @model_validator(mode="after")
    def _port_is_that_of_the_url(self) -> Self:
        told = _port_of(self.url)
        if self.engine == "vllm" and self.url and (self.port or told) != told:
            raise ValueError(
                f"instance {self.name!r} has port = {self.port}, but its url says {told or 'none'}"
            )
        return self

    @property
    def listening_port(self) -> int:
        """Where its server listens: `port`, else the one in `url`; 0 where neither says."""
        return self.port or _port_of(self.url)


class PoolSettings(Section):
    """Interchangeable instances: one GPU type, model, context length and profile.

    Without `instances` it is served by those alone that register themselves.
    """

    name: Name
    gpu: Name
    model: str
    profile: str
    max_model_len: PositiveInt | None = None
    tags: tuple[str, ...] = ()
    concurrency: PositiveInt = 64
    instances: tuple[InstanceSettings, ...] = ()

    @property
    def queue(self) -> str:
        """The pool's queue: what the router chooses."""
        return f"gpu.{self.gpu}.{self.name}"


def _port_of(url: str | None) -> int:
    try:
        return urlsplit(url or "").port or 0
    except ValueError:
        return 0


class EmulatorSettings(Section):
    """Emulated instances: how fast emulated time runs, and where their answers come from.

    An answer is sent in pieces, one every `chunk_seconds` of real time. `scheduling_policy` is
    vLLM's: with `fcfs` requests wait in the order of their arrival, and a `priority` is refused.
    """

    speed: Positive = 1.0
    replay: tuple[Path, ...] = ()
    chunk_seconds: Positive = 0.1
    scheduling_policy: Literal["priority", "fcfs"] = "priority"
