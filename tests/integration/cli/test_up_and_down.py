"""`hexgen up`: everything from one file, kept running, gone at the end."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from hexgen_celery import cli
from hexgen_celery.api import Client
from hexgen_celery.cli.cluster_file import HETEROGENEOUS, emulated_cluster, real_server_cluster
from hexgen_celery.cli.local_cluster import LocalCluster
from hexgen_celery.cluster import read_cluster
from hexgen_celery.settings import load_settings
from workers.log_rotation import RotatedLog
from workers.readiness import is_healthy

from .conftest import write_database, write_replay

pytestmark = pytest.mark.integration
HEXGEN = [sys.executable, "-c", "import sys; from hexgen_celery.cli import main; sys.exit(main())"]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return _write_config(tmp_path)


def _write_config(directory: Path, *replay: Path) -> Path:
    """A cluster with one server: it starts in half the time of three, and ends the same way."""
    path = directory / "hexgen.toml"
    one = HETEROGENEOUS[:1]
    path.write_text(emulated_cluster(directory / "up", replay=replay, speed=50, kinds=one))
    return path


@pytest.fixture
def running(config: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """`hexgen up` in a process of its own, ready."""
    process = subprocess.Popen(
        [*HEXGEN, "up", str(config)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        _until(lambda: _ready(tmp_path / "up"), 120)
        yield process
    finally:
        process.terminate()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


def _ready(directory: Path) -> bool:
    state = read_cluster(directory)
    return state is not None and state.ready


def _until(condition: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.05)


def _family(pid: int) -> list[psutil.Process]:
    family: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
    return family


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_everything(
    running: subprocess.Popen[str], tmp_path: Path, number: signal.Signals
) -> None:
    family = _family(running.pid)
    assert len(family) >= 6, "supervisor, Redis, server and 3 workers"
    running.send_signal(number)
    assert running.wait(30) == 0
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive
    assert read_cluster(tmp_path / "up") is None
    logs = {path.stem for path in (tmp_path / "up" / "logs").iterdir()}
    assert {"supervisor", "server-a100-1", "llm-a100-1", "control-1", "sql-1"} <= logs


def test_a_killed_parent_leaves_nothing_behind(running: subprocess.Popen[str]) -> None:
    family = _family(running.pid)
    running.kill()
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive


def test_a_process_that_dies_is_started_again(
    running: subprocess.Popen[str], tmp_path: Path
) -> None:
    state = read_cluster(tmp_path / "up")
    assert state is not None
    server = next(each for each in state.instances if each.name == "a100-1")
    victims = [each for each in _family(running.pid) if _serves(each, server.url)]
    assert len(victims) == 1
    victims[0].kill()
    victims[0].wait(10)
    _until(lambda: is_healthy(server.url), 60)
    assert "process died" in (tmp_path / "up" / "logs" / "supervisor.log").read_text()


def _serves(process: psutil.Process, url: str) -> bool:
    command = process.cmdline()
    return "workers.emulator" in command and url.rpartition(":")[2] in command


@pytest.mark.usefixtures("running")
def test_logs_do_not_grow_for_ever(tmp_path: Path) -> None:
    log = tmp_path / "up" / "logs" / "sql-1.log"
    with log.open("ab") as file:
        file.write(b"x" * RotatedLog(log).most_bytes)
    older = log.with_name("sql-1.log.1")
    _until(lambda: older.exists() and log.stat().st_size < 1_000_000, 30)


def test_a_second_cluster_in_the_same_directory_is_refused(
    running: subprocess.Popen[str], config: Path
) -> None:
    second = subprocess.run([*HEXGEN, "up", str(config)], capture_output=True, text=True)
    assert second.returncode == 2
    assert "a cluster already runs in" in second.stderr
    assert "stopped" not in second.stdout
    assert running.poll() is None


def test_a_directory_that_cannot_be_written_is_named(config: Path, tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    environment = {**os.environ, "HEXGEN_UP__DIRECTORY": str(in_the_way)}
    done = subprocess.run(
        [*HEXGEN, "up", str(config)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 2
    assert f"cannot write into {in_the_way / 'logs'}" in done.stderr


def test_a_question_survives_the_restart_of_everything(tmp_path: Path) -> None:
    config = _write_config(tmp_path, write_replay(tmp_path / "replay.jsonl"))
    first, second = (LocalCluster(config, tmp_path / "up") for _ in range(2))
    try:
        first.start()
        first.wait_ready(120)
        with Client(load_settings(config)) as client:
            client.add_database(write_database(tmp_path / "cities.sqlite"))
            options = {"question_key": "cities:slow", "max_tokens": 25_000}
            question_id = client.ask("Slowly?", "cities", 600, options=options).id
            _until(lambda: question_id in [one.id for one in client.running()], 30)
            time.sleep(1.1)  # `appendfsync everysec` has written it
        first.stop()
        second.start()
        second.wait_ready(120)
        with Client(load_settings(config)) as client:
            answer = client.pending(question_id).result(timeout=120)
        assert answer.rows == (("Nara",), ("Reykjavík",), ("Tokyo",))
    finally:
        first.stop()
        second.stop()


def test_detached_until_down(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = subprocess.run([*HEXGEN, "up", str(config), "--detach"], timeout=120, check=False)
    assert done.returncode == 0
    state = read_cluster(tmp_path / "up")
    assert state is not None
    assert state.ready
    family = _family(state.pid)
    mode = (tmp_path / "up" / "cluster.json").stat().st_mode & 0o777
    assert mode == 0o600
    assert cli.main(["--config", str(config), "db", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert cli.main(["--config", str(config), "down"]) == 0
    assert "stopped" in capsys.readouterr().out
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive
    assert cli.main(["--config", str(config), "down"]) == 0
    assert "no cluster runs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no pool is declared"),
        ("[pool]\nname = 'x'\n", "pool"),
        ("[up\n", "not valid TOML"),
    ],
)
def test_a_wrong_configuration_is_a_clear_error(tmp_path: Path, text: str, problem: str) -> None:
    config = tmp_path / "wrong.toml"
    config.write_text(text)
    done = subprocess.run(
        [*HEXGEN, "up", str(config)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "HEXGEN_UP__DIRECTORY": str(tmp_path / "up")},
    )
    assert done.returncode == 2
    assert problem in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unreachable_redis_is_a_clear_error(config: Path) -> None:
    done = subprocess.run(
        [*HEXGEN, "up", str(config)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "HEXGEN_BROKER__URL": "redis://:secret@127.0.0.1:1/0"},
    )
    assert done.returncode == 2
    assert "127.0.0.1:1" in done.stderr
    assert "secret" not in done.stderr


def test_a_missing_replay_ends_the_start_with_the_servers_own_words(
    config: Path, tmp_path: Path
) -> None:
    absent = tmp_path / "absent.jsonl"
    config.write_text(emulated_cluster(tmp_path / "up", replay=[absent], speed=50))
    done = subprocess.run(
        [*HEXGEN, "up", str(config)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "absent.jsonl" in done.stderr


def test_an_unknown_profile_is_a_clear_error(config: Path, tmp_path: Path) -> None:
    config.write_text(config.read_text().replace("a100-80g-x1-qwen3-30b-a3b", "no-such-profile"))
    done = subprocess.run(
        [*HEXGEN, "up", str(config)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "no-such-profile" in done.stderr


@pytest.fixture
def lost_server() -> Iterator[str]:
    """The URL of a server that answers everything with 404."""

    class NotFound(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            """Nothing to say."""

    with ThreadingHTTPServer(("127.0.0.1", 0), NotFound) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def test_a_server_that_does_not_serve_its_model_is_warned_of(
    config: Path, tmp_path: Path, lost_server: str
) -> None:
    text = real_server_cluster(tmp_path / "up", url=lost_server, model="some-model")
    config.write_text(text)
    up = [*HEXGEN, "up", str(config), "--detach"]
    done = subprocess.run(up, capture_output=True, text=True, timeout=120, check=False)
    try:
        assert done.returncode == 0, done.stderr
        (warning,) = [line for line in done.stdout.splitlines() if line.startswith("warning:")]
        assert "cannot answer yet" in warning
        assert "404" in warning
    finally:
        cli.main(["--config", str(config), "down"])


def test_a_store_that_must_be_migrated_first_is_warned_of_with_the_command(
    config: Path, tmp_path: Path
) -> None:
    """The recorder ends again and again; questions are answered all the same."""
    (tmp_path / "up").mkdir()
    with closing(sqlite3.connect(tmp_path / "up" / "store.sqlite")) as connection:
        connection.execute("CREATE TABLE somebody_elses (id INTEGER)")
    up = [*HEXGEN, "up", str(config), "--detach"]
    done = subprocess.run(up, capture_output=True, text=True, timeout=120, check=False)
    try:
        assert done.returncode == 0, done.stderr
        (warning,) = [line for line in done.stdout.splitlines() if line.startswith("warning:")]
        assert "nothing is recorded" in warning
        assert "has no tables" in warning
        assert "run `hexgen store migrate`" in warning
    finally:
        cli.main(["--config", str(config), "down"])


def test_a_worker_that_keeps_dying_ends_the_start_with_its_last_log_lines(
    config: Path, tmp_path: Path
) -> None:
    (tmp_path / "broken_stages.py").write_text("raise RuntimeError('these stages never load')\n")
    config.write_text('stages_module = "broken_stages"\n' + config.read_text())
    done = subprocess.run(
        [*HEXGEN, "up", str(config)],
        capture_output=True,
        text=True,
        timeout=110,  # less than `up` waits for a cluster to become ready
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 2
    assert "died 3 times while starting" in done.stderr
    assert "RuntimeError: these stages never load" in done.stderr
