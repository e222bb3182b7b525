"""A Redis server of our own, as a child process: for `hexgen up`, the demo and the tests."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import redis

from hexgen_celery.errors import BrokerUnavailable
from workers import children
from workers.redis_binary import RedisBinary, find_redis_binary

HOST = "127.0.0.1"
_START_SECONDS = 20.0
_PORT_ATTEMPTS = 5
_POLL_SECONDS = 0.01
_LOG_LINES = 5


class EmbeddedRedis:
    """One server on a loopback port, keeping its append-only file in `directory`.

    `port` 0 takes a free one, which stays the same over `restart()`. The server is a child of this
    process, is stopped by its own process id, and gets SIGTERM from the kernel if this process dies
    first.
    """

    def __init__(
        self,
        directory: Path,
        *,
        port: int = 0,
        password: str | None = None,
        appendfsync: str = "everysec",
    ) -> None:
        self.directory = directory.absolute()
        self.port = port
        self.password = password
        self.appendfsync = appendfsync
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL to connect to, with the password where there is one."""
        credentials = f":{quote(self.password, safe='')}@" if self.password else ""
        return f"redis://{credentials}{HOST}:{self.port}/0"

    @property
    def log_path(self) -> Path:
        """The server's own log."""
        return self.directory / "redis.log"

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        return self._process.pid if self.is_running() and self._process else None

    def is_running(self) -> bool:
        """Whether the server process is alive."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> str:
        """Start the server and wait until it answers; returns `url`.

        Raises:
            MissingPrerequisite: there is no server program.
            BrokerUnavailable: it ended or did not answer in time.
        """
        if self.is_running():
            return self.url
        binary = find_redis_binary()
        self.directory.mkdir(parents=True, exist_ok=True)
        chosen = self.port
        for _ in range(1 if chosen else _PORT_ATTEMPTS):
            self.port = chosen or free_port()
            self._launch(binary)
            if self._answers():
                return self.url
        self.stop()
        raise BrokerUnavailable(
            f"the embedded Redis did not start: {self._last_log_lines()}",
            field="broker.url",
            hint=f"see {self.log_path}",
        )

    def stop(self, *, grace_seconds: float = 5.0) -> None:
        """Stop the server, letting it write its append-only file."""
        if self._process is not None:
            children.stop(self._process, grace_seconds=grace_seconds)
            self._process = None

    def kill(self) -> None:
        """End the server at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self, *, crash: bool = False) -> str:
        """Stop (or `crash`) the server and start it again on the same port with its data."""
        if crash:
            self.kill()
        else:
            self.stop()
        return self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _launch(self, binary: RedisBinary) -> None:
        process = children.spawn(
            [str(binary.path), "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            environment=binary.environment,
            directory=self.directory,
        )
        # The configuration goes through standard input: a password on the command line is public.
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin as configuration:
            configuration.write(self._configuration().encode())
        self._process = process

    def _configuration(self) -> str:
        lines = {
            "port": str(self.port),
            "bind": HOST,
            "dir": _quoted(str(self.directory)),
            "logfile": _quoted(str(self.log_path)),
            "daemonize": "no",
            "save": '""',
            "appendonly": "yes",
            "appendfsync": self.appendfsync,
        }
        if self.password:
            lines["requirepass"] = _quoted(self.password)
        return "".join(f"{name} {value}\n" for name, value in lines.items())

    def _answers(self) -> bool:
        """Wait until *our* server serves commands; False when it ends or time runs out.

        It tells its process id before it has read its file, and refuses commands until then. The
        time runs only while it says nothing: a large file takes as long as it takes.
        """
        until = time.monotonic() + _START_SECONDS
        with redis.Redis.from_url(self.url, socket_timeout=1.0) as client:
            while self.is_running() and time.monotonic() < until:
                with contextlib.suppress(redis.RedisError):
                    told = client.info()
                    if told["process_id"] == self.pid and not told["loading"]:
                        return True
                    if told["process_id"] == self.pid:
                        until = time.monotonic() + _START_SECONDS
                time.sleep(_POLL_SECONDS)
        return False

    def _last_log_lines(self) -> str:
        try:
            lines = self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return "it wrote no log"
        return " / ".join(lines[-_LOG_LINES:])


def free_port() -> int:
    """A loopback port that nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
