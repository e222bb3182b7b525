"""The directory of one evaluation run: what it is, its traces, its scores and its report."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hexgen_celery import __version__
from hexgen_celery.errors import HexgenError
from hexgen_celery.evaluation.asked_file import AskedFile
from hexgen_celery.evaluation.traces import TraceFile
from hexgen_celery.workflows.stage_contract import LinkedSchema, Question, Stages

MANIFEST = "run.json"


class RunMismatch(HexgenError):
    """Raised when a directory holds another run than the one that is to be continued. Name an
    empty directory, or ask for the run it holds."""

    code = "run_mismatch"


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """What decides a run's results: two runs with one identity may share their traces.

    `dataset` names question file and subset with a hash of the questions, `pipeline` the effective
    options of every question, `models` what is served, `prompts` the hash of each stage's fixed
    instructions, `answers` what answers (a model, or which replayed files).
    """

    benchmark: str
    dataset: Mapping[str, Any]
    pipeline: Mapping[str, Any]
    models: tuple[str, ...]
    prompts: Mapping[str, str]
    answers: Mapping[str, Any]
    version: str = __version__

    def to_json(self) -> dict[str, Any]:
        """The identity as plain values."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain


class RunDirectory:
    """One run on disk."""

    def __init__(self, path: Path, identity: RunIdentity) -> None:
        self.path = path
        self.identity = identity
        self.traces = TraceFile(path / "traces.jsonl")
        self.asked = AskedFile(path / "asked.jsonl")

    @classmethod
    def open(cls, path: Path, identity: RunIdentity) -> RunDirectory:
        """Begin a run in `path`, or take up the same run that was broken off there.

        Raises:
            RunMismatch: another run is there; the message names what differs.
        """
        path.mkdir(parents=True, exist_ok=True)
        manifest = path / MANIFEST
        if manifest.is_file():
            _compare(path, json.loads(manifest.read_text(encoding="utf-8")), identity.to_json())
        else:
            _write_json(manifest, identity.to_json())
        return cls(path, identity)

    def write(self, name: str, content: Mapping[str, Any]) -> Path:
        """Write a JSON file beside the traces; returns its path."""
        return _write_json(self.path / name, content)

    def read(self, name: str) -> dict[str, Any]:
        """A JSON file beside the traces; empty when there is none."""
        path = self.path / name
        if not path.is_file():
            return {}
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return content


def prompt_hashes(stages: Stages) -> dict[str, str]:
    """The fixed instructions of each request by the hash of their text."""
    asked = Question("")
    linked = LinkedSchema()
    prompts = {
        "link": stages.schema_linking.prompt(asked),
        "candidate": stages.candidate_generation.prompt(asked, linked, 1),
        "revise": stages.self_correction.prompt(asked, linked, ()),
        "unit_tests": stages.evaluation.unit_tests_prompt(asked, ()),
        "choose": stages.evaluation.choice_prompt(asked, (), ()),
    }
    return {step: text_hash(prompt.instructions) for step, prompt in prompts.items()}


def text_hash(text: str) -> str:
    """SHA-256 of the text, in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _compare(path: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    differing = [name for name in wanted if found.get(name) != wanted[name]]
    if differing:
        first = differing[0]
        raise RunMismatch(
            f"{path} holds a run with other {', '.join(differing)}:"
            f" {first} is {found.get(first)!r} there and {wanted[first]!r} now",
            field="out",
            hint="name another directory with --out, or repeat the run with the settings it has",
        )


def _write_json(path: Path, content: Mapping[str, Any]) -> Path:
    text = json.dumps(content, indent=2, ensure_ascii=False, default=str)
    path.write_text(text + "\n", encoding="utf-8")
    return path
