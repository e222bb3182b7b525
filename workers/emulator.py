"""`python -m workers.emulator`: one emulated LLM server, with a profile's timing and no GPU."""

from __future__ import annotations

import socket
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import click
import structlog
from aiohttp import web

from hexgen_celery.core.profiles import Profile
from hexgen_celery.errors import HexgenError, InvalidSettings
from hexgen_celery.logs import configure_logs
from hexgen_celery.profiles_io import load_profile
from hexgen_celery.settings import LogSettings
from workers.emulation.answers import AnswerPlanner
from workers.emulation.faults import FaultInjector, FaultPlan
from workers.emulation.replay import ReplayStore
from workers.emulation.server import EmulatedServer, ServerOptions
from workers.emulation.timing import ConstantTiming, EngineTiming

CONSTANT_MAX_MODEL_LEN = 131_072
SHUTDOWN_SECONDS = 1.0
BACKLOG = 1024
PRIORITY = "priority"
POLICIES = (PRIORITY, "fcfs")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EmulatorOptions:
    """The command line. `constant_seconds` replaces the profile's timing."""

    model: str
    profile: str | None = None
    constant_seconds: float | None = None
    speed: float = 1.0
    replay: tuple[Path, ...] = ()
    max_model_len: int | None = None
    chunk_seconds: float = 0.1
    scheduling_policy: str = PRIORITY
    filler_tokens: int = 64
    faults: FaultPlan = field(default_factory=FaultPlan)


def build_server(options: EmulatorOptions) -> EmulatedServer:
    """The server for `options`; call it on the event loop that will run it.

    Raises:
        InvalidProfile: the profile is missing or impossible.
        InvalidSettings: neither profile nor constant time is given, or the replay is unreadable.
    """
    profile = _profile(options)
    timing = (
        ConstantTiming(options.constant_seconds or 0.0)
        if profile is None
        else EngineTiming(profile, options.speed)
    )
    limit = profile.max_model_len if profile else options.max_model_len or CONSTANT_MAX_MODEL_LEN
    replay = ReplayStore.load(options.replay)
    planner = AnswerPlanner(replay, max_model_len=limit, filler_tokens=options.filler_tokens)
    takes_priority = options.scheduling_policy == PRIORITY
    about = ServerOptions(
        options.model, limit, options.chunk_seconds, takes_priority=takes_priority
    )
    if profile:
        about = replace(about, block_tokens=profile.block_tokens)
    return EmulatedServer(about, planner, timing, FaultInjector(options.faults))


def _profile(options: EmulatorOptions) -> Profile | None:
    if options.constant_seconds is not None:
        return None
    if options.profile is None:
        raise InvalidSettings(
            "an emulated instance needs a pace",
            field="profile",
            hint="give --profile NAME, or --constant-seconds X for a server without a GPU's timing",
        )
    profile = load_profile(options.profile)
    limit = min(options.max_model_len or profile.max_model_len, profile.max_model_len)
    return replace(profile, max_model_len=limit)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; `port` 0 takes a free one.

    Raises:
        InvalidSettings: the address cannot be had.
    """
    try:
        return socket.create_server((host, port), backlog=BACKLOG)
    except OSError as error:
        raise InvalidSettings(
            f"cannot listen on {host}:{port}: {error.strerror}",
            field="port",
            hint="stop the program that holds it, or choose another port (0 takes a free one)",
        ) from error


def serve(options: EmulatorOptions, listener: socket.socket) -> None:
    """Serve on `listener` until SIGINT or SIGTERM."""

    async def application() -> web.Application:
        return build_server(options).app()

    web.run_app(
        application(),
        sock=listener,
        handler_cancellation=True,
        shutdown_timeout=SHUTDOWN_SECONDS,
        access_log=None,
        print=None,
    )


@click.command()
@click.option("--model", required=True, help="The model name it serves.")
@click.option("--profile", help="Speed: a shipped profile's name or a TOML file.")
@click.option("--constant-seconds", type=click.FloatRange(0), help="Answer after X s instead.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--speed", default=1.0, type=click.FloatRange(0, min_open=True), help="× real time.")
@click.option("--replay", multiple=True, type=click.Path(path_type=Path), help="Recorded answers.")
@click.option("--max-model-len", type=click.IntRange(1), help="Shorten the profile's context.")
@click.option("--chunk-seconds", default=0.1, type=click.FloatRange(0.001), show_default=True)
@click.option("--scheduling-policy", default=PRIORITY, type=click.Choice(POLICIES), help="vLLM's.")
@click.option("--filler-tokens", default=64, type=click.IntRange(1), show_default=True)
@click.option("--fail-rate", default=0.0, type=click.FloatRange(0, 1), help="Share that fails.")
@click.option("--fail-status", default=503, type=click.IntRange(400, 599), show_default=True)
@click.option("--retry-after", type=click.FloatRange(0), help="Retry-After of failures.")
@click.option("--cut-rate", default=0.0, type=click.FloatRange(0, 1), help="Share cut off.")
@click.option("--fault-seed", default=0, show_default=True)
def main(
    model: str,
    profile: str | None,
    constant_seconds: float | None,
    host: str,
    port: int,
    speed: float,
    replay: tuple[Path, ...],
    max_model_len: int | None,
    chunk_seconds: float,
    scheduling_policy: str,
    filler_tokens: int,
    fail_rate: float,
    fail_status: int,
    retry_after: float | None,
    cut_rate: float,
    fault_seed: int,
) -> None:
    """Serve MODEL as an emulated instance: OpenAI's API, a profile's timing, no GPU.

    The first line on standard output is the server's URL.
    """
    faults = FaultPlan(fail_rate, fail_status, retry_after, cut_rate, fault_seed)
    options = EmulatorOptions(
        model=model,
        profile=profile,
        constant_seconds=constant_seconds,
        speed=speed,
        replay=replay,
        max_model_len=max_model_len,
        chunk_seconds=chunk_seconds,
        scheduling_policy=scheduling_policy,
        filler_tokens=filler_tokens,
        faults=faults,
    )
    configure_logs(LogSettings())
    try:
        _run(options, host, port)
    except HexgenError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)


def _run(options: EmulatorOptions, host: str, port: int) -> None:
    _profile(options)
    listener = listen(host, port)
    url = f"http://{host}:{listener.getsockname()[1]}"
    log.info("emulator.listening", url=url, model=options.model, profile=options.profile)
    click.echo(url)
    serve(options, listener)


if __name__ == "__main__":
    main()
