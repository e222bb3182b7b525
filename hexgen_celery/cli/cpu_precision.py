"""In which precision the processor at hand computes a small model quickly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_BFLOAT16_UNITS = re.compile(
    r"^(?:flags|Features)\s*:.*\b(?:avx512_bf16|amx_bf16|bf16)\b", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Precision:
    """`dtype` as vLLM names it; `kv_gib` holds as many tokens in one as in the other."""

    dtype: str
    kv_gib: int


BFLOAT16 = Precision("bfloat16", 1)
FLOAT32 = Precision("float32", 2)


def quick_precision(cpuinfo: Path = _CPUINFO) -> Precision:
    """bfloat16 where the processor multiplies it by itself; else float32.

    Without such instructions a prompt in bfloat16 takes several times as long as in float32.
    """
    try:
        has_units = _BFLOAT16_UNITS.search(cpuinfo.read_text(encoding="utf-8"))
    except OSError:
        return FLOAT32
    return BFLOAT16 if has_units else FLOAT32
