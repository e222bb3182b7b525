"""For whom a weight is tuned, and which questions are theirs."""

from __future__ import annotations

from hexgen_celery.instances import InstanceRecord
from hexgen_celery.live_tuning.scopes import TuningScope, for_model, of_scope, scopes_of
from hexgen_celery.tracing.history import RecordedQuestions
from hexgen_celery.workflows.definition import Submission


def _record(name: str, model: str) -> InstanceRecord:
    return InstanceRecord(name, "gpu.a.x", "a", model, "p", "http://1", "w", 64)


def _asked(tenant: str, model: str) -> Submission:
    options = {"model": model} if model else {}
    return Submission("w", "chat", "q", "", 1.0, 0.0, 1.0, tenant=tenant, options=options)


def test_one_model_is_the_whole_deployment() -> None:
    assert scopes_of([_record("a", "m"), _record("b", "m")], ()) == [TuningScope()]
    assert TuningScope().name == "@"


def test_several_models_have_a_weight_each_and_so_has_each_named_tenant_on_them() -> None:
    found = scopes_of([_record("a", "m"), _record("b", "n")], ["acme"])
    assert [scope.name for scope in found] == ["@m", "acme@m", "@n", "acme@n"]


def test_the_narrowest_policy_is_in_force() -> None:
    assert TuningScope("m", "acme").wider == ("acme@m", "acme@", "@m", "@")
    assert TuningScope().wider == ("@",)


def test_a_scope_has_its_own_instances_and_questions() -> None:
    records = [_record("a", "m"), _record("b", "n")]
    assert TuningScope("n").served_by(records) == records[1:]
    assert TuningScope().served_by(records) == records
    missed = (_asked("acme", "m"), _asked("acme", ""), _asked("other", "n"))
    recorded = RecordedQuestions((), missed=missed)
    assert for_model(recorded, "") is recorded
    assert for_model(recorded, "m").missed == missed[:2]
    assert of_scope(recorded, TuningScope("", "other")).missed == missed[2:]
