"""A wrong configuration is refused in words that name the setting and how to mend it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hexgen_celery.errors import InvalidSettings
from hexgen_celery.settings import Settings, load_settings
from hexgen_celery.settings.problems import misspelt_variable

POOL = """
[[pools]]
name = "qwen"
{gpu} = "a100"
model = "m"
profile = "p"
instances = [{{ name = "a100-1", {engine} }}]
"""


def refusal_of(tmp_path: Path, text: str) -> InvalidSettings:
    file = tmp_path / "hexgen.toml"
    file.write_text(text)
    with pytest.raises(InvalidSettings) as caught:
        load_settings(file)
    return caught.value


def test_a_misspelt_setting_is_told_before_the_one_that_is_missing_for_it(tmp_path: Path) -> None:
    error = refusal_of(tmp_path, POOL.format(gpu="gpus", engine='engine = "emulated"'))
    assert error.message == "unknown setting pools.0.gpus"
    assert error.hint.startswith("did you mean gpu? ")


def test_a_misspelt_setting_of_a_table_in_a_table_is_guessed(tmp_path: Path) -> None:
    error = refusal_of(tmp_path, POOL.format(gpu="gpu", engine='engin = "emulated"'))
    assert error.message == "unknown setting pools.0.instances.0.engin"
    assert "did you mean engine?" in error.hint


def test_a_misspelt_section_is_guessed(tmp_path: Path) -> None:
    error = refusal_of(tmp_path, '[brokr]\nurl = "x"\n')
    assert (error.message, error.hint[:22]) == ("unknown setting brokr", "did you mean broker? s")


def test_a_rule_of_ours_is_told_in_our_words_alone(tmp_path: Path) -> None:
    error = refusal_of(tmp_path, POOL.format(gpu="gpu", engine='engine = "external"'))
    assert error.message.startswith("pools.0.instances.0: instance 'a100-1' needs `url`")


def test_an_instance_must_not_be_dead_between_two_heartbeats(tmp_path: Path) -> None:
    error = refusal_of(tmp_path, "[workers]\nheartbeat_seconds = 10")
    assert "dead_after_seconds = 10 must exceed heartbeat_seconds = 10" in error.message


def test_a_tuned_tenant_that_nobody_can_be_is_refused(tmp_path: Path) -> None:
    tuner = "[tuner]\ntenants = ['default', {!r}]\n"
    declared = tuner + "[[tenants]]\nname = 'acme'\n"
    error = refusal_of(tmp_path, declared.format("acmee"))
    assert error.message == ("tuner: tenants names 'acmee', which is unknown; known: acme, default")
    file = tmp_path / "hexgen.toml"
    for text, tenant in ((declared, "acme"), (tuner, "anybody")):
        file.write_text(text.format(tenant))
        assert load_settings(file).tuner.tenants == ("default", tenant)


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("HEXGEN_BROKR__URL", "did you mean HEXGEN_BROKER__URL?"),
        ("HEXGEN_BROKER_URL", "write it as HEXGEN_BROKER__URL"),
        ("hexgen_sql_max_rows", "write it as HEXGEN_SQL__MAX_ROWS"),
        ("HEXGEN_ZZZ__YYY", "see docs/configuration.md"),
    ],
)
def test_a_variable_that_sets_nothing_is_refused(
    variable: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "x")
    with pytest.raises(InvalidSettings, match=f"{variable} sets nothing") as caught:
        load_settings()
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("HEXGEN_SQL__PROCESES", "unknown setting sql.proceses"),
        ("hexgen_sql__processes", "sql.processes: "),
    ],
)
def test_a_variable_that_is_to_blame_is_named(
    variable: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "three")
    with pytest.raises(InvalidSettings, match=message) as caught:
        load_settings()
    assert caught.value.hint.startswith(f"{variable} sets it; ")


@pytest.mark.parametrize(
    "variable", ["HEXGEN_DATA", "HEXGEN_REDIS_PASSWORD", "PATH", "XBROKER_URL"]
)
def test_other_variables_are_left_alone(variable: str) -> None:
    assert misspelt_variable([variable], Settings) is None


def test_every_setting_can_be_set_by_its_own_variable() -> None:
    assert misspelt_variable(["HEXGEN_BROKER__URL", "HEXGEN_STAGES_MODULE"], Settings) is None


@pytest.mark.parametrize("variable", ["HEXGEN_POOLS", "HEXGEN_WORKFLOW_MODULES"])
def test_a_list_that_is_no_json_is_refused(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "x")
    with pytest.raises(InvalidSettings, match=variable.removeprefix("HEXGEN_").lower()) as caught:
        load_settings()
    assert "JSON" in caught.value.hint
