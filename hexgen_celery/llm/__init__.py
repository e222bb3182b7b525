"""The client of OpenAI-compatible LLM servers: streaming, retries, cancellation, clear errors."""

from hexgen_celery.llm.cancel import CancelToken
from hexgen_celery.llm.client import LlmClient
from hexgen_celery.llm.types import ChatRequest, Completion

__all__ = ["CancelToken", "ChatRequest", "Completion", "LlmClient"]
