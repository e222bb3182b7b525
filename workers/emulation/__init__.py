"""The emulated instance: an OpenAI-compatible server whose speed is a profile's, not a GPU's."""
