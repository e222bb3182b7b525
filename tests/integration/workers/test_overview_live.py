"""The overview and `hexgen top` on real workers whose server holds its answers back."""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

import pytest

from hexgen_celery.overview import Overview, OverviewReader
from tests.integration.terminal import TerminalProgram
from tests.integration.workers.fake_llm import FakeLlm
from tests.integration.workers.local_workers import (
    PROJECT,
    LocalWorkers,
    deployment_settings,
    pool_of,
)
from workers.embedded_redis import EmbeddedRedis

pytestmark = pytest.mark.integration

PATIENCE = 60.0
CONCURRENCY = 2
QUESTIONS = 6
SLO_SECONDS = 300.0


@pytest.fixture(scope="module")
def workers(
    llm: FakeLlm, redis_server: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalWorkers]:
    """Two requests run, the others wait, until `llm.holding` ends."""
    directory = tmp_path_factory.mktemp("top")
    pool = pool_of(llm.url, concurrency=CONCURRENCY)
    settings = deployment_settings(redis_server, "top", directory, pool)
    with LocalWorkers(settings, directory) as running:
        running.start()
        llm.holding = True
        asked = [
            running.chat(f"question {n}", slo_seconds=SLO_SECONDS - n) for n in range(QUESTIONS)
        ]
        llm.wait_open(CONCURRENCY)
        yield running
        llm.holding = False
        for pending in asked:
            pending.get(timeout=PATIENCE)


@pytest.fixture(scope="module")
def overview(workers: LocalWorkers) -> Overview:
    until = time.monotonic() + PATIENCE
    with OverviewReader(workers.settings) as reader:
        while True:
            found = reader.read()
            pools = {pool.name: pool for pool in found.counts.pools}
            waiting = pools[workers.settings.pools[0].queue].waiting
            counted = found.counts.requests_running == CONCURRENCY
            looked_after = found.counts.timers_age_seconds is not None
            if waiting == QUESTIONS - CONCURRENCY and counted and looked_after:
                return found
            assert time.monotonic() < until, found.counts
            time.sleep(0.1)


def test_what_runs_and_waits_is_counted(overview: Overview) -> None:
    (instance,) = overview.counts.instances
    assert instance.state == "ready"
    assert instance.running == CONCURRENCY
    assert instance.kv_tokens > 0
    assert overview.counts.questions_running == QUESTIONS
    assert overview.counts.leases_overdue == 0
    assert overview.counts.outbox.unsent == 0
    assert overview.counts.timers_age_seconds is not None
    assert 0 <= overview.counts.timers_age_seconds < PATIENCE
    assert {process.kind for process in overview.counts.processes} == {"control", "llm"}


def test_waiting_requests_are_told_most_urgent_first(overview: Overview) -> None:
    laxities = [request.laxity for request in overview.urgent]
    assert len(laxities) == QUESTIONS - CONCURRENCY
    assert laxities == sorted(laxities)
    assert 0 < laxities[0] < SLO_SECONDS
    assert {request.task for request in overview.urgent} == {"hexgen.chat"}


def test_every_question_has_its_time_left_and_a_laxity_below_that(overview: Overview) -> None:
    assert len(overview.questions) == QUESTIONS
    for question in overview.questions:
        assert question.question.startswith("question ")
        assert 0 < question.left <= SLO_SECONDS
        assert question.laxity is not None
        assert question.laxity <= question.slo_seconds
        assert question.doing.startswith(("sent", "claimed", "first_token"))
    assert overview.at_risk == ()


def _environment(workers: LocalWorkers) -> dict[str, str]:
    pools = [pool.model_dump(mode="json") for pool in workers.settings.pools]
    return {
        **os.environ,
        "HEXGEN_BROKER__URL": workers.url,
        "HEXGEN_BROKER__PREFIX": workers.settings.broker.prefix,
        "HEXGEN_POOLS": json.dumps(pools),
        "PYTHONPATH": str(PROJECT),
        "TERM": "xterm",
    }


def _command(*arguments: str) -> list[str]:
    program = "import sys; from hexgen_celery.cli import main; sys.exit(main())"
    return [sys.executable, "-c", program, "top", *arguments]


def test_one_look_as_json(workers: LocalWorkers, overview: Overview) -> None:
    command = _command("--once", "--json")
    done = subprocess.run(
        command, env=_environment(workers), capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    shown: dict[str, Any] = json.loads(done.stdout)
    assert shown["questions_running"] == QUESTIONS
    assert [each["state"] for each in shown["instances"]] == ["ready"]
    assert len(shown["urgent"]) == 3


@pytest.mark.parametrize("how", [(), ("--json",)])
def test_a_reader_that_has_read_enough_is_no_failure(
    workers: LocalWorkers, overview: Overview, how: tuple[str, ...]
) -> None:
    process = subprocess.Popen(
        _command("--refresh", "0.1", *how),
        env=_environment(workers),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert "running" in process.stdout.readline()
    process.stdout.close()
    assert process.wait(PATIENCE) == 0
    assert process.stderr.read() == ""


def test_an_interrupt_ends_it_although_nobody_reads(
    workers: LocalWorkers, overview: Overview
) -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, mmap.PAGESIZE)
    process = subprocess.Popen(
        _command("--refresh", "0.1", "--json"), env=_environment(workers), stdout=writing
    )
    os.close(writing)
    with open(reading, "rb") as pipe:
        _wait_until_full(pipe)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130


def _wait_until_full(pipe: BinaryIO) -> None:
    """Until something is in the pipe, but nothing more came for a second."""
    until = time.monotonic() + PATIENCE
    before, now = -1, 0
    while now != before or not now:
        assert time.monotonic() < until
        time.sleep(1.0)
        before, now = now, int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), "little")


@pytest.mark.parametrize(("key", "status"), [(b"q", 0), (b"\x03", 130)])
def test_on_a_terminal_it_redraws_and_a_key_ends_it(
    workers: LocalWorkers, overview: Overview, key: bytes, status: int
) -> None:
    with TerminalProgram(_command("--refresh", "0.2"), _environment(workers)) as program:
        assert b"gpu.a100.x" in program.wait_for(b"questions running", times=2)
        assert program.status(key) == status
