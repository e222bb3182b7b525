"""`python -m workers.supervisor`: the whole cluster of one configuration on this machine.

Starts the embedded Redis, emulated servers and all workers, keeps them running, and stops them on
SIGINT or SIGTERM. It says through `cluster.json` in `up.directory` what runs and when it is ready.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import redis
import structlog
from pydantic import SecretStr

from hexgen_celery.cluster import (
    EMBEDDED,
    ClusterState,
    forget_cluster,
    only_supervisor,
    write_cluster,
)
from hexgen_celery.core.clock import SteadyClock
from hexgen_celery.errors import HexgenError, InvalidSettings
from hexgen_celery.keys import Keys
from hexgen_celery.logs import configure_logs
from hexgen_celery.profiles_io import load_profile
from hexgen_celery.redis_client import connect, connect_binary
from hexgen_celery.settings import Settings, load_settings
from hexgen_celery.upkeep.dead_processes import end_leases_of
from workers.cluster_plan import ClusterPlan, place_instances, plan_cluster
from workers.embedded_redis import EmbeddedRedis, free_port
from workers.log_rotation import RotatedLog
from workers.managed_process import ManagedProcess
from workers.readiness import wait_until_ready
from workers.vllm_command import refuse_contradictions

logger = structlog.get_logger(__name__)

_POLL_SECONDS = 0.2
_PR_SET_PDEATHSIG = 1
_DEATHS_WHILE_STARTING = 3
_QUOTED_LINES = 3


class ProcessKeepsDying(HexgenError):
    """Raised when a process of the cluster dies again and again before the cluster is ready; the
    message quotes the end of its log."""

    code = "process_keeps_dying"


class Supervisor:
    """Runs one configuration until told to stop."""

    def __init__(self, settings: Settings, config: Path | None = None) -> None:
        self.settings = settings
        self.config = config
        self.directory = settings.up.directory.absolute()
        self._stop = threading.Event()
        self._processes: list[ManagedProcess] = []
        self._logs: list[RotatedLog] = []
        self._redis: EmbeddedRedis | None = None
        self._end_leases: Callable[[int], object] = _nothing

    def stop(self) -> None:
        """Ask `run` to end; safe from a signal handler and from other threads."""
        self._stop.set()

    def run(self) -> None:
        """Start everything, keep it running until `stop`, end everything.

        Raises:
            HexgenError: a cluster already runs in this directory, or something did not start.
        """
        check_pools(self.settings)
        with only_supervisor(self.directory) as alone:
            if not alone:
                raise self._second_cluster()
            try:
                with self._broker() as url:
                    self._run_on(url)
            finally:
                forget_cluster(self.directory)

    def _run_on(self, broker_url: str) -> None:
        settings = place_instances(_with_broker(self.settings, broker_url), free_port)
        self._end_leases = partial(_end_leases_of, settings)
        plan = plan_cluster(settings, os.environ, self.config)
        state = self._state(settings, plan)
        write_cluster(self.directory, state)
        try:
            self._start(plan)
            if wait_until_ready(settings, plan, self._tend_or_fail):
                write_cluster(self.directory, state.model_copy(update={"ready": True}))
                logger.info("cluster ready", instances=len(plan.instances))
            while self._tend():
                pass
        finally:
            self._end(len(plan.servers))

    def _second_cluster(self) -> InvalidSettings:
        return InvalidSettings(
            f"a cluster already runs in {self.directory}",
            field="up.directory",
            hint="stop it with `hexgen down`, or choose another HEXGEN_UP__DIRECTORY",
        )

    @contextlib.contextmanager
    def _broker(self) -> Iterator[str]:
        url = self.settings.broker.url.get_secret_value()
        if url != EMBEDDED:
            connect(self.settings).close()
            yield url
            return
        with EmbeddedRedis(self.directory / "redis") as self._redis:
            yield self._redis.url

    def _state(self, settings: Settings, plan: ClusterPlan) -> ClusterState:
        return ClusterState(
            pid=os.getpid(),
            broker_url=settings.broker.url,
            prefix=settings.broker.prefix,
            started_at=time.time(),
            config=self.config.absolute() if self.config else None,
            instances=plan.instances,
        )

    def _start(self, plan: ClusterPlan) -> None:
        logs = self.directory / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        for spec in plan.processes:
            log = RotatedLog(logs / f"{spec.name}.log")
            log.rotate()
            self._logs.append(log)
            process = ManagedProcess(spec, log.path, SteadyClock())
            process.start()
            self._processes.append(process)

    def _tend(self) -> bool:
        """Look after the processes for a moment; False once asked to stop."""
        if self._redis is not None and not self._redis.is_running():
            logger.warning("the embedded Redis died", log=str(self._redis.log_path))
            self._redis.start()
        for process in self._processes:
            dead = process.poll()
            if dead is not None:
                # A Redis that does not answer must not keep anything from being started again.
                threading.Thread(target=self._end_leases, args=(dead,), daemon=True).start()
        for log in self._logs:
            log.tend()
        return not self._stop.wait(_POLL_SECONDS)

    def _tend_or_fail(self) -> bool:
        """Like `_tend`, while starting: a needed process that cannot start ends it all.

        Raises:
            InvalidSettings: a process refuses its configuration.
            ProcessKeepsDying: one died so often that waiting for it is in vain.
        """
        for process in (each for each in self._processes if each.spec.needed):
            complaint = process.complaint()
            if complaint is not None:
                raise InvalidSettings(f"{process.spec.name}: {complaint}")
            if process.deaths_in_a_row >= _DEATHS_WHILE_STARTING:
                raise _keeps_dying(process)
        return self._tend()

    def _end(self, servers: int) -> None:
        """Stop the workers, then the servers they talk to."""
        logger.info("stopping")
        for group in (self._processes[servers:], self._processes[:servers]):
            patience = max((process.spec.stop_seconds for process in group), default=0.0)
            until = time.monotonic() + patience
            for process in group:
                process.ask_to_stop()
            for process in group:
                process.end(until - time.monotonic())


def _nothing(_pid: int) -> None:
    """Before anything runs nobody holds a lease."""


def _end_leases_of(settings: Settings, pid: int) -> None:
    """Best effort: leases that cannot be ended now end by themselves."""
    try:
        with connect(settings) as client, connect_binary(settings) as binary:
            end_leases_of(pid, client, binary, Keys(settings.broker.prefix), settings)
    except (HexgenError, redis.RedisError) as error:
        logger.warning("leases are left to end by themselves", pid=pid, error=str(error))


def _keeps_dying(process: ManagedProcess) -> ProcessKeepsDying:
    lines = process.last_lines(_QUOTED_LINES)
    quoted = " | ".join(line.strip() for line in lines) or "(nothing)"
    return ProcessKeepsDying(
        f"{process.spec.name} died {process.deaths_in_a_row} times while starting; "
        f"its last log lines: {quoted}"
    )


def check_pools(settings: Settings) -> None:
    """Find what would keep every request from being served, before anything starts.

    Raises:
        InvalidSettings: no pool is declared, or what one says of a vLLM server is impossible.
        InvalidProfile: a pool's profile is missing or impossible.
    """
    if not settings.pools:
        raise InvalidSettings(
            "no pool is declared, so nobody can answer",
            field="pools",
            hint="declare [[pools]] with [[pools.instances]]; see docs/configuration.md",
        )
    for pool in settings.pools:
        profile = load_profile(pool.profile)
        for instance in pool.instances:
            if instance.engine == "vllm":
                refuse_contradictions(pool, instance, profile)


def _with_broker(settings: Settings, url: str) -> Settings:
    broker = settings.broker.model_copy(update={"url": SecretStr(url)})
    return settings.model_copy(update={"broker": broker})


def _end_with(parent: int) -> None:
    """Take SIGTERM from the kernel when `parent` ends, even by SIGKILL."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:
        raise InvalidSettings(f"process {parent} is not the parent", field="--parent")


def _on_signal(stop: Callable[[], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the configuration that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m workers.supervisor", description=__doc__)
    parser.add_argument("config", nargs="?", type=Path, help="TOML file")
    parser.add_argument("--parent", type=int, help="process id whose end ends this cluster")
    options = parser.parse_args(arguments)
    try:
        settings = load_settings(options.config)
        configure_logs(settings.log, process="supervisor")
        if options.parent is not None:
            _end_with(options.parent)
        supervisor = Supervisor(settings, options.config)
        _on_signal(supervisor.stop)
        supervisor.run()
    except HexgenError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
