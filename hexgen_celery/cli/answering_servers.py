"""What the LLM servers of a cluster say of themselves: whether they can serve, what they are."""

from __future__ import annotations

from hexgen_celery.api import Client
from hexgen_celery.errors import HexgenError
from hexgen_celery.instances import InstanceDirectory, InstanceState
from hexgen_celery.keys import Keys
from hexgen_celery.llm import LlmClient
from hexgen_celery.redis_client import connect
from hexgen_celery.settings import LlmSettings

_PATIENCE_SECONDS = 3.0
_EMULATED = "emulated"


def says_emulated(version: str | None) -> bool:
    """Whether a server with this version is an emulated instance."""
    return (version or "").startswith(_EMULATED)


def server_problem(url: str, model: str, settings: LlmSettings) -> str | None:
    """Why the server at `url` does not serve `model`, None if it does."""
    try:
        with LlmClient(url, _impatient(settings)) as server:
            server.check(model)
    except HexgenError as error:
        return str(error)
    return None


def emulated_instances(client: Client) -> tuple[str, ...]:
    """The names of the cluster's instances that are up and say that they are emulated."""
    settings = client.settings
    with connect(settings) as broker:
        now, records = InstanceDirectory(broker, Keys(settings.broker.prefix)).snapshot()
    dead_after = settings.workers.dead_after_seconds
    up = [each for each in records if each.state_at(now, dead_after) is not InstanceState.DOWN]
    return tuple(each.name for each in up if says_emulated(_version(each.url, settings.llm)))


def _version(url: str, settings: LlmSettings) -> str | None:
    try:
        with LlmClient(url, _impatient(settings)) as server:
            return server.version()
    except HexgenError:
        return None


def _impatient(settings: LlmSettings) -> LlmSettings:
    """`settings` for a short look at a server that may not answer."""
    return settings.model_copy(
        update={
            "connect_timeout_seconds": min(settings.connect_timeout_seconds, _PATIENCE_SECONDS),
            "idle_timeout_seconds": min(settings.idle_timeout_seconds, _PATIENCE_SECONDS),
        }
    )
