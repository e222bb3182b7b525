"""The typed Python API on a running cluster."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hexgen_celery.api import AnswerPending, Client, NoAnswer, Question
from hexgen_celery.errors import (
    BrokerUnavailable,
    InvalidDatabase,
    InvalidSubmission,
    UnknownDatabase,
    UnknownWorkflow,
)

from .conftest import RunningCluster

pytestmark = pytest.mark.integration
KNOWN = {"question_key": "cities:all"}
SLOW = {"question_key": "cities:slow", "max_tokens": 25_000, "linking": "model"}


def test_an_answer_has_rows_sql_candidates_and_times(cluster: RunningCluster) -> None:
    before = time.time()
    pending = cluster.client.ask("Which cities?", "cities", 60, options=KNOWN)
    answer = pending.result(timeout=60)
    assert answer.id == pending.id
    assert answer.columns == ("name",)
    assert answer.rows == (("Nara",), ("Reykjavík",), ("Tokyo",))
    assert answer.sql == "SELECT name FROM city ORDER BY name"
    assert len(answer.candidates) == 3
    assert answer.why
    assert answer.deadline_met
    assert before <= answer.submitted_at <= answer.finished_at <= time.time()
    assert answer.latency_seconds == pytest.approx(
        answer.finished_at - answer.submitted_at, abs=1e-3
    )
    assert answer.tokens.input > answer.tokens.output > 0
    assert {stage["stage"] for stage in answer.stages} >= {"schema_linking", "execute_sql"}
    assert not answer.best_effort
    assert not answer.truncated


def test_the_answer_can_be_read_again_by_another_client(cluster: RunningCluster) -> None:
    pending = cluster.client.ask("Which cities?", "cities", 60, options=KNOWN)
    first = pending.result(timeout=60)
    assert pending.result(timeout=1) == first


def test_a_failure_names_stage_cause_and_last_sql(cluster: RunningCluster) -> None:
    options = {"question_key": "cities:broken"}
    pending = cluster.client.ask("Which cities?", "cities", 60, options=options)
    with pytest.raises(NoAnswer) as caught:
        pending.result(timeout=60)
    failure = caught.value
    assert failure.status == "failed"
    assert failure.stage == "self_correction"
    assert "nowhere" in failure.cause
    assert failure.last_sql == "SELECT name FROM nowhere"
    assert failure.latency_seconds is not None


def test_many_come_as_they_are_ready(cluster: RunningCluster) -> None:
    keys = ["cities:all", "cities:disputed", "cities:broken", "cities:all"]
    asked = [Question("Which?", "cities", 60, options={"question_key": key}) for key in keys]
    pendings = cluster.client.ask_many(asked)
    ends = dict(cluster.client.completed(pendings, timeout=60))
    assert [isinstance(ends[pending], NoAnswer) for pending in pendings] == [
        False,
        False,
        True,
        False,
    ]


def test_a_slow_question_can_be_watched_and_cancelled(cluster: RunningCluster) -> None:
    client = cluster.client
    pending = client.ask("Slowly?", "cities", 600, tenant="tests", options=SLOW)
    with pytest.raises(AnswerPending, match="has not ended within"):
        pending.result(timeout=0.2)
    _until_known(client, pending.id)
    status = client.status(pending.id)
    assert (status.status, status.tenant, status.slo_seconds) == ("running", "tests", 600)
    assert pending.id in [running.id for running in client.running()]
    assert any(event["event"] == "started" for event in client.trace(pending.id))
    assert pending.cancel()
    outcome = pending.outcome(timeout=10)
    assert isinstance(outcome, NoAnswer)
    assert outcome.status == "cancelled"
    assert not pending.cancel(), "it had ended already"
    assert client.status(pending.id).finished_at is not None


def test_a_question_can_be_cancelled_at_any_moment_of_its_beginning(
    cluster: RunningCluster,
) -> None:
    """On its way, accepted and not begun, begun: there is no moment in which it is unknown."""
    for step in range(40):
        pending = cluster.client.ask("Slowly?", "cities", 600, options=SLOW)
        time.sleep(step / 2_000)
        assert pending.cancel()


def test_the_deadline_ends_a_slow_question(cluster: RunningCluster) -> None:
    outcome = cluster.client.ask("Slowly?", "cities", 1.0, options=SLOW).outcome(timeout=30)
    assert isinstance(outcome, NoAnswer)
    assert outcome.status == "expired"


@pytest.mark.parametrize(
    ("question", "database", "slo", "options", "field"),
    [
        ("", "cities", 10, {}, "question"),
        ("x" * 1_000_000, "cities", 10, {}, "question"),
        ("Which?", "cities", 0, {}, "slo_seconds"),
        ("Which?", "cities", -1, {}, "slo_seconds"),
        ("Which?", "cities", float("nan"), {}, "slo_seconds"),
        ("Which?", "cities", 10, {"candidatez": 1}, "candidatez"),
    ],
)
def test_bad_input_is_refused_before_it_is_sent(
    cluster: RunningCluster,
    question: str,
    database: str,
    slo: float,
    options: dict[str, int],
    field: str,
) -> None:
    with pytest.raises(InvalidSubmission) as caught:
        cluster.client.ask(question, database, slo, options=options)
    assert caught.value.field == field
    assert caught.value.hint


def test_one_bad_question_among_many_sends_none(cluster: RunningCluster) -> None:
    before = len(cluster.client.running())
    with pytest.raises(UnknownDatabase):
        cluster.client.ask_many(
            [Question("Slow?", "cities", 60, options=SLOW), Question("?", "no")]
        )
    assert len(cluster.client.running()) == before


def test_unknown_ids_say_so(cluster: RunningCluster) -> None:
    for look in (cluster.client.status, cluster.client.trace, cluster.client.cancel):
        with pytest.raises(UnknownWorkflow, match="nobody"):
            look("nobody")


def test_databases_can_be_listed_and_wrong_files_are_refused(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    assert "cities" in [entry.name for entry in cluster.client.databases()]
    wrong = tmp_path / "wrong.sqlite"
    wrong.write_text("a,b\n1,2\n")
    with pytest.raises(InvalidDatabase):
        cluster.client.add_database(wrong)


def test_queues_list_every_pool_with_its_instance(cluster: RunningCluster) -> None:
    served = {queue.name: queue.instances for queue in cluster.client.queues()}
    assert served["gpu.a100.demo"] == ("a100-1",)
    assert served["gpu.l40s.demo"] == ("l40s-1",)


def test_a_client_by_url(cluster: RunningCluster) -> None:
    url = cluster.client.settings.broker.url.get_secret_value()
    with Client(url) as client:
        answer = client.ask("Which cities?", "cities", 60, options=KNOWN).result(timeout=60)
    assert answer.deadline_met


def test_no_redis_there_is_a_clear_error() -> None:
    with pytest.raises(BrokerUnavailable) as caught:
        Client("redis://127.0.0.1:1/0")
    assert caught.value.hint


def _until_known(client: Client, workflow_id: str, seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            client.status(workflow_id)
        except UnknownWorkflow:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"{workflow_id} was never accepted")
