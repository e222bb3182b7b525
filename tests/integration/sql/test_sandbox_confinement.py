"""What the kernel denies a sandbox program, whatever code ran in it."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hexgen_celery.errors import InvalidSettings
from hexgen_celery.sql.execution import DatabaseFile, ExecuteRequest
from hexgen_celery.sql.wire import encode_frame
from workers import sandbox_program
from workers.sandbox_pool import SandboxPolicy, SandboxPool

pytestmark = pytest.mark.integration

PROJECT = Path(__file__).resolve().parents[3]
SAFETY_SECONDS = 30.0

PROGRAM = """
import json, os, socket, subprocess, sys
from workers.sandbox import confine
confine(512 * 1024 * 1024)
folder, port = sys.argv[1], int(sys.argv[2])

def tried(act):
    try:
        act()
    except (OSError, subprocess.SubprocessError) as error:
        return type(error).__name__
    return "done"

print(json.dumps({
    "read": tried(lambda: open(folder + "/kept.txt").read()),
    "write": tried(lambda: open(folder + "/kept.txt", "w")),
    "create": tried(lambda: open(folder + "/fresh.txt", "x")),
    "mkdir": tried(lambda: os.mkdir(folder + "/fresh")),
    "remove": tried(lambda: os.unlink(folder + "/kept.txt")),
    "rename": tried(lambda: os.rename(folder + "/kept.txt", folder + "/moved.txt")),
    "truncate": tried(lambda: os.truncate(folder + "/kept.txt", 0)),
    "list": tried(lambda: os.listdir(folder)),
    "connect": tried(lambda: socket.create_connection(("127.0.0.1", port), 5)),
    "run": tried(lambda: subprocess.run(["/bin/true"], check=True)),
}))
"""


def kernel_has_landlock() -> bool:
    code = "from workers.landlock import give_up_files_and_network as g; raise SystemExit(not g())"
    return subprocess.run([sys.executable, "-c", code], cwd=PROJECT, check=False).returncode == 0


@pytest.mark.skipif(not kernel_has_landlock(), reason="this kernel has no Landlock")
def test_a_confined_process_can_read_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("kept")
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path), str(server.getsockname()[1])],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            timeout=SAFETY_SECONDS,
            check=True,
        )
    tried = json.loads(done.stdout)
    assert tried.pop("read") == "done"
    assert set(tried.values()) <= {"PermissionError", "BlockingIOError"}
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]
    assert (tmp_path / "kept.txt").read_text() == "kept"


@pytest.fixture
def database(tmp_path: Path) -> DatabaseFile:
    path = tmp_path / "data.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE item (a)")
    return DatabaseFile(str(path))


@pytest.fixture
def pool(database: DatabaseFile) -> Iterator[SandboxPool]:
    with SandboxPool(1) as running:
        assert running.execute(ExecuteRequest(database, "SELECT 1")).ok
        yield running


def test_the_program_stands_nowhere_and_holds_only_its_pipes(
    pool: SandboxPool, database: DatabaseFile
) -> None:
    (pid,) = pool.pids()
    assert os.readlink(f"/proc/{pid}/cwd").endswith("(deleted)")
    assert os.getsid(pid) == pid
    held = {os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")}
    assert {name for name in held if not name.startswith("pipe:")} == {"/dev/null", database.path}


def test_a_path_is_relative_to_the_owner(
    pool: SandboxPool, database: DatabaseFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(database.path).parent)
    request = ExecuteRequest(DatabaseFile("data.sqlite"), "SELECT count(*) FROM item")
    assert pool.execute(request).rows == ([0],)


@pytest.mark.parametrize("kind", ["directory", "pipe", "device"])
def test_only_regular_files_are_opened(pool: SandboxPool, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "odd"
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path = Path("/dev/zero")
    result = pool.execute(ExecuteRequest(DatabaseFile(str(path)), "SELECT 1"))
    assert result.status == "error"
    assert "not a regular file" in result.error


@pytest.mark.parametrize(
    "answer",
    [
        {"status": "ok"},
        {"status": "owned", "columns": [], "rows": [], "truncated": 0, "seconds": 0, "error": ""},
        {"status": "ok", "columns": 1, "rows": [], "truncated": 0, "seconds": 0, "error": ""},
        {"status": "ok", "columns": [], "rows": [1], "truncated": 0, "seconds": 0, "error": ""},
    ],
)
def test_an_answer_is_doubted(
    database: DatabaseFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    """A program that was taken over may say anything; the pool throws it away and goes on."""
    assert isinstance(answer, dict)
    frames = encode_frame({"ready": True}) + encode_frame({**answer, "id": 1})
    (tmp_path / "impostor.py").write_text(
        f"import sys, time\nsys.stdout.buffer.write({frames!r})\n"
        "sys.stdout.buffer.flush()\nsys.stdin.buffer.read()\n"
    )
    with SandboxPool(1) as pool:
        monkeypatch.setattr(sandbox_program, "PROGRAM", "impostor")
        monkeypatch.setattr(sandbox_program, "PACKAGE_ROOT", str(tmp_path))
        result = pool.execute(ExecuteRequest(database, "SELECT 1"))
        assert (result.status, result.error) == ("error", "the sandbox answered nonsense")
        monkeypatch.undo()
        assert pool.execute(ExecuteRequest(database, "SELECT 1")).ok


def test_an_endless_answer_is_cut_off(
    database: DatabaseFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = encode_frame({"ready": True}) + (200_000_000).to_bytes(4, "big")
    (tmp_path / "impostor.py").write_text(
        f"import sys\nsys.stdout.buffer.write({frames!r})\n"
        "while True: sys.stdout.buffer.write(b'x' * 65536)\n"
    )
    monkeypatch.setattr(sandbox_program, "PROGRAM", "impostor")
    monkeypatch.setattr(sandbox_program, "PACKAGE_ROOT", str(tmp_path))
    with SandboxPool(1) as pool:
        result = pool.execute(ExecuteRequest(database, "SELECT 1"))
    assert result.status == "error"
    assert "exceeds" in result.error


def _public_python() -> str | None:
    """An interpreter that every user may run, where this is root and its package is as public."""
    found = (sys.executable, shutil.which("python3", path="/usr/local/bin:/usr/bin"))
    public = [each for each in found if each and _is_public(Path(each).resolve())]
    return public[0] if public and os.geteuid() == 0 and _is_public(PROJECT / "workers") else None


def _is_public(path: Path) -> bool:
    return all(each.stat().st_mode & 0o001 for each in (path, *path.parents))


@pytest.mark.skipif(_public_python() is None, reason="only root can become another user")
def test_the_program_runs_as_another_user_where_the_owner_is_root(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", _public_python())
    nobody = pwd.getpwnam("nobody")
    folder = Path(tempfile.gettempdir()) / f"hexgen-public-{os.getpid()}"
    folder.mkdir(mode=0o755)
    try:
        path = folder / "data.sqlite"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE item (a)")
        path.chmod(0o644)
        with SandboxPool(1, SandboxPolicy(user="nobody")) as pool:
            result = pool.execute(ExecuteRequest(DatabaseFile(str(path)), "SELECT 1"))
            assert result.rows == ([1],)
            (pid,) = pool.pids()
            assert os.stat(f"/proc/{pid}").st_uid == nobody.pw_uid
            private = path.with_name("private.sqlite")
            shutil.copy(path, private)
            private.chmod(0o600)
            refused = pool.execute(ExecuteRequest(DatabaseFile(str(private)), "SELECT 1"))
            assert "Permission denied" in refused.error
    finally:
        shutil.rmtree(folder)


def test_an_unknown_user_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(InvalidSettings, match="no user") as caught:
        SandboxPool(1, SandboxPolicy(user="no-such-user"))
    assert caught.value.field == "sql.user"
