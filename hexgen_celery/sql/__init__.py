"""SQL as the system understands it: guard, catalog, evaluation metrics."""
