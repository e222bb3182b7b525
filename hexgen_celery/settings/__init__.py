"""The one configuration of the system: a TOML file, overridden by the environment.

`HEXGEN_CONFIG` names the file (default `hexgen.toml` where it exists). Every value can be set as
`HEXGEN_<SECTION>__<NAME>`, for example `HEXGEN_BROKER__URL`. Unknown names are refused.
"""

from __future__ import annotations

from hexgen_celery.settings.cluster import EmulatorSettings, InstanceSettings, PoolSettings
from hexgen_celery.settings.loading import load_settings
from hexgen_celery.settings.questions import (
    DEFAULT_TENANT,
    DeadlineSettings,
    PipelineSettings,
    SloClassSettings,
    SqlSettings,
    TenantSettings,
)
from hexgen_celery.settings.root import Settings
from hexgen_celery.settings.scheduling import (
    AdmissionSettings,
    QueueSettings,
    RouterSettings,
    TunerSettings,
)
from hexgen_celery.settings.section import Section
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
from hexgen_celery.settings.vllm import VllmSettings

__all__ = [
    "DEFAULT_TENANT",
    "AdmissionSettings",
    "BrokerSettings",
    "CoordinatorSettings",
    "DeadlineSettings",
    "EmulatorSettings",
    "InstanceSettings",
    "LlmSettings",
    "LogSettings",
    "MetricsSettings",
    "PipelineSettings",
    "PoolSettings",
    "QueueSettings",
    "RouterSettings",
    "Section",
    "Settings",
    "SloClassSettings",
    "SqlSettings",
    "StoreSettings",
    "TenantSettings",
    "TunerSettings",
    "UpSettings",
    "VllmSettings",
    "WorkerSettings",
    "load_settings",
]
