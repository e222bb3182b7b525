"""The one configuration of the system: a TOML file, overridden by the environment.

`HEXGEN_CONFIG` names the file (default `hexgen.toml` where it exists). Every value can be set as
`HEXGEN_<SECTION>__<NAME>`, for example `HEXGEN_BROKER__URL`. Unknown names are refused.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from hexgen_celery.core.defaults import DEFAULTS
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.settings_problems import invalid_settings, misspelt_variable

Positive = Annotated[float, Field(gt=0)]
PositiveInt = Annotated[int, Field(gt=0)]
Tokens = Annotated[int, Field(gt=0, le=10_000_000)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$")]


def refuse_doubled(kind: str, names: list[str]) -> None:
    """Raise `ValueError` where a name of that kind is declared twice."""
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ValueError(f"{kind} {doubled[0]!r} is declared twice")


class Section(BaseModel):
    """A table of the configuration; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class BrokerSettings(Section):
    """Redis: broker, results and state. `url = "embedded"` starts one beside the processes.

    `transport = "kombu"` takes Kombu's own lists in place of urgency-ordered queues with leases.
    `sentinel_master` is the name that the Sentinels in a `sentinel://` URL know the Redis by.
    """

    url: SecretStr = SecretStr("embedded")
    password_file: Path | None = None
    sentinel_master: str | None = None
    prefix: Name = "hexgen"
    transport: Literal["urgency", "kombu"] = "urgency"
    result_ttl_seconds: Positive = 3600.0
    socket_timeout_seconds: Positive = 10.0
    visibility_timeout_seconds: Positive = 60.0


class DeadlineSettings(Section):
    """What happens at a question's deadline, and the limits on submissions."""

    policy: Literal["best-effort", "strict"] = "best-effort"
    default_slo_seconds: Positive = 60.0
    max_slo_seconds: Positive = 86_400.0
    max_question_chars: PositiveInt = 10_000
    max_evidence_chars: PositiveInt = 20_000


class CoordinatorSettings(Section):
    """Outbox, leases and attempts of the coordinator. Times in seconds.

    A message that is not claimed within `requeue_after_seconds` is sent again, then after twice
    that, and so on, in case the queue lost it. `orphan_ttl_seconds` after its deadline a workflow
    that nobody could end is forgotten.
    """

    resend_after_seconds: Positive = 2.0
    requeue_after_seconds: Positive = 30.0
    orphan_ttl_seconds: Positive = 86_400.0
    lease_seconds: Positive = 15.0
    tick_seconds: Positive = 0.2
    max_attempts: PositiveInt = 3
    trace_stream_entries: PositiveInt = 200_000


class LlmSettings(Section):
    """The LLM client. `api_key` comes from the environment or from `api_key_file`."""

    api_key: SecretStr | None = None
    api_key_file: Path | None = None
    connect_timeout_seconds: Positive = 5.0
    idle_timeout_seconds: Positive = 300.0
    retries: Annotated[int, Field(ge=0)] = 3
    backoff_seconds: Positive = 0.25
    backoff_max_seconds: Positive = 5.0


class PipelineSettings(Section):
    """The text-to-sql workflow; each can be overridden per submission by the same name.

    `linking`: who finds a question's keywords, a `model` or `rules`; `auto` means rules where there
    are less than `linking_slo_seconds`. A schema of more than `schema_tokens` is not sent whole.
    `agreement`: how many equal results decide early, 0 for none; `auto` is what was learnt of the
    model. `degrade`: leave optional work out when the deadline comes near. `waves`: ask for
    only as many candidates at a time as could come to the agreement, which takes longer and spends
    less.
    """

    candidates: Annotated[int, Field(ge=1, le=16)] = 3
    correction_rounds: Annotated[int, Field(ge=0, le=10)] = 2
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.7
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] = 7
    max_tokens: Tokens = 1024
    unit_tests: bool = True
    linking: Literal["auto", "model", "rules"] = "auto"
    linking_slo_seconds: Annotated[float, Field(ge=0)] = 5.0
    schema_tokens: Tokens = 24_000
    waves: bool = False
    agreement: Literal["auto"] | Annotated[int, Field(ge=0, le=16)] = "auto"
    degrade: bool = True


class SqlSettings(Section):
    """Limits on the execution of a model's SQL. Seconds, rows, MiB.

    `user`: whom the sandboxes of an sql worker that runs as root run as.
    """

    time_limit_seconds: Positive = 30.0
    max_rows: PositiveInt = 1000
    max_result_bytes: PositiveInt = 4_000_000
    memory_mib: PositiveInt = 512
    processes: PositiveInt = 2
    user: str | None = None
    home: Path = Path(".hexgen/databases")


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


class SloClassSettings(Section):
    """A named SLO: the seconds that a question of this class may take."""

    name: Name
    seconds: Positive


class TenantSettings(Section):
    """Whose questions these are. The first class is for questions that name neither class nor SLO.

    No more than `max_in_flight` questions run at once; a further one is refused, not queued.
    """

    name: Name
    max_in_flight: PositiveInt | None = None
    classes: tuple[SloClassSettings, ...] = ()

    @field_validator("classes")
    @classmethod
    def _classes_are_unique(
        cls, classes: tuple[SloClassSettings, ...]
    ) -> tuple[SloClassSettings, ...]:
        refuse_doubled("class", [one.name for one in classes])
        return classes


class EmulatorSettings(Section):
    """Emulated instances: how fast emulated time runs, and where their answers come from."""

    speed: Positive = 1.0
    replay: tuple[Path, ...] = ()


class WorkerSettings(Section):
    """Celery workers. A worker is alive while its last heartbeat is younger than `dead_after`.

    At shutdown, requests that still run after `shutdown_grace_seconds` are handed back.
    """

    heartbeat_seconds: Positive = 2.0
    dead_after_seconds: Positive = 10.0
    shutdown_grace_seconds: Annotated[float, Field(ge=0)] = 20.0
    sql_concurrency: PositiveInt = 8
    control_concurrency: PositiveInt = 8


class RouterSettings(Section):
    """Which dispatch policy chooses the instance, with its parameters; Redis may say otherwise."""

    dispatch: str = DEFAULTS.dispatch
    parameters: dict[str, float | str | bool] = Field(default_factory=dict)


class QueueSettings(Section):
    """Leases of queued messages, and which request a claim takes (docs/queues.md).

    A message whose lease ended `max_deliveries` times is a dead letter. `order` ranks what waits.
    Of the claims every `demoted_every`-th serves the oldest request that is late already; one too
    large for the room there is may be passed over `patience` times, for one of the next `depth`.
    """

    lease_seconds: Positive = 15.0
    max_deliveries: PositiveInt = 5
    order: str = DEFAULTS.order
    demoted_every: PositiveInt = DEFAULTS.claim_every
    patience: Annotated[int, Field(ge=0)] = DEFAULTS.claim_patience
    depth: Annotated[int, Field(ge=0, le=200)] = DEFAULTS.claim_depth


class AdmissionSettings(Section):
    """How much of its queue an LLM server may hold: policy and parameters (core/admission.py)."""

    policy: str = DEFAULTS.admission
    parameters: dict[str, float] = Field(default_factory=dict)


class TunerSettings(Section):
    """The tuner of the dispatch weight (docs/scheduling.md). Times in seconds.

    Every `interval_seconds` it replays the last `window_seconds` in the simulator, if at least
    `least_questions` were answered in them, `questions` per candidate with each of `seeds`. A
    prediction that misses by more than `tolerance` (relative) doubles the interval, up to
    `most_backoff` times. `enabled`: whether `hexgen up` starts one.
    """

    enabled: bool = False
    interval_seconds: Positive = 60.0
    window_seconds: Positive = 900.0
    least_questions: Annotated[int, Field(ge=40)] = 100
    questions: PositiveInt = 300
    seeds: PositiveInt = 2
    objective: Literal["p95", "attainment", "goodput"] = "p95"
    tolerance: Positive = 0.3
    most_backoff: PositiveInt = 16


class UpSettings(Section):
    """How many processes `hexgen up` starts on this machine."""

    control_workers: PositiveInt = 1
    sql_workers: PositiveInt = 1
    directory: Path = Path(".hexgen")


class LogSettings(Section):
    """Structured logs to standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "console"] = "console"


class Settings(BaseSettings):
    """The whole configuration."""

    model_config = SettingsConfigDict(
        env_prefix="HEXGEN_",
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
    )

    broker: BrokerSettings = BrokerSettings()
    deadline: DeadlineSettings = DeadlineSettings()
    coordinator: CoordinatorSettings = CoordinatorSettings()
    llm: LlmSettings = LlmSettings()
    pipeline: PipelineSettings = PipelineSettings()
    sql: SqlSettings = SqlSettings()
    router: RouterSettings = RouterSettings()
    queues: QueueSettings = QueueSettings()
    admission: AdmissionSettings = AdmissionSettings()
    workers: WorkerSettings = WorkerSettings()
    emulator: EmulatorSettings = EmulatorSettings()
    tuner: TunerSettings = TunerSettings()
    up: UpSettings = UpSettings()
    log: LogSettings = LogSettings()
    pools: tuple[PoolSettings, ...] = ()
    tenants: tuple[TenantSettings, ...] = ()
    stages_module: str = "stages"
    workflow_modules: tuple[str, ...] = ()

    @field_validator("pools")
    @classmethod
    def _names_are_unique(cls, pools: tuple[PoolSettings, ...]) -> tuple[PoolSettings, ...]:
        names = [instance.name for pool in pools for instance in pool.instances]
        queues = [pool.queue for pool in pools]
        for kind, values in (("instance", names), ("pool", queues)):
            refuse_doubled(kind, values)
        return pools

    @field_validator("tenants")
    @classmethod
    def _tenants_are_unique(cls, tenants: tuple[TenantSettings, ...]) -> tuple[TenantSettings, ...]:
        refuse_doubled("tenant", [tenant.name for tenant in tenants])
        return tenants

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment outranks the file (which comes in as initial values)."""
        return (env_settings, init_settings)

    def instance(self, name: str) -> tuple[PoolSettings, InstanceSettings]:
        """The declared instance `name` and its pool.

        Raises:
            InvalidSettings: no such instance is declared.
        """
        for pool in self.pools:
            for instance in pool.instances:
                if instance.name == name:
                    return pool, instance
        known = ", ".join(i.name for p in self.pools for i in p.instances) or "none"
        raise InvalidSettings(
            f"no instance {name!r} is declared", field="instance", hint=f"declared: {known}"
        )


def load_settings(path: Path | str | None = None) -> Settings:
    """Read the configuration from `path`, else `HEXGEN_CONFIG`, else `hexgen.toml`, else defaults.

    Raises:
        InvalidSettings: the file is missing or unreadable, or a value is unknown or impossible.
    """
    return _validated(_read_toml(_config_path(path)))


def _config_path(path: Path | str | None) -> Path | None:
    named = path or os.environ.get("HEXGEN_CONFIG")
    if named:
        return Path(named)
    default = Path("hexgen.toml")
    return default if default.is_file() else None


def _read_toml(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidSettings(
            f"cannot read the configuration {path}: {error.strerror}",
            field="config",
            hint="give an existing TOML file with --config or HEXGEN_CONFIG",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSettings(
            f"{path} is not valid TOML: {error}", field="config", hint="mend the line it names"
        ) from error


def _validated(values: dict[str, Any]) -> Settings:
    misspelt = misspelt_variable(os.environ, Settings)
    if misspelt is not None:
        raise misspelt
    try:
        return Settings(**values)
    except ValidationError as error:
        raise invalid_settings(error, Settings) from error
    except SettingsError as error:
        raise InvalidSettings(
            f"a setting in the environment cannot be read: {error}",
            hint="write lists and tables as JSON, or put them into the configuration file",
        ) from error
