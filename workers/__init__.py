"""The processes: LLM, sql and control workers, the SQL sandbox, emulated instances."""
