"""The workflows a deployment knows, built once per process.

Stages and further workflows are named in the settings and imported here by name, so that the
package does not depend on what is written for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from hexgen_celery.errors import InvalidSettings
from hexgen_celery.named_modules import import_named
from hexgen_celery.settings import Settings
from hexgen_celery.workflows.agreement import learnt_agreement
from hexgen_celery.workflows.chat import Chat
from hexgen_celery.workflows.definition import Definition
from hexgen_celery.workflows.output_lengths import OutputLengths, TabledLengths
from hexgen_celery.workflows.request_writer import RequestWriter
from hexgen_celery.workflows.schema_text import SchemaSource
from hexgen_celery.workflows.stage_contract import Stages
from hexgen_celery.workflows.text_to_sql import TextToSql
from hexgen_celery.workflows.tokens import RatioCounter, TokenCounter
from hexgen_celery.workflows.trace import Trace

STAGES_BUILDER = "build_stages"
WORKFLOWS_BUILDER = "build_workflows"


@dataclass(frozen=True, slots=True)
class Tools:
    """What a workflow can be built with."""

    settings: Settings
    schemas: SchemaSource
    writer: RequestWriter
    lengths: OutputLengths


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
        InvalidSettings: a module that the settings name cannot be imported or builds nothing, or
            two workflows have one name.
    """
    lengths = lengths or TabledLengths()
    tools = Tools(settings, schemas, RequestWriter(counter or RatioCounter(), lengths), lengths)
    definitions: dict[str, Definition] = {}
    for definition in (*_shipped(tools), *_further(tools)):
        if definition.name in definitions:
            raise InvalidSettings(
                f"two workflows are called {definition.name!r}",
                field="workflow_modules",
                hint="give the one in your module another name",
            )
        definitions[definition.name] = definition
    return definitions


def load_stages(module_name: str) -> Stages:
    """The stages that the module `module_name` builds.

    Raises:
        InvalidSettings: the module cannot be imported or has no `build_stages`.
    """
    stages: Stages = _builder(module_name, STAGES_BUILDER, "stages_module")()
    return stages


def _shipped(tools: Tools) -> Iterable[Definition]:
    stages = load_stages(tools.settings.stages_module)
    pipeline = tools.settings.pipeline
    agreement = learnt_agreement().of_all(pool.model for pool in tools.settings.pools)
    return (
        TextToSql(stages, tools.schemas, pipeline, tools.writer, agreement),
        Trace(tools.lengths),
        Chat(tools.writer, pipeline),
    )


def _further(tools: Tools) -> Iterable[Definition]:
    for name in tools.settings.workflow_modules:
        yield from _builder(name, WORKFLOWS_BUILDER, "workflow_modules")(tools)


def _builder(module_name: str, function: str, field: str) -> Callable[..., Any]:
    hint = "name a module that can be imported; the shipped stages are in 'stages'"
    module = import_named(module_name, field, hint)
    builder: Callable[..., Any] | None = getattr(module, function, None)
    if builder is None:
        raise InvalidSettings(
            f"{field}: {module_name!r} has no function {function}",
            field=field,
            hint=f"define {function} in it; docs/writing-a-workflow.md shows how",
        )
    return builder
