"""The Celery API as any Celery client uses it: none of our code is installed where it runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from celery.exceptions import TaskRevokedError

from tests.integration.celery_api.heroes import ANSWER, SQL, add_heroes
from tests.integration.celery_api.stock_client import StockClient, stock_python
from tests.integration.workers.fake_llm import FakeLlm
from tests.integration.workers.local_workers import (
    LocalWorkers,
    deployment_settings,
    pool_of,
)
from workers.embedded_redis import EmbeddedRedis

pytestmark = pytest.mark.integration

PROMPT = 5.0
ENDLESS = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n, hero"
)


@pytest.fixture(scope="module")
def server() -> Iterator[FakeLlm]:
    with FakeLlm() as server:
        yield server


@pytest.fixture(scope="module")
def workers(
    server: FakeLlm, redis_server: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalWorkers]:
    """One control, one sql and one LLM worker, and a database `heroes`, for all tests here."""
    directory = tmp_path_factory.mktemp("celery-api")
    settings = deployment_settings(redis_server, "celeryapi", directory, pool_of(server.url))
    add_heroes(settings, directory / "heroes.sqlite")
    with LocalWorkers(settings, directory) as running:
        yield running.start(sql=1)


@pytest.fixture
def llm(server: FakeLlm) -> FakeLlm:
    server.reset()
    server.answer = ANSWER
    return server


@pytest.fixture
def client(workers: LocalWorkers, llm: FakeLlm) -> StockClient:
    return StockClient(stock_python(), workers.url)


def test_ask_and_get(client: StockClient, tmp_path: Path) -> None:
    result = client.run(
        """
pending = app.send_task("hexgen.ask", kwargs={
    "question": "Who can fly?", "database": "heroes", "slo_seconds": 60})
print(json.dumps([pending.id, pending.get(timeout=60), pending.state]))
""",
        tmp_path,
    )
    task_id, answer, state = result
    assert state == "SUCCESS"
    assert answer["workflow_id"] == task_id
    assert answer["status"] == "answered"
    assert answer["columns"] == ["name"]
    assert answer["rows"] == [["Ada"], ["Cy"]]
    assert answer["sql"] == SQL
    assert answer["truncated"] is False
    assert answer["deadline_met"] is True
    assert answer["slo_seconds"] == 60
    assert answer["deadline"] == pytest.approx(answer["submitted_at"] + 60)
    assert len(answer["candidates"]) == 3
    assert answer["why"]
    assert {stage["stage"] for stage in answer["stages"]} >= {
        "schema_linking",
        "candidate_generation",
        "execute_sql",
    }
    assert answer["tokens"]["input"] > 0


def test_arguments_by_position_and_the_clients_own_id_and_clock(
    client: StockClient, tmp_path: Path
) -> None:
    submitted_at = round(time.time() - 5, 3)
    answer = client.run(
        f"""
pending = app.send_task("hexgen.ask", ("Who can fly?", "heroes", 60), dict(
    tenant="acme", evidence="can_fly = 1", submitted_at={submitted_at}), task_id="mine-1")
print(json.dumps(pending.get(timeout=60)))
""",
        tmp_path,
    )
    assert answer["workflow_id"] == "mine-1"
    assert answer["tenant"] == "acme"
    assert answer["submitted_at"] == submitted_at
    assert answer["latency_seconds"] >= 5


def test_the_task_may_be_sent_to_its_own_queue(client: StockClient, tmp_path: Path) -> None:
    status = client.run(
        """
pending = app.send_task("hexgen.ask", ("Who can fly?", "heroes", 60), queue="hexgen.ask")
print(json.dumps(pending.get(timeout=60)["status"]))
""",
        tmp_path,
    )
    assert status == "answered"


def test_links_and_chains_follow_the_answer_and_error_links_a_failure(
    client: StockClient, llm: FakeLlm, tmp_path: Path
) -> None:
    """The client's own tasks, in a queue that a worker of its own would consume."""
    links, answers = client.run(
        """
def theirs(name):
    return app.signature(name, queue="theirs")

def received(count, redis):
    import base64
    from kombu.utils.json import loads
    found = {}
    while count:
        _, text = redis.brpop("theirs", 30)
        message = loads(text)
        encoded = message["properties"]["body_encoding"] == "base64"
        body = base64.b64decode(message["body"]) if encoded else message["body"]
        args, _, _ = loads(body)
        found[message["headers"]["task"]] = [args[0], message["headers"]["parent_id"]]
        count -= 1
    return found

from celery import chain
redis = app.backend.client
ask = app.signature("hexgen.ask", ("Who can fly?", "heroes", 60))
first = ask.apply_async(link=[theirs("linked"), theirs("too")], link_error=theirs("wrong"))
last = chain(ask, theirs("following"), theirs("last")).apply_async()
found = received(3, redis)
refused = app.send_task("hexgen.ask", ("Who?", "nowhere", 60), link_error=theirs("refused"))
failed = app.send_task("hexgen.ask", ("Who?", "heroes", 0.001), link_error=theirs("failed"))
found |= received(2, redis)
asked = {"linked": first.id, "too": first.id, "following": last.parent.parent.id}
print(json.dumps([
    {name: found[name][0]["workflow_id"] == id == found[name][1] for name, id in asked.items()},
    [found["refused"] == [refused.id, refused.id], found["failed"] == [failed.id, failed.id]],
]))
""",
        tmp_path,
    )
    assert links == {"linked": True, "too": True, "following": True}
    assert answers == [True, True]


@pytest.mark.parametrize(
    ("kwargs", "field"),
    [
        ({"question": "", "database": "heroes", "slo_seconds": 9}, "question"),
        ({"question": "x" * 1_000_000, "database": "heroes", "slo_seconds": 9}, "question"),
        ({"question": "q", "database": "herroes", "slo_seconds": 9}, "database"),
        ({"question": "q", "database": "heroes", "slo_seconds": 0}, "slo_seconds"),
        ({"question": "q", "database": "heroes", "slo_seconds": "soon"}, "slo_seconds"),
        ({"question": "q", "database": "heroes", "slo": 9}, "slo"),
    ],
)
def test_a_wrong_submission_fails_at_once_and_names_the_field(
    client: StockClient, tmp_path: Path, kwargs: dict[str, object], field: str
) -> None:
    name, argument, state = client.run(
        f"""
pending = app.send_task("hexgen.ask", kwargs={kwargs!r})
try:
    pending.get(timeout=30)
except Exception as error:
    print(json.dumps([type(error).__name__, error.args[0], pending.state]))
""",
        tmp_path,
    )
    assert name == "QuestionFailed"
    assert state == "FAILURE"
    assert argument["field"] == field
    assert argument["status"] == "failed"
    assert argument["stage"] == "submission"
    assert argument["hint"]


def test_failure_says_stage_cause_and_last_sql(
    client: StockClient, llm: FakeLlm, tmp_path: Path
) -> None:
    llm.answer = "```sql\nSELECT wingspan FROM hero\n```"
    argument = client.run(
        """
pending = app.send_task("hexgen.ask", kwargs={
    "question": "How wide?", "database": "heroes", "slo_seconds": 60,
    "options": {"candidates": 1, "correction_rounds": 1}})
try:
    pending.get(timeout=60)
except Exception as error:
    print(json.dumps(error.args[0]))
""",
        tmp_path,
    )
    assert argument["status"] == "failed"
    assert argument["stage"]
    assert "wingspan" in argument["cause"]
    assert argument["last_sql"] == "SELECT wingspan FROM hero"


def test_revoke_of_a_running_question(client: StockClient, llm: FakeLlm, tmp_path: Path) -> None:
    llm.holding = True
    name, state = client.run(
        """
import time
pending = app.send_task("hexgen.ask", ("Who can fly?", "heroes", 60))
time.sleep(1.5)
pending.revoke(terminate=True)
try:
    pending.get(timeout=30)
except Exception as error:
    print(json.dumps([type(error).__name__, pending.state]))
""",
        tmp_path,
    )
    assert (name, state) == ("TaskRevokedError", "REVOKED")
    llm.wait_open(0, seconds=5.0)


def test_revoke_kills_the_statement_that_runs(
    client: StockClient, workers: LocalWorkers, llm: FakeLlm, tmp_path: Path
) -> None:
    llm.answer = f"```sql\n{ENDLESS}\n```"
    pending = workers.client.send_task(
        "hexgen.ask", ("For ever?", "heroes", 60), {"options": {"candidates": 1}}
    )
    busy = _busy_sandbox(workers)
    client.run(f"app.control.revoke({pending.id!r}, terminate=True); print(1)", tmp_path)
    revoked_at = time.monotonic()
    busy.wait(timeout=5.0)
    assert time.monotonic() - revoked_at < PROMPT
    with pytest.raises(TaskRevokedError):
        pending.get(timeout=30)


def _busy_sandbox(workers: LocalWorkers) -> psutil.Process:
    """The sandbox program of the sql worker that is working."""
    worker = psutil.Process(workers.processes["sql-1"].pid)
    until = time.monotonic() + 30
    while time.monotonic() < until:
        for program in worker.children(recursive=True):
            if program.cpu_percent(0.2) > 20.0:
                return program
    raise AssertionError("no sandbox program is busy")


def test_revoke_of_a_question_that_nobody_has_received(
    client: StockClient, workers: LocalWorkers, llm: FakeLlm, tmp_path: Path
) -> None:
    """It ends revoked at once, and does not start when its message comes to a control worker that
    was not there to hear the revoke."""
    name, state = client.run(
        """
app.control.revoke("late-1")
try:
    app.AsyncResult("late-1").get(timeout=30)
except Exception as error:
    print(json.dumps([type(error).__name__, app.AsyncResult("late-1").state]))
""",
        tmp_path,
    )
    assert (name, state) == ("TaskRevokedError", "REVOKED")
    workers.stop("control-1")
    workers.control("control-2")
    state = client.run(
        """
pending = app.send_task("hexgen.ask", ("Who can fly?", "heroes", 60), task_id="late-1")
marker = app.send_task("hexgen.ask", ("Who can fly?", "heroes", 60))
marker.get(timeout=60)
print(json.dumps(pending.state))
""",
        tmp_path,
    )
    assert state == "REVOKED"
    assert not [r for r in llm.requests if r["metadata"]["workflow"] == "late-1"]
