"""A program with vLLM's command line that serves an emulated server, to test who keeps it running.

Like vLLM it has a child, its engine, whose process id it prints. With the model `broken` it dies at
once with a message of vLLM's. Real vLLM is kept running in tests/vllm.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

PROFILE = "l40s-x1-qwen3-30b-a3b"
_PROGRAM = """#!{python}
import os, subprocess, sys
arguments = sys.argv[1:]
def value(flag):
    return arguments[arguments.index(flag) + 1]
engine = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("engine", engine.pid, sorted(n for n in os.environ if n.startswith("HEXGEN_")), flush=True)
if arguments[1] == "org/broken":
    sys.exit("torch.OutOfMemoryError: CUDA out of memory.")
os.execv(sys.executable, [
    sys.executable, "-m", "workers.emulator", "--model", value("--served-model-name"),
    "--port", value("--port"), "--constant-seconds", "0.01",
    "--max-model-len", {served_context} or value("--max-model-len"),
])
"""


def write_program(path: Path, served_context: str = "") -> Path:
    """The executable; with `served_context` it serves another context than it is told to."""
    path.write_text(_PROGRAM.format(python=sys.executable, served_context=repr(served_context)))
    path.chmod(0o755)
    return path


def write_config(home: Path, program: Path, port: int, model: str = "org/fine") -> Path:
    """A configuration with the instance `one`, whose server `program` is."""
    config = home / "hexgen.toml"
    config.write_text(
        f"[up]\ndirectory = {json.dumps(str(home / 'up'))}\n"
        '[[pools]]\nname = "p"\ngpu = "l40s"\nmodel = "m"\nmax_model_len = 4096\n'
        f"profile = {json.dumps(PROFILE)}\n"
        '[[pools.instances]]\nname = "one"\nengine = "vllm"\n'
        f"port = {port}\n"
        f"[pools.instances.vllm]\nmodel = {json.dumps(model)}\n"
        f"executable = {json.dumps(str(program))}\n"
    )
    return config
