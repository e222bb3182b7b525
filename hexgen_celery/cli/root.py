"""The command group. A command's module is imported only when that command runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from hexgen_celery.cli.context import CliContext
from hexgen_celery.cli.imports import import_quickly
from hexgen_celery.cli.interrupt import Interrupt
from hexgen_celery.cli.log_lines import to_standard_error


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a command lives (`module:attribute`) and its line in the overview."""

    place: str
    summary: str

    def load(self) -> click.Command:
        """Import and return the command."""
        module, _, attribute = self.place.partition(":")
        with Interrupt(raising=True) as interrupt:
            command = getattr(import_quickly(module), attribute)
            interrupt.check()
        to_standard_error()
        if not isinstance(command, click.Command):
            raise TypeError(f"{self.place} is not a command")
        return command


COMMANDS = {
    "up": LazyCommand(
        "hexgen_celery.cli.up:up_command", "Run a whole cluster on this machine from one TOML file."
    ),
    "down": LazyCommand("hexgen_celery.cli.up:down_command", "Stop the cluster that `up` started."),
    "demo": LazyCommand(
        "hexgen_celery.cli.demo:demo_command", "Answer demo questions and report on deadlines."
    ),
    "ask": LazyCommand("hexgen_celery.cli.ask:ask_command", "Ask one question over a database."),
    "batch": LazyCommand(
        "hexgen_celery.cli.ask:batch_command", "Ask every question of a JSON-lines file."
    ),
    "status": LazyCommand(
        "hexgen_celery.cli.watch:status_command", "Show running questions, or one of them."
    ),
    "trace": LazyCommand(
        "hexgen_celery.cli.trace:trace_command", "Show what happened to a question; export many."
    ),
    "store": LazyCommand(
        "hexgen_celery.cli.store:store_group", "Migrate, inspect and prune the store."
    ),
    "cancel": LazyCommand("hexgen_celery.cli.watch:cancel_command", "Stop work on a question."),
    "top": LazyCommand(
        "hexgen_celery.cli.top:top_command", "Watch instances, queues and questions at risk."
    ),
    "queues": LazyCommand(
        "hexgen_celery.cli.queues:queues_group", "Show queues, what is urgent, and dead letters."
    ),
    "instances": LazyCommand(
        "hexgen_celery.cli.instances:instances_group", "Show LLM instances; drain and resume them."
    ),
    "policy": LazyCommand(
        "hexgen_celery.cli.instances:policy_group", "Show or change the dispatch policy in force."
    ),
    "db": LazyCommand("hexgen_celery.cli.database:db_group", "Register and show databases."),
    "prompts": LazyCommand(
        "hexgen_celery.cli.prompts:prompts_group", "Show the prompts that questions become."
    ),
    "worker": LazyCommand(
        "hexgen_celery.cli.worker:worker_group", "Run one worker: llm, sql, control or emulate."
    ),
    "vllm": LazyCommand(
        "hexgen_celery.cli.vllm:vllm_group", "Serve an instance with a vLLM server of one's own."
    ),
    "flower": LazyCommand(
        "hexgen_celery.cli.worker:flower_command", "Run Flower, the web page on tasks and workers."
    ),
    "doctor": LazyCommand(
        "hexgen_celery.cli.doctor:doctor_command", "Check everything that a question needs."
    ),
    "bird": LazyCommand(
        "hexgen_celery.cli.bird:bird_group", "Run the questions of a BIRD directory."
    ),
    "spider": LazyCommand(
        "hexgen_celery.cli.spider:spider_group", "Run the questions of a Spider directory."
    ),
    "simulate": LazyCommand(
        "hexgen_celery.cli.simulate:simulate_command", "Simulate a workload in virtual time."
    ),
    "bench": LazyCommand(
        "hexgen_celery.cli.bench_policies:bench_group", "Compare scheduling policies."
    ),
    "plan": LazyCommand(
        "hexgen_celery.cli.plan:plan_command", "Find the cheapest cluster for a load and an SLO."
    ),
    "profile": LazyCommand(
        "hexgen_celery.cli.profile:profile_command", "Measure a live LLM server into a profile."
    ),
    "tune": LazyCommand("hexgen_celery.cli.tune:tune_command", "Tune the dispatch weight α."),
}


class NoSuchCommand(click.UsageError):
    """Raised for a command that there is not."""

    def __init__(self, name: str, context: click.Context) -> None:
        import difflib

        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        super().__init__(f"No such command {name!r}.{hint}", context)


class LazyGroup(click.Group):
    """A group whose overview needs no command's module."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        lazy = COMMANDS.get(cmd_name)
        return lazy.load() if lazy else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that `args` begin with; one that there is not is answered by the nearest."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            raise NoSuchCommand(args[0], ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; that the reader of its output has read enough is no failure."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            from hexgen_celery.cli.output import discard_output

            discard_output()
            return 0

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.summary) for name, lazy in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="TOML file of settings (default: $HEXGEN_CONFIG, else hexgen.toml where it exists).",
)
@click.version_option(package_name="hexgen-celery", prog_name="hexgen")
@click.pass_context
def hexgen(context: click.Context, config: Path | None) -> None:
    """Answers to natural-language questions over SQLite databases, each before its deadline."""
    context.obj = CliContext(config)
