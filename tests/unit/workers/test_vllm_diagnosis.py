"""The end of a vLLM log as one line for a person, with a way out."""

from __future__ import annotations

import pytest

from workers.vllm_diagnosis import ending, hint_for, quoted

LOG = [
    "(EngineCore pid=9) ERROR 11-30 20:58:01 [core.py:866] EngineCore failed to start.",
    "(EngineCore pid=9) ERROR 11-30 20:58:01 [core.py:866] Traceback (most recent call last):",
    '  File "/venv/vllm/v1/engine/core.py", line 857, in run',
    "    ^^^^^^^^^^^^^^",
    "    raise ValueError(",
    "(EngineCore pid=9) ERROR 11-30 20:58:01 [core.py:866] ValueError: To serve at least one "
    "request with max seq len (131072), 4.0 GiB KV cache is needed, which is larger than the "
    "available KV cache memory (1.0 GiB).",
    "(APIServer pid=8) RuntimeError: Engine core initialization failed.",
]


def test_what_is_quoted_speaks_without_frames_and_stamps() -> None:
    text = quoted(LOG)
    assert text.startswith("EngineCore failed to start. | Traceback")
    assert "KV cache is needed" in text
    assert text.endswith("| RuntimeError: Engine core initialization failed.")
    assert "core.py" not in text
    assert "\n" not in text


def test_an_empty_log_is_said_to_be_empty() -> None:
    assert quoted([]) == "(nothing)"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (LOG[5], "lower max_model_len"),
        ("torch.OutOfMemoryError: CUDA out of memory.", "lower max_model_len"),
        ("OSError: [Errno 98] Address already in use", "another `port`"),
        ("vllm serve: error: unrecognized arguments: --nope", "extra_args"),
        ("RuntimeError: operator torchvision::nms does not exist", "make vllm-env"),
        ("RuntimeError: Failed to infer device type", "nvidia-smi"),
        ("OSError: x is not a valid model identifier", "set `model`"),
        ("something else", "look at the log"),
    ],
)
def test_known_causes_have_a_way_out(line: str, hint: str) -> None:
    assert hint in hint_for(["before", line], 1)


def test_a_killed_server_may_have_wanted_memory() -> None:
    assert "dmesg" in hint_for([], -9)
    assert ending(-9) == "was killed by SIGKILL"
    assert ending(1) == "ended with status 1"
    assert ending(None) == "did not answer"
