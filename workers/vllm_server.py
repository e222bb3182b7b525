"""`python -m workers.vllm_server INSTANCE`: one vLLM server, kept running and known to work.

It is ready when it has completed a request; `/health` alone promises nothing. It is started again
when it dies, or answers nothing for a while, on the same port. A server that cannot even start is
not tried for ever: the error then quotes its log.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import click
import structlog

from hexgen_celery.core.clock import Clock, SteadyClock
from hexgen_celery.errors import HexgenError
from hexgen_celery.llm import CancelToken, LlmClient
from hexgen_celery.llm.endpoint import authorization
from hexgen_celery.logs import configure_logs
from hexgen_celery.profiles_io import load_profile
from hexgen_celery.settings import (
    InstanceSettings,
    LlmSettings,
    Settings,
    load_settings,
)
from workers.group_guard import GroupGuard
from workers.log_rotation import RotatedLog
from workers.managed_process import USER_ERROR, ManagedProcess, ProcessSpec, RestartPolicy
from workers.readiness import is_healthy
from workers.server_probe import InstanceRefused, ServerProbe
from workers.vllm_command import (
    VllmCommand,
    context_of,
    model_of,
    tensor_parallel_of,
    vllm_command,
)
from workers.vllm_diagnosis import ending, hint_for, quoted
from workers.vllm_preflight import check_model, check_port, find_program

OURS = "HEXGEN_"
BEARER = "Bearer "
DIAGNOSED_LINES = 60
RESTARTS = RestartPolicy(first_seconds=1.0, longest_seconds=60.0, settled_seconds=300.0)

log = structlog.get_logger(__name__)


class VllmNotStarted(HexgenError):
    """Raised when a vLLM server dies or stays silent before it has ever completed a request; the
    message quotes the end of its log."""

    code = "vllm_not_started"


@dataclass(frozen=True, slots=True)
class Patience:
    """When to look and when to give up. Times in seconds.

    `starts`: so many deaths in a row before the first completed request end it all. A server that
    answered, but not for `silent_seconds`, is killed and started again.
    """

    ready_seconds: float = 900.0
    starts: int = 2
    silent_seconds: float = 60.0
    look_seconds: float = 0.5
    probe_seconds: float = 60.0
    restart: RestartPolicy = RESTARTS


class VllmServer:
    """Runs one server until told to stop. `probe` completes a request, or raises HexgenError."""

    def __init__(
        self,
        spec: ProcessSpec,
        url: str,
        log_file: RotatedLog,
        probe: Callable[[CancelToken], None],
        patience: Patience,
        clock: Clock,
    ) -> None:
        self.url = url
        self._log = log_file
        self._probe = probe
        self._patience = patience
        self._clock = clock
        self._process = ManagedProcess(spec, log_file.path, clock, patience.restart)
        self._stop = threading.Event()
        self._stopping = CancelToken()
        self._was_ready = False
        self._ready = False
        self._pid: int | None = None
        self._answered_at = 0.0

    @property
    def ready(self) -> bool:
        """Whether the present server has completed a request."""
        return self._ready

    @property
    def pid(self) -> int | None:
        """The process id of vLLM while it runs."""
        return self._process.pid

    def stop(self) -> None:
        """Ask `run` to end, from any thread. It takes locks: a signal handler needs a thread."""
        self._stop.set()
        self._stopping.set("the server is to stop")

    def run(self, on_ready: Callable[[], object] = lambda: None) -> None:
        """Keep the server running until `stop`; `on_ready` is called each time it becomes ready.

        Raises:
            VllmNotStarted: it does not come up for the first time.
            InstanceRefused: it serves something else than its pool says.
        """
        self._log.rotate()
        with GroupGuard() as guard:
            self._process.start()
            try:
                self._notice_start(guard)
                while not self._stop.wait(self._patience.look_seconds):
                    self._log.tend()
                    self._process.poll()
                    self._notice_start(guard)
                    self._tend(on_ready)
            finally:
                self._process.ask_to_stop()
                self._process.end(self._process.spec.stop_seconds)
                log.info("vllm ended", url=self.url)

    def _notice_start(self, guard: GroupGuard) -> None:
        pid = self._process.pid
        if pid is not None and pid != self._pid:
            guard.watch(pid)
            self._pid, self._ready, self._answered_at = pid, False, self._clock.now()

    def _tend(self, on_ready: Callable[[], object]) -> None:
        if self._process.pid is None:
            self._ready = False
            self._give_up_on_early_deaths()
        elif self._ready:
            self._watch()
        elif self._completes_a_request():
            self._become_ready(on_ready)
        else:
            self._give_up_on_silence()

    def _watch(self) -> None:
        """Kill a server that has fallen silent; a busy one still answers `/health`."""
        if is_healthy(self.url):
            self._answered_at = self._clock.now()
        elif self._clock.now() - self._answered_at >= self._patience.silent_seconds:
            log.error("vllm is silent and is started again", url=self.url)
            self._process.kill()

    def _completes_a_request(self) -> bool:
        if not is_healthy(self.url):
            return False
        try:
            self._probe(self._stopping)
        except InstanceRefused:
            raise
        except HexgenError as error:
            log.info("vllm cannot serve yet", why=str(error))
            return False
        return True

    def _become_ready(self, on_ready: Callable[[], object]) -> None:
        seconds = self._clock.now() - self._answered_at
        self._ready = self._was_ready = True
        self._answered_at = self._clock.now()
        log.info("vllm ready", url=self.url, pid=self._pid, seconds=round(seconds, 1))
        on_ready()

    def _give_up_on_silence(self) -> None:
        if self._clock.now() - self._answered_at < self._patience.ready_seconds:
            return
        if not self._was_ready:
            raise self._not_started(f"not ready after {self._patience.ready_seconds:g} s", None)
        log.error("vllm does not become ready again", url=self.url)
        self._process.kill()

    def _give_up_on_early_deaths(self) -> None:
        deaths = self._process.deaths_in_a_row
        if not self._was_ready and deaths >= self._patience.starts:
            code = self._process.exit_code
            raise self._not_started(f"{ending(code)}, {deaths} times in a row", code)

    def _not_started(self, what: str, code: int | None) -> VllmNotStarted:
        lines = self._process.last_lines(DIAGNOSED_LINES)
        return VllmNotStarted(
            f"vLLM {what}; the end of {self._log.path}: {quoted(lines)}",
            hint=hint_for(lines, code),
        )


def serve(settings: Settings, name: str) -> None:
    """Run the vLLM server of instance `name` until SIGINT or SIGTERM; its URL goes to stdout.

    Raises:
        InvalidSettings: no such instance, or its settings are impossible.
        MissingPrerequisite: vLLM or the model is not there.
        VllmNotStarted: it did not come up.
    """
    pool, instance = settings.instance(name)
    command = checked_command(settings, name)
    check_port(instance.serving.host, instance.listening_port)
    url = instance.url or f"http://127.0.0.1:{instance.listening_port}"
    logs = settings.up.directory / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    patience = Patience(ready_seconds=instance.serving.ready_seconds)
    impatient = _impatient(settings.llm, patience.probe_seconds)
    with LlmClient(url, impatient) as client:
        server = VllmServer(
            _spec(instance, command),
            url,
            RotatedLog(logs / f"vllm-{name}.log"),
            ServerProbe(client, pool.model, pool.max_model_len).probe,
            patience,
            SteadyClock(),
        )
        _on_signal(server.stop)
        log.info("vllm starts", instance=name, command=command.shown())
        server.run(on_ready=lambda: click.echo(url))


def checked_command(settings: Settings, name: str) -> VllmCommand:
    """The command of instance `name`, whose program and model are there.

    Raises:
        InvalidSettings: its settings contradict each other or the model.
        MissingPrerequisite: vLLM or the model is not there.
    """
    command = declared_command(settings, name)
    pool, instance = settings.instance(name)
    program = find_program(instance.serving.executable)
    profile = load_profile(pool.profile)
    check_model(
        model_of(pool, instance),
        context_of(pool, profile),
        tensor_parallel_of(instance.serving, profile),
    )
    return replace(command, arguments=(program, *command.arguments[1:]))


def declared_command(settings: Settings, name: str) -> VllmCommand:
    """The command of instance `name` as it is declared, whatever this machine has.

    Raises:
        InvalidSettings: no such instance, or its settings contradict each other.
    """
    pool, instance = settings.instance(name)
    return vllm_command(pool, instance, load_profile(pool.profile), _api_key(settings.llm))


def _on_signal(stop: Callable[[], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: threading.Thread(target=stop, name="stopping").start())


def _spec(instance: InstanceSettings, command: VllmCommand) -> ProcessSpec:
    """The server sees no variable of ours: they hold the broker's password."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return ProcessSpec(
        f"vllm-{instance.name}",
        command.arguments,
        {**inherited, **command.environment},
        stop_seconds=instance.serving.stop_seconds,
    )


def _api_key(settings: LlmSettings) -> str:
    return authorization(settings).get("Authorization", "").removeprefix(BEARER)


def _impatient(settings: LlmSettings, seconds: float) -> LlmSettings:
    patience = min(settings.idle_timeout_seconds, seconds)
    return settings.model_copy(update={"idle_timeout_seconds": patience, "retries": 0})


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve the instance that the command line names, or show with which command."""
    parser = argparse.ArgumentParser(prog="python -m workers.vllm_server", description=__doc__)
    parser.add_argument("instance", help="name of a declared instance")
    parser.add_argument("--dry-run", action="store_true", help="print the command only")
    options = parser.parse_args(arguments)
    try:
        settings = load_settings()
        configure_logs(settings.log, process=f"vllm-{options.instance}")
        if options.dry_run:
            click.echo(declared_command(settings, options.instance).shown())
        else:
            serve(settings, options.instance)
    except HexgenError as error:
        sys.stderr.write(f"error: {error}\n")
        return USER_ERROR
    return 0


if __name__ == "__main__":
    sys.exit(main())
