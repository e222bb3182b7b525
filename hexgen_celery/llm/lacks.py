"""What a server does not offer, and what is done instead: said once for each thing it lacks."""

from __future__ import annotations

import structlog

log = structlog.get_logger(__name__)


class Lacks:
    """Of one server. Servers that speak OpenAI's API differ in what they add to it."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._said: set[str] = set()

    def note(self, what: str, instead: str) -> None:
        """Log that the server lacks `what`, unless that was said before."""
        if what not in self._said:
            self._said.add(what)
            log.info("llm.server_lacks", server=self._server, lacks=what, instead=instead)
