"""Real vLLM without a GPU: its own virtual environment and small models, from packages alone."""
