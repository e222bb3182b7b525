"""HexGen-Celery: deadline-aware agentic Text-to-SQL on clusters of different GPUs."""

__version__ = "0.1.0"
