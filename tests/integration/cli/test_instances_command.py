"""`hexgen instances` and `hexgen policy` on a real Redis."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner, Result

from hexgen_celery.cli.root import hexgen
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.instances import InstanceDirectory, InstanceRecord, InstanceState
from hexgen_celery.keys import Keys
from hexgen_celery.policies import PolicyStore

pytestmark = pytest.mark.integration

KEYS = Keys("hexgen")
RECORD = InstanceRecord("a1", "gpu.a100.x", "a100", "m", "p", "http://1", "llm-a1@h", 64)


@pytest.fixture(autouse=True)
def _on_the_tests_redis(redis_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEXGEN_BROKER__URL", redis_url)


def _hexgen(*arguments: str) -> Result:
    return CliRunner().invoke(hexgen, arguments)


def test_instances_are_shown_with_state_and_reason(redis_client: redis.Redis) -> None:
    directory = InstanceDirectory(redis_client, KEYS)
    directory.announce(RECORD)
    refused = InstanceRecord(
        "b1", "gpu.l40s.y", "l40s", "m", "p", "http://2", "w", 8, InstanceState.DOWN,
        reason="the server has 4096",
    )  # fmt: skip
    directory.announce(refused)
    shown = _hexgen("instances")
    assert shown.exit_code == 0, shown.output
    assert "ready" in shown.output
    assert "the server has 4096" in shown.output
    listed = json.loads(_hexgen("instances", "--json").output)
    assert {one["name"]: one["state"] for one in listed["instances"]} == {
        "a1": "ready",
        "b1": "down",
    }
    assert listed["estimates"]["questions"] == 0


def test_an_instance_is_drained_and_resumed(redis_client: redis.Redis) -> None:
    directory = InstanceDirectory(redis_client, KEYS)
    directory.announce(RECORD)
    assert _hexgen("instances", "drain", "a1").exit_code == 0
    assert directory.announce(RECORD) is True
    assert "resumes" in _hexgen("instances", "resume", "a1").output
    assert directory.announce(RECORD) is False
    assert "was not drained" in _hexgen("instances", "resume", "a1").output


def test_an_instance_that_nobody_knows_is_not_drained(redis_client: redis.Redis) -> None:
    InstanceDirectory(redis_client, KEYS).announce(RECORD)
    refused = _hexgen("instances", "drain", "al")
    assert refused.exit_code != 0
    assert "unknown instance 'al'" in str(refused.exception)
    assert redis_client.hlen(KEYS.drains) == 0


def test_an_instance_that_nobody_knows_is_not_resumed(redis_client: redis.Redis) -> None:
    directory = InstanceDirectory(redis_client, KEYS)
    directory.announce(RECORD)
    refused = _hexgen("instances", "resume", "al")
    assert isinstance(refused.exception, InvalidSettings)
    assert refused.exception.hint == "known: a1"
    directory.drain("gone")
    assert "resumes" in _hexgen("instances", "resume", "gone").output, "it was drained, and left"


def test_an_instance_that_is_declared_can_be_drained_before_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "hexgen.toml").write_text(
        '[[pools]]\nname = "x"\ngpu = "a100"\nmodel = "m"\nprofile = "a100-80g-x4-llama-3.1-70b"\n'
        'instances = [{ name = "later", url = "http://h:1" }]\n'
    )
    assert _hexgen("instances", "drain", "later").exit_code == 0


def test_an_instance_that_fell_silent_is_down_and_says_since_when(
    redis_client: redis.Redis,
) -> None:
    silent = {**asdict(RECORD), "beat": 1.0}
    redis_client.hset(KEYS.instances, RECORD.name, json.dumps(silent))
    (listed,) = json.loads(_hexgen("instances", "--json").output)["instances"]
    assert listed["state"] == "down"
    assert "not been heard of for" in listed["reason"]


def test_a_policy_for_a_model_or_tenant_that_nobody_knows_is_refused(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    (tmp_path / "hexgen.toml").write_text('[[tenants]]\nname = "acme"\n')
    InstanceDirectory(redis_client, KEYS).announce(RECORD)
    for wrong in (("--model", "mm"), ("--tenant", "acmee")):
        refused = _hexgen("policy", "set", "round-robin", *wrong)
        assert isinstance(refused.exception, InvalidSettings)
        assert repr(wrong[1]) in str(refused.exception)
    for right in (("--model", "m", "--tenant", "acme"), ("--tenant", "default")):
        assert _hexgen("policy", "set", "round-robin", *right).exit_code == 0


def test_a_policy_for_everything_says_so() -> None:
    assert _hexgen("policy", "set", "round-robin").exit_code == 0
    assert "all" in _hexgen("policy").output.split()


def test_a_policy_is_set_shown_and_cleared(redis_client: redis.Redis) -> None:
    done = _hexgen("policy", "set", "alpha", "--parameters", '{"alpha": 0.3}', "--tenant", "t")
    assert done.exit_code == 0, done.output
    (choice,) = PolicyStore(redis_client, KEYS).read().values()
    assert (choice.dispatch, dict(choice.parameters)) == ("alpha", {"alpha": 0.3})
    assert "t@" in _hexgen("policy").output
    assert "cleared" in _hexgen("policy", "clear", "--tenant", "t").output
    assert "nothing was set" in _hexgen("policy", "clear").output


def test_a_stored_policy_that_cannot_be_used_is_named_beside_the_others(
    redis_client: redis.Redis,
) -> None:
    assert _hexgen("policy", "set", "round-robin").exit_code == 0
    redis_client.hset(KEYS.policies, mapping={"t@": "no json", "u@": '{"dispatch": "psychic"}'})
    shown = _hexgen("policy")
    assert shown.exit_code == 0, shown.exception
    assert {"round-robin", "t@", "u@", "'psychic';"} <= set(shown.output.split())
    assert shown.output.count("not usable") == 2


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("clairvoyant",), "clairvoyant"),
        (("alpha", "--parameters", '{"alpha": 3}'), "alpha"),
        (("alpha", "--parameters", "no json"), "not JSON"),
        (("alpha", "--parameters", "[1]"), "JSON object"),
    ],
)
def test_a_wrong_policy_is_refused(arguments: tuple[str, ...], complaint: str) -> None:
    refused = _hexgen("policy", "set", *arguments)
    assert refused.exit_code != 0
    assert complaint in refused.output + str(refused.exception)
