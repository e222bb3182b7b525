"""What must be there before a vLLM server can start: the program, the model, the port."""

from __future__ import annotations

import json
import re
import shutil
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hexgen_celery.errors import InvalidSettings, MissingPrerequisite

REPOSITORY = re.compile(r"^[A-Za-z0-9][\w.-]*(/[\w.-]+)?$")


def find_program(executable: str) -> str:
    """The path of vLLM's program: as given, or by its name beside this Python and in `PATH`.

    Raises:
        MissingPrerequisite: there is none.
    """
    beside = Path(sys.executable).parent / executable
    found = shutil.which(executable) if "/" in executable else None
    found = found or shutil.which(str(beside)) or shutil.which(executable)
    if found is None:
        raise MissingPrerequisite(
            f"vLLM is not installed: there is no program {executable!r}",
            field="vllm.executable",
            hint="on a machine with GPUs: pip install 'hexgen-celery[vllm]'; without: make "
            'vllm-env, and executable = ".venv-vllm/bin/vllm"',
        )
    return found


def check_model(model: str, context_tokens: int, tensor_parallel: int) -> None:
    """Look at a model that lies on this machine; a repository's name is left to vLLM.

    Raises:
        MissingPrerequisite: the directory holds no model.
        InvalidSettings: the model is too small for the context or cannot be shared by the GPUs.
    """
    directory = Path(model)
    if not directory.is_dir() and REPOSITORY.match(model):
        return
    try:
        config = json.loads((directory / "config.json").read_bytes())
    except (OSError, ValueError) as error:
        raise MissingPrerequisite(
            f"there is no model in {model} ({_cause(error)})",
            field="vllm.model",
            hint="name a directory with a config.json, or a repository; `make model` makes the "
            "small models under build/models",
        ) from error
    _check_context(config, model, context_tokens)
    _check_heads(config, model, tensor_parallel)


def check_port(host: str, port: int) -> None:
    """Make sure that the server can listen there.

    Raises:
        InvalidSettings: another program has the port.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise InvalidSettings(
            f"cannot listen on {host}:{port}: {error.strerror}",
            field="instances.port",
            hint="stop the program that holds it, or choose another port",
        ) from error


def _check_context(config: Mapping[str, Any], model: str, context_tokens: int) -> None:
    own = config.get("max_position_embeddings")
    if isinstance(own, int) and context_tokens > own and not config.get("rope_scaling"):
        raise InvalidSettings(
            f"the pool's context is {context_tokens} tokens, but {model} was made for {own}",
            field="pools.max_model_len",
            hint=f"set the pool's max_model_len = {own} or less",
        )


def _check_heads(config: Mapping[str, Any], model: str, tensor_parallel: int) -> None:
    heads = config.get("num_attention_heads")
    if isinstance(heads, int) and heads % tensor_parallel:
        raise InvalidSettings(
            f"the {heads} attention heads of {model} cannot be shared by {tensor_parallel} GPUs",
            field="vllm.tensor_parallel",
            hint="use a number of GPUs that divides them, or pipeline_parallel",
        )


def _cause(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return f"config.json: {error.strerror}"
    return "its config.json is not JSON"
