"""The four stages of text-to-SQL, each a module: what to ask the model and what to make of it."""
