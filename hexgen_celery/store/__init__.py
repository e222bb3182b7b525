"""The database of what happened: it is written by a recorder and read when Redis has forgotten."""
