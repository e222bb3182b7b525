"""Checking a statement against the database's schema before anything is executed."""
