"""The workflows a deployment knows, built once per process."""

from __future__ import annotations

import importlib

from hexgen_celery.errors import InvalidSettings
from hexgen_celery.settings import Settings
from hexgen_celery.workflows.chat import Chat
from hexgen_celery.workflows.definition import Definition
from hexgen_celery.workflows.output_lengths import OutputLengths, TabledLengths
from hexgen_celery.workflows.request_writer import RequestWriter
from hexgen_celery.workflows.schema_text import SchemaSource
from hexgen_celery.workflows.stage_contract import Stages
from hexgen_celery.workflows.text_to_sql import TextToSql
from hexgen_celery.workflows.tokens import RatioCounter, TokenCounter
from hexgen_celery.workflows.trace import Trace

BUILDER = "build_stages"


def load_definitions(
    settings: Settings,
    schemas: SchemaSource,
    *,
    counter: TokenCounter | None = None,
    lengths: OutputLengths | None = None,
) -> dict[str, Definition]:
    """Every workflow by its name.

    `counter` says how long prompts are and `lengths` how long answers are expected to be; without
    them a fixed ratio and a table are used.

    Raises:
        InvalidSettings: `stages_module` cannot be imported or builds no stages.
    """
    lengths = lengths or TabledLengths()
    writer = RequestWriter(counter or RatioCounter(), lengths)
    stages = load_stages(settings.stages_module)
    definitions: tuple[Definition, ...] = (
        TextToSql(stages, schemas, settings.pipeline, writer),
        Trace(lengths),
        Chat(writer, settings.pipeline),
    )
    return {definition.name: definition for definition in definitions}


def load_stages(module_name: str) -> Stages:
    """The stages that the module `module_name` builds.

    They are named in the settings and not imported here, so that the package does not depend on
    the stages written for it.

    Raises:
        InvalidSettings: the module cannot be imported or has no `build_stages`.
    """
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise InvalidSettings(
            f"stages_module {module_name!r} cannot be imported: {error}",
            field="stages_module",
            hint="name an importable module; the shipped one is 'stages'",
        ) from error
    builder = getattr(module, BUILDER, None)
    if not callable(builder):
        raise InvalidSettings(
            f"stages_module {module_name!r} has no function {BUILDER}",
            field="stages_module",
            hint=f"define {BUILDER}() in it, returning the four stages",
        )
    stages: Stages = builder()
    return stages
