"""The precision of the small model follows from what the processor can multiply."""

from __future__ import annotations

from pathlib import Path

import pytest

from hexgen_celery.cli.cpu_precision import BFLOAT16, FLOAT32, Precision, quick_precision


@pytest.mark.parametrize(
    ("line", "precision"),
    [
        ("flags\t\t: fpu avx2 avx512f avx512_bf16 vaes", BFLOAT16),
        ("flags\t\t: fpu avx2 amx_bf16 amx_tile", BFLOAT16),
        ("Features\t: fp asimd bf16 sve", BFLOAT16),
        ("flags\t\t: fpu fma avx f16c avx2", FLOAT32),
        ("flags\t\t: fpu avx512f not_bf16s", FLOAT32),
        ("model name\t: a processor with bf16 in its name", FLOAT32),
    ],
)
def test_bfloat16_needs_instructions_for_it(
    tmp_path: Path, line: str, precision: Precision
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\n{line}\npower management:\n")
    assert quick_precision(cpuinfo) == precision


def test_an_unknown_processor_gets_what_every_one_computes(tmp_path: Path) -> None:
    assert quick_precision(tmp_path / "missing") == FLOAT32
