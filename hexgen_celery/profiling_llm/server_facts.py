"""What a server says of itself in `/v1/models` and `/metrics`: context length and KV cache."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from hexgen_celery.llm.endpoint import Endpoint, authorization
from hexgen_celery.settings import LlmSettings

CACHE_CONFIG = "vllm:cache_config_info"
_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Tokens; None where the server does not tell."""

    max_model_len: int | None = None
    kv_tokens: int | None = None
    block_tokens: int | None = None


def read_facts(url: str, model: str, settings: LlmSettings) -> ServerFacts:
    """Ask the server at `url`; whatever it does not answer stays unknown."""
    endpoint, headers = Endpoint.parse(url), authorization(settings)
    listed = _get(endpoint.api("models"), headers)
    cache = cache_config(_get(endpoint.plain("metrics"), headers))
    block = _whole(cache.get("block_size"))
    blocks = _whole(cache.get("num_gpu_blocks"))
    counted = blocks * block if blocks and block else None
    return ServerFacts(
        max_model_len=max_model_len(listed, model),
        kv_tokens=_whole(cache.get("kv_cache_size_tokens")) or counted,
        block_tokens=block,
    )


def max_model_len(listed: str, model: str) -> int | None:
    """The context of `model` in the answer of `/v1/models`, if it is there."""
    try:
        answer = json.loads(listed)
    except ValueError:
        return None
    entries = answer.get("data") if isinstance(answer, dict) else None
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("id") == model:
            return _whole(entry.get("max_model_len"))
    return None


def cache_config(metrics: str) -> Mapping[str, str]:
    """The labels of vLLM's cache configuration in a text of Prometheus metrics."""
    try:
        for family in text_string_to_metric_families(metrics):
            for sample in family.samples:
                if sample.name == CACHE_CONFIG:
                    return dict(sample.labels)
    except ValueError:
        return {}
    return {}


def _get(url: str, headers: Mapping[str, str]) -> str:
    try:
        request = urllib.request.Request(url, headers=dict(headers))
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
            return str(response.read().decode("utf-8", "replace"))
    except (urllib.error.URLError, http.client.HTTPException, OSError):
        return ""


def _whole(value: Any) -> int | None:
    try:
        number = int(value)
    except (TypeError, ValueError):
        return None
    return number if number > 0 else None
