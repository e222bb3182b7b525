"""What runs beside the tasks: heartbeats, timers, the grace at shutdown, and the entry point."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
import redis
from celery import signals

from hexgen_celery.errors import BrokerUnavailable, ModelUnavailable, RequestCancelled
from hexgen_celery.instances import InstanceDirectory, InstanceRecord, InstanceState
from hexgen_celery.llm import CancelToken
from hexgen_celery.llm.activity import Activity
from hexgen_celery.references import RequestRef
from hexgen_celery.settings import Settings
from workers.cancellation import SHUTDOWN, InFlight
from workers.celery_process import ShutdownGrace, run_process
from workers.instance_health import HealthRules, InstanceHealth
from workers.instances import Announcer
from workers.server_probe import InstanceRefused

PATIENCE = 10.0
RECORD = InstanceRecord("a1", "gpu.a100.x", "a100", "m", "p", "http://1", "llm-a1@h", 64)


class _Directory(InstanceDirectory):
    """Records announcements."""

    def __init__(self) -> None:
        self.announced: list[InstanceRecord] = []
        self.withdrawn: list[str] = []
        self.drained = False
        self.error: Exception | None = None

    def announce(self, record: InstanceRecord) -> bool:
        if self.error is not None:
            raise self.error
        self.announced.append(record)
        return self.drained

    def withdraw(self, name: str) -> None:
        self.withdrawn.append(name)
        if self.error is not None:
            raise self.error

    def wait_for(self, state: InstanceState) -> InstanceRecord:
        self.wait_until(lambda: bool(self.announced) and self.announced[-1].state == state)
        return self.announced[-1]

    def wait_until(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < until, self.announced[-3:]
            time.sleep(0.005)


class _Server:
    """Up, or gone with `trouble`."""

    def __init__(self) -> None:
        self.trouble: Exception | None = None

    def check(self) -> None:
        if self.trouble is not None:
            raise self.trouble

    def probe(self, cancel: CancelToken) -> None:
        assert cancel is not None
        self.check()


def _ready(announcer: Announcer) -> bool:
    return announcer.ready


def test_an_instance_is_ready_once_a_probe_was_completed_and_as_long_as_requests_are() -> None:
    directory, server = _Directory(), _Server()
    announcer = Announcer(directory, RECORD, server, interval_seconds=0.01)
    announcer.start()
    assert directory.announced[0].state == InstanceState.STARTING
    record = directory.wait_for(InstanceState.READY)
    assert _ready(announcer)
    assert record.epoch > 0
    server.trouble = ModelUnavailable("nobody is there")
    for _ in range(3):
        announcer.failed("connection refused")
    assert not _ready(announcer)
    assert "nobody is there" in directory.wait_for(InstanceState.DOWN).reason
    server.trouble = None
    assert directory.wait_for(InstanceState.READY).epoch > record.epoch
    announcer.stop()
    assert directory.withdrawn[-1] == "a1"
    assert not _ready(announcer)


def test_a_server_that_was_never_there_is_told_once_in_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, directory, server = Mock(), _Directory(), _Server()
    monkeypatch.setattr("workers.instances.log", log)
    server.trouble = ModelUnavailable("nobody is there")
    announcer = Announcer(directory, RECORD, server, interval_seconds=0.01)
    announcer.start()
    directory.wait_until(lambda: sum("nobody" in each.reason for each in directory.announced) > 2)
    announcer.stop()
    assert [call.kwargs["why"] for call in log.warning.call_args_list] == ["nobody is there"]


def test_what_a_silent_server_holds_is_broken_off() -> None:
    directory, server, broken_off = _Directory(), _Server(), threading.Event()
    health = InstanceHealth(HealthRules(trust_seconds=0.05))
    announcer = Announcer(
        directory, RECORD, server, interval_seconds=0.01, health=health, on_silent=broken_off.set
    )
    announcer.start()
    directory.wait_for(InstanceState.READY)
    assert not broken_off.is_set()
    server.trouble = ModelUnavailable("no answer within 5 s")
    directory.wait_for(InstanceState.DOWN)
    assert broken_off.wait(PATIENCE)
    announcer.stop()


def test_what_still_gets_tokens_is_not_broken_off() -> None:
    directory, server, broken_off = _Directory(), _Server(), threading.Event()
    announcer = Announcer(
        directory, RECORD, server, interval_seconds=0.01, on_silent=broken_off.set
    )
    announcer.start()
    directory.wait_for(InstanceState.READY)
    server.trouble = ModelUnavailable("no answer within 5 s")
    for _ in range(3):
        announcer.failed("connection refused")
    announcer.progressed()
    directory.wait_for(InstanceState.DOWN)
    announcer.stop()
    assert not broken_off.is_set()


class _WedgedServer(_Server):
    """Lists its models; once wedged it completes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.wedged = False

    def probe(self, cancel: CancelToken) -> None:
        """Hang until cancelled, as `LlmClient` would."""
        stopped = threading.Event()
        cancel.subscribe(stopped.set)
        while self.wedged:
            if stopped.wait(0.005):
                raise RequestCancelled(f"the request was stopped: {cancel.reason}")


def test_a_server_whose_engine_hangs_is_down_though_it_lists_its_models() -> None:
    directory, server, broken_off = _Directory(), _WedgedServer(), threading.Event()
    activity = Activity()
    announcer = Announcer(
        directory, RECORD, server, 0.01,
        on_silent=broken_off.set, activity=activity, patience_seconds=0.2,
    )  # fmt: skip
    announcer.start()
    directory.wait_for(InstanceState.READY)
    time.sleep(0.4)
    assert directory.announced[-1].state == InstanceState.READY, "nothing runs there"
    server.wedged = True
    with activity.awaiting():
        assert "none has had a token" in directory.wait_for(InstanceState.SUSPECT).reason
        assert "no token within" in directory.wait_for(InstanceState.DOWN).reason
        assert broken_off.wait(PATIENCE)
    server.wedged = False
    directory.wait_for(InstanceState.READY)
    announcer.stop()


def test_a_slow_server_is_never_down_as_long_as_any_token_comes() -> None:
    """Its probe hangs behind what it works on: the token that came before counts as well."""
    directory, server, activity = _Directory(), _WedgedServer(), Activity()
    announcer = Announcer(directory, RECORD, server, 0.01, activity=activity, patience_seconds=0.3)
    announcer.start()
    directory.wait_for(InstanceState.READY)
    server.wedged = True
    with activity.awaiting():
        for _ in range(3):
            directory.wait_for(InstanceState.SUSPECT)
            activity.heard()
            directory.wait_for(InstanceState.READY)
    announcer.stop()
    assert InstanceState.DOWN not in {record.state for record in directory.announced}


def test_a_server_that_differs_from_its_pool_is_refused_with_the_reason() -> None:
    directory, server = _Directory(), _Server()
    server.trouble = InstanceRefused("the pool promises 8192 tokens, the server has 4096")
    announcer = Announcer(directory, RECORD, server, interval_seconds=0.01)
    announcer.start()
    assert "4096" in directory.wait_for(InstanceState.DOWN).reason
    assert not _ready(announcer)
    announcer.stop()


@pytest.mark.parametrize("trust_seconds", [0.0, 3600.0])
def test_a_server_that_comes_to_differ_from_its_pool_is_refused_in_use(
    trust_seconds: float,
) -> None:
    """Idle it is noticed with the next check, busy with the next verification."""
    directory, server = _Directory(), _Server()
    health = InstanceHealth(HealthRules(trust_seconds=trust_seconds))
    announcer = Announcer(directory, RECORD, server, 0.01, health, verify_seconds=0.02)
    announcer.start()
    directory.wait_for(InstanceState.READY)
    server.trouble = InstanceRefused("the pool's model is 'm', the server serves other")
    assert "serves other" in directory.wait_for(InstanceState.DOWN).reason
    server.trouble = None
    directory.wait_for(InstanceState.READY)
    announcer.stop()


def test_a_busy_server_that_answers_no_verification_stays_in_use() -> None:
    directory, server = _Directory(), _Server()
    health = InstanceHealth(HealthRules(trust_seconds=3600.0))
    announcer = Announcer(directory, RECORD, server, 0.01, health, verify_seconds=0.02)
    announcer.start()
    directory.wait_for(InstanceState.READY)
    server.trouble = ModelUnavailable("timed out")
    seen = len(directory.announced)
    directory.wait_until(lambda: len(directory.announced) > seen + 20)
    assert directory.announced[-1].state == InstanceState.READY
    announcer.stop()


def test_an_operator_drains_and_resumes_it() -> None:
    directory = _Directory()
    announcer = Announcer(directory, RECORD, _Server(), interval_seconds=0.01)
    announcer.start()
    directory.wait_for(InstanceState.READY)
    directory.drained = True
    directory.wait_for(InstanceState.DRAINING)
    assert not _ready(announcer)
    directory.drained = False
    directory.wait_for(InstanceState.READY)
    announcer.stop()


def test_announcing_goes_on_after_redis_was_away() -> None:
    directory = _Directory()
    directory.error = redis.ConnectionError("gone")
    announcer = Announcer(directory, RECORD, _Server(), interval_seconds=0.01)
    announcer.start()
    directory.error = None
    directory.wait_for(InstanceState.READY)
    directory.error = redis.ConnectionError("gone again")
    announcer.stop()
    assert directory.announced


@pytest.mark.parametrize("error", [AttributeError("a bug"), OSError("a socket")])
def test_the_heartbeat_outlives_whatever_a_check_or_an_announcement_raises(
    error: Exception,
) -> None:
    """A thread that ended would leave an instance down for ever that its worker still feeds."""
    directory, server = _Directory(), _Server()
    health = InstanceHealth(HealthRules(trust_seconds=0.0))
    announcer = Announcer(directory, RECORD, server, interval_seconds=0.01, health=health)
    announcer.start()
    directory.wait_for(InstanceState.READY)
    server.trouble = error
    assert str(error) in directory.wait_for(InstanceState.DOWN).reason
    server.trouble = None
    directory.wait_for(InstanceState.READY)
    directory.error = error
    time.sleep(0.1)
    directory.error = None
    beats = len(directory.announced)
    directory.wait_until(lambda: len(directory.announced) > beats)
    announcer.stop()


def _stopping(in_flight: InFlight, grace: float, on_stopping: Callable[[], None]) -> ShutdownGrace:
    service = ShutdownGrace(in_flight, grace, on_stopping)
    service.start()
    signals.worker_shutting_down.send(sender="w@h", sig="SIGTERM", how="Warm", exitcode=0)
    return service


def test_what_runs_longer_than_the_grace_is_handed_back() -> None:
    in_flight, told, stopped = InFlight(), threading.Event(), threading.Event()
    with in_flight.track(RequestRef("w", "n", 1)) as running:
        running.token.subscribe(stopped.set)
        service = _stopping(in_flight, 0.01, told.set)
        assert stopped.wait(PATIENCE)
        assert running.token.reason == SHUTDOWN
        assert told.is_set()
        service.stop()


def test_nothing_is_stopped_within_the_grace() -> None:
    in_flight, told = InFlight(), threading.Event()
    with in_flight.track(RequestRef("w", "n", 1)) as running:
        service = _stopping(in_flight, 3600, told.set)
        assert told.wait(PATIENCE)
        service.stop()
        assert not running.token.is_set


def test_an_error_a_user_can_mend_is_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEXGEN_BROKER__URL", "redis://127.0.0.1:1/0")

    def serve(settings: Settings) -> int:
        raise BrokerUnavailable("Redis cannot be reached", hint="start it")

    assert run_process("control-1", serve) == 2
    assert capsys.readouterr().err == "error: Redis cannot be reached. start it\n"


def test_a_wrong_setting_is_told_before_anything_starts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEXGEN_COORDINATOR__LEASE_SECONDS", "-1")
    assert run_process("control-1", lambda _settings: 0) == 2
    assert "lease_seconds" in capsys.readouterr().err
