"""One program that is kept running: its log, its restarts after a death, its end."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from hexgen_celery.core.clock import Clock
from workers import children

USER_ERROR = 2
COMPLAINT = "error: "

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A program by a name that is unique among those kept running, its arguments and variables.

    It is given `stop_seconds` after SIGTERM. `death_signal` is what it gets when its keeper dies: a
    program that has children of its own to end must get one that it can handle. Not `needed` is one
    without which questions are answered all the same: it keeps no cluster from starting.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    stop_seconds: float = 5.0
    death_signal: signal.Signals = signal.SIGKILL
    needed: bool = True


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How long to wait before the n-th restart in a row, in seconds.

    The wait doubles from `first_seconds` to `longest_seconds`; a process that ran for
    `settled_seconds` starts over at the first.
    """

    first_seconds: float = 0.5
    longest_seconds: float = 15.0
    settled_seconds: float = 30.0

    def wait_seconds(self, deaths_in_a_row: int) -> float:
        """Seconds between the death and the next start."""
        return float(min(self.longest_seconds, self.first_seconds * 2 ** (deaths_in_a_row - 1)))


class ManagedProcess:
    """Starts a program, restarts it when it dies, stops it. Not thread-safe: one owner polls it."""

    def __init__(
        self, spec: ProcessSpec, log_path: Path, clock: Clock, policy: RestartPolicy | None = None
    ) -> None:
        self.spec = spec
        self.log_path = log_path
        self.restarts = 0
        self.exit_code: int | None = None
        self._clock = clock
        self._policy = policy or RestartPolicy()
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._deaths_in_a_row = 0
        self._start_again_at: float | None = None

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Start the program with its output appended to the log."""
        self._start_again_at = None
        self._started_at = self._clock.now()
        with self.log_path.open("ab") as log:
            self._process = children.spawn(
                self.spec.command,
                stdout=log,
                stderr=subprocess.STDOUT,
                environment=self.spec.environment,
                death_signal=self.spec.death_signal,
            )

    def poll(self) -> int | None:
        """Notice a death and, once its wait is over, start the program again.

        The process id of one that died just now, else None.
        """
        if self._start_again_at is not None:
            if self._clock.now() >= self._start_again_at:
                self.restarts += 1
                self.start()
            return None
        code = self._process.poll() if self._process else None
        if self._process is None or code is None:
            return None
        self._plan_restart(code)
        return self._process.pid

    def complaint(self) -> str | None:
        """What it said when it ended because of its configuration, else None."""
        if self._process is None or self._process.poll() != USER_ERROR:
            return None
        text = self.log_path.read_text(encoding="utf-8", errors="replace")
        complaints = [line for line in text.splitlines() if line.startswith(COMPLAINT)]
        return complaints[-1].removeprefix(COMPLAINT) if complaints else f"see {self.log_path}"

    @property
    def deaths_in_a_row(self) -> int:
        """How often it died, without having settled in between."""
        return self._deaths_in_a_row

    def last_lines(self, most: int) -> list[str]:
        """The end of its log: up to `most` lines that are not blank."""
        text = self.log_path.read_text(encoding="utf-8", errors="replace")
        return [line.rstrip() for line in text.splitlines() if line.strip()][-most:]

    def ask_to_stop(self) -> None:
        """Send SIGTERM and start it no more."""
        self._start_again_at = None
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def kill(self) -> None:
        """Kill it and its group; `poll` will start it again."""
        if self._process is not None:
            children.kill_group(self._process.pid)

    def end(self, grace_seconds: float) -> None:
        """Wait `grace_seconds` for its end, then kill it and what it left in its group."""
        if self._process is not None:
            children.stop(self._process, grace_seconds=max(0.0, grace_seconds))
            children.kill_group(self._process.pid)
            self._process = None

    def _plan_restart(self, code: int) -> None:
        """Children that it left would keep memory and ports from the next one."""
        self.kill()
        self.exit_code = code
        now = self._clock.now()
        settled = now - self._started_at >= self._policy.settled_seconds
        self._deaths_in_a_row = 1 if settled else self._deaths_in_a_row + 1
        wait = self._policy.wait_seconds(self._deaths_in_a_row)
        self._start_again_at = now + wait
        logger.warning(
            "process died",
            process=self.spec.name,
            exit_code=code,
            restart_in_seconds=wait,
            log=str(self.log_path),
        )
