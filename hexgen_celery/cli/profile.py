"""`hexgen profile`: measure a live LLM server and write its profile."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from hexgen_celery.cli.context import CliContext, pass_cli
from hexgen_celery.cli.output import console, json_option, print_json, table
from hexgen_celery.core.profiles import Provenance
from hexgen_celery.errors import InvalidSettings, ModelUnavailable
from hexgen_celery.llm import LlmClient
from hexgen_celery.profiling_llm import (
    WORST_FIT,
    Hardware,
    MeasuredProfile,
    MeasuringPlan,
    Prober,
    ServerFacts,
    build_profile,
    measure,
    profile_text,
    read_facts,
)

GIVEN = Provenance("modelled", "given on the command line")
BLOCK_TOKENS = 16


@click.command("profile")
@click.argument("url")
@click.option("--model", help="Model to ask; default: the only one served.")
@click.option("--name", help="Name of the profile; default: gpu-xN-model.")
@click.option("--gpu", default="gpu", show_default=True, help="GPU type behind the server.")
@click.option("--gpus", type=click.IntRange(1), default=1, show_default=True)
@click.option("--kv-tokens", type=click.IntRange(1), help="Where the server does not tell.")
@click.option("--max-model-len", type=click.IntRange(1), help="Where the server does not tell.")
@click.option("--max-sequences", type=click.IntRange(1), help="The server's --max-num-seqs.")
@click.option("--max-batched-tokens", type=click.IntRange(1), help="Its --max-num-batched-tokens.")
@click.option(
    "--seconds", type=click.FloatRange(1), default=180.0, show_default=True, help="Time to take."
)
@click.option(
    "--accept",
    type=click.FloatRange(0.0, min_open=True),
    default=100 * WORST_FIT,
    show_default=True,
    help="Most per cent by which a fit may miss a measured time.",
)
@click.option("--output", type=click.Path(path_type=Path), help="File; default: NAME.toml.")
@json_option
@pass_cli
def profile_command(cli: CliContext, /, url: str, as_json: bool, **options: Any) -> None:
    """Measure the server at URL and write its profile, with the error of every term.

    The server should be idle. A profile that misses one of its own measurements by more than
    `--accept` per cent is refused.
    """
    # A server that is silent for as long as the whole measuring may take is not measured at all.
    silence = min(cli.settings.llm.idle_timeout_seconds, options["seconds"])
    settings = cli.settings.llm.model_copy(update={"idle_timeout_seconds": silence})
    with LlmClient(url, settings) as client:
        model = options["model"] or _only_model(client)
        client.check(model)
        hardware = _hardware(options, model, read_facts(url, model, settings))
        plan = MeasuringPlan(
            max_model_len=hardware.max_model_len,
            kv_tokens=hardware.kv_tokens,
            max_sequences=hardware.max_sequences,
            budget_seconds=options["seconds"],
        )
        server = client.version() or "server of unknown version"
        measurements = measure(Prober(client, model), plan)
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    measured = build_profile(measurements, hardware, today, server, options["accept"] / 100)
    path = options["output"] or Path(f"{hardware.name}.toml")
    path.write_text(profile_text(measured.profile, _comments(measured)), encoding="utf-8")
    _show(measured, path, as_json)


def _only_model(client: LlmClient) -> str:
    served = client.models()
    if len(served) == 1:
        return served[0]
    listed = ", ".join(served) or "none"
    raise ModelUnavailable(
        f"{client.server} serves {len(served)} models: {listed}",
        field="model",
        hint="name one with --model",
    )


def _hardware(options: dict[str, Any], model: str, facts: ServerFacts) -> Hardware:
    kv_tokens, kv_source = _number("kv_tokens", options, facts)
    max_model_len, length_source = _number("max_model_len", options, facts)
    short = model.rpartition("/")[2].lower()
    return Hardware(
        name=options["name"] or f"{options['gpu'].lower()}-x{options['gpus']}-{short}",
        gpu=options["gpu"],
        gpus=options["gpus"],
        model=model,
        kv_tokens=kv_tokens,
        kv_source=kv_source,
        max_model_len=max_model_len,
        max_model_len_source=length_source,
        block_tokens=facts.block_tokens or BLOCK_TOKENS,
        **_limits(options),
    )


def _limits(options: dict[str, Any]) -> dict[str, Any]:
    """The limits that were given; the others keep vLLM's defaults."""
    limits: dict[str, Any] = {}
    for name in ("max_sequences", "max_batched_tokens"):
        if options[name] is not None:
            limits |= {name: options[name], f"{name}_source": GIVEN}
    return limits


def _number(name: str, options: dict[str, Any], facts: ServerFacts) -> tuple[int, Provenance]:
    told, given = getattr(facts, name), options[name]
    if given is not None:
        return given, GIVEN
    if told is not None:
        return told, Provenance("measured", "as the server itself reports it")
    option = f"--{name.replace('_', '-')}"
    raise InvalidSettings(
        f"the server does not tell its {name}", field=name, hint=f"give it with {option}"
    )


def _comments(measured: MeasuredProfile) -> list[str]:
    cache = measured.measurements.cache
    lines = [f"{measured.profile.name}: measured by `hexgen profile` on a live server."]
    if cache is not None:
        lines.append(
            f"Prefix cache: {cache.cached_tokens} of {cache.input_tokens} tokens of a repeated "
            f"prompt; first token after {cache.cold_seconds:.3f} s, "
            f"then {cache.warm_seconds:.3f} s."
        )
    return lines


def _show(measured: MeasuredProfile, path: Path, as_json: bool) -> None:
    if as_json:
        print_json({**measured.to_json(), "file": str(path)})
        return
    rows = [
        (name, getattr(measured.profile, name), f"{error:.1%}")
        for name, error in measured.errors.items()
    ]
    console.print(table("", ("term", "value", "error"), rows))
    fits = (("prefill", measured.prefill), ("decode", measured.decode))
    for what, fit in fits:
        console.print(f"{what}: fit error {fit.mean_error:.1%}, worst {fit.worst_error:.1%}")
    for line in _comments(measured)[1:]:
        console.print(line)
    console.print(f"{path} written after {measured.measurements.seconds:.0f} s")
