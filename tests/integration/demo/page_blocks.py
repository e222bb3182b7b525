"""Pages whose marked blocks a reader can perform in order: files to write, programs to run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from hexgen_celery.cluster import read_cluster
from workers.embedded_redis import free_port
from workers.readiness import is_healthy

PROJECT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(
    r"<!-- (?P<mark>run|file)(?:: (?P<argument>[\w.-]+))? -->\n"
    r"```(?P<language>\w+)\n(?P<text>.*?)```",
    re.DOTALL,
)
BLOCK_SECONDS = 120


@dataclass(frozen=True)
class Block:
    """A marked block: a file to write, or a program to run."""

    mark: str
    argument: str
    language: str
    text: str


def blocks_of(page: str) -> list[Block]:
    """The marked blocks of `page` (a path in the project)."""
    text = (PROJECT / page).read_text(encoding="utf-8")
    return [
        Block(found["mark"], found["argument"] or "", found["language"], found["text"])
        for found in BLOCK.finditer(text)
    ]


def perform_page(page: str, here: Path) -> str:
    """Everything that the blocks of `page` print, performed in the directory `here`."""
    return "".join(_perform(block, here) for block in blocks_of(page))


def _perform(block: Block, here: Path) -> str:
    if block.mark == "file":
        (here / block.argument).write_text(block.text)
        return ""
    if block.argument == "background":
        return _look_at_flower(block.text, here)
    program = block.text
    if block.argument == "celery":
        state = read_cluster(here / ".hexgen")
        assert state is not None
        program = f"BROKER_URL = {state.broker_url.get_secret_value()!r}\n{program}"
    interpreter = [sys.executable] if block.language == "python" else ["bash", "-euo", "pipefail"]
    # To a file: what `hexgen up --detach` leaves running would keep a pipe open.
    with (here / "shown.txt").open("w+") as output:
        done = subprocess.run(
            [*interpreter, "-c", program],
            cwd=here,
            env=_environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=BLOCK_SECONDS,
            check=False,
        )
        output.seek(0)
        shown = output.read()
    assert done.returncode == 0, f"{program}\n{shown}"
    return shown


def _look_at_flower(command: str, here: Path) -> str:
    port = free_port()
    command = f"exec {command.partition('#')[0].replace('5555', str(port))}"
    flower = subprocess.Popen(["bash", "-c", command], cwd=here, env=_environment())
    until = time.monotonic() + BLOCK_SECONDS
    try:
        while not is_healthy(f"http://127.0.0.1:{port}", "/healthcheck"):
            assert time.monotonic() < until, "Flower never answered"
            time.sleep(0.2)
    finally:
        flower.terminate()
        flower.wait(30)
    return ""


def _environment() -> dict[str, str]:
    scripts = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
