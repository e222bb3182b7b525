"""A server that says nothing of itself, or nonsense, leaves the facts unknown."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hexgen_celery.profiling_llm import ServerFacts, read_facts
from hexgen_celery.settings import LlmSettings

ANSWERS = {
    "no HTTP": b"220 mail ready\r\n",
    "cut off": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
    "nothing": b"",
    "no JSON": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\xff\xfe",
    "an error": b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
}


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.request.recv(1000)
            self.wfile.write(answer)

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_what_a_server_does_not_tell_stays_unknown(answer: bytes) -> None:
    with answering(answer) as url:
        assert read_facts(url, "m", LlmSettings()) == ServerFacts()
