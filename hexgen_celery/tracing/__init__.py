"""Recorded questions as a reader sees them, and as workloads that can be run again.

Import from the modules: a command that shows a timeline must not wait for what exports workloads.
"""
