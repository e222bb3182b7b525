"""Modules of commands are imported without looking for garbage, which goes on afterwards."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hexgen_celery.cli.imports import import_quickly

SECONDS = 60.0


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where modules can be imported from; they are forgotten, and what is frozen thawed."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]
    gc.unfreeze()


def test_nothing_is_collected_meanwhile(modules: Path) -> None:
    (modules / "said_by_gc.py").write_text("import gc\nenabled = gc.isenabled()\n")
    assert import_quickly("said_by_gc").enabled is False
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


def test_a_module_that_fails_leaves_collecting_as_it_was(modules: Path) -> None:
    (modules / "no_module_at_all.py").write_text("raise ImportError('it is broken')\n")
    with pytest.raises(ImportError, match="it is broken"):
        import_quickly("no_module_at_all")
    assert gc.isenabled()


def test_who_does_not_collect_is_left_so(modules: Path) -> None:
    (modules / "plain.py").write_text("value = 1\n")
    gc.disable()
    try:
        assert import_quickly("plain").value == 1
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_garbage_of_a_command_is_still_collected() -> None:
    program = (
        "import gc, weakref\n"
        "from hexgen_celery.cli.imports import import_quickly\n"
        "import_quickly('json.tool')\n"
        "class Node: pass\n"
        "node = Node(); node.me = node; seen = weakref.ref(node); del node\n"
        "gc.collect()\n"
        "raise SystemExit(seen() is not None)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], timeout=SECONDS, check=False)
    assert done.returncode == 0
