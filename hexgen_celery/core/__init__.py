"""Every decision the system takes, as pure functions: no I/O, no wall clock, no global state."""
