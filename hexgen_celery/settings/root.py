"""The whole configuration, as one frozen object."""

from __future__ import annotations

from pydantic import ValidationInfo, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from hexgen_celery.errors import InvalidSettings
from hexgen_celery.settings.cluster import EmulatorSettings, InstanceSettings, PoolSettings
from hexgen_celery.settings.questions import (
    DEFAULT_TENANT,
    DeadlineSettings,
    PipelineSettings,
    SqlSettings,
    TenantSettings,
)
from hexgen_celery.settings.scheduling import (
    AdmissionSettings,
    QueueSettings,
    RouterSettings,
    TunerSettings,
)
from hexgen_celery.settings.section import refuse_doubled, refuse_unknown
from hexgen_celery.settings.services import (
    BrokerSettings,
    CoordinatorSettings,
    LlmSettings,
    LogSettings,
    MetricsSettings,
    UpSettings,
    WorkerSettings,
)
from hexgen_celery.settings.store import StoreSettings


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
    tenants: tuple[TenantSettings, ...] = ()
    tuner: TunerSettings = TunerSettings()
    up: UpSettings = UpSettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()
    store: StoreSettings = StoreSettings()
    pools: tuple[PoolSettings, ...] = ()
    stages_module: str = "stages"
    workflow_modules: tuple[str, ...] = ()
    policy_modules: tuple[str, ...] = ()

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

    @field_validator("tuner")
    @classmethod
    def _tuned_tenants_can_ask(cls, tuner: TunerSettings, others: ValidationInfo) -> TunerSettings:
        declared = [tenant.name for tenant in others.data.get("tenants", ())]
        if declared:
            refuse_unknown("tenants", tuner.tenants, [*declared, DEFAULT_TENANT])
        return tuner

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
