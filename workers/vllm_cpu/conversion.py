"""Convert quantised weights into models that vLLM loads: `conversion.py WEIGHTS REAL DUMMY`.

A program of its own that imports nothing of ours: it runs in the environment that has
`transformers` (.venv-vllm), which the project's own environment has not.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

DUMMY_LAYERS = 2
DUMMY_HIDDEN = 64
DUMMY_INTERMEDIATE = 128
DUMMY_HEADS = 2
DUMMY_KV_HEADS = 1
DUMMY_HEAD_DIMENSION = 32


def convert_real(weights: Path, target: Path) -> tuple[Any, Any]:
    """Write the dequantised model (bfloat16); returns its configuration and its tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    source: dict[str, Any] = {"gguf_file": weights.name}
    tokenizer = AutoTokenizer.from_pretrained(weights.parent, **source)
    model = AutoModelForCausalLM.from_pretrained(
        weights.parent,
        **source,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
    return model.config, tokenizer


def write_dummy(config: Any, tokenizer: Any, target: Path) -> None:
    """Write the two-layer model: a configuration without weights (`--load-format dummy`)."""
    changed = config.to_dict() | {
        "num_hidden_layers": DUMMY_LAYERS,
        "hidden_size": DUMMY_HIDDEN,
        "intermediate_size": DUMMY_INTERMEDIATE,
        "num_attention_heads": DUMMY_HEADS,
        "num_key_value_heads": DUMMY_KV_HEADS,
        "head_dim": DUMMY_HEAD_DIMENSION,
    }
    type(config).from_dict(changed).save_pretrained(target)
    tokenizer.save_pretrained(target)


def main(weights: Path, real: Path, dummy: Path) -> None:
    """Make both models."""
    config, tokenizer = convert_real(weights, real)
    write_dummy(config, tokenizer, dummy)


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:4]))
