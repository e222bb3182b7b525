"""Deterministic repairs: edits of the model's own text that need no model.

A rule proposes edits for the faults that a diagnosis names; the workshop keeps an edit only when
the statement is less wrong afterwards. SQL is never regenerated from a tree.
"""
