"""The HTTP endpoint of one process: `/metrics`, `/healthz`, and `/targets` where it knows them."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import structlog
from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from hexgen_celery.settings import MetricsSettings

log = structlog.get_logger(__name__)

POLL_SECONDS = 0.2
_EVERYWHERE = ("", "0.0.0.0", "::")
_JSON = ("Content-Type", "application/json; charset=utf-8")

Targets = Callable[[], list[dict[str, Any]]]
Healthy = Callable[[], bool]


class QuietHandler(WSGIRequestHandler):
    """One scrape is no event worth a line."""

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


class Endpoint:
    """Serves a registry from a thread. `targets` answers service discovery, `healthy` whether the
    process reaches what it works with."""

    def __init__(
        self,
        settings: MetricsSettings,
        registry: CollectorRegistry,
        targets: Targets | None = None,
        healthy: Healthy = lambda: True,
    ) -> None:
        self._settings = settings
        self._application = _application(make_wsgi_app(registry), targets, healthy)
        self._server: WSGIServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        """`host:port` by which a scraper reaches it; "" while it does not listen."""
        if self._server is None:
            return ""
        return f"{advertised(self._settings)}:{self._server.server_port}"

    def start(self) -> None:
        """Listen, on the first free port. Without one the process works on unobserved."""
        self._server = self._listen()
        if self._server is None:
            first, ports = self._settings.port, self._settings.ports
            log.warning("no free port for metrics", first=first, ports=ports)
            return
        serve = self._server.serve_forever
        self._thread = threading.Thread(
            target=serve, args=(POLL_SECONDS,), name="metrics", daemon=True
        )
        self._thread.start()
        log.info("metrics served", address=self.address)

    def stop(self) -> None:
        """Give the port back; scrapes under way are cut off."""
        server, self._server = self._server, None
        if server is None:
            return
        server.shutdown()
        server.server_close()
        if self._thread is not None:
            self._thread.join()

    def _listen(self) -> WSGIServer | None:
        host, first = self._settings.host, self._settings.port
        for port in range(first, first + (self._settings.ports if first else 1)):
            try:
                return make_server(host, port, self._application, _server_class(host), QuietHandler)
            except OSError as error:
                log.debug("port not free", port=port, error=str(error))
        return None


def advertised(settings: MetricsSettings) -> str:
    """The host's part of an endpoint's address."""
    if settings.advertise:
        return settings.advertise
    if settings.host in _EVERYWHERE:
        return socket.gethostname()
    return f"[{settings.host}]" if ":" in settings.host else settings.host


def _server_class(host: str) -> type[WSGIServer]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET

    class Server(ThreadingWSGIServer):
        """One thread for each scrape; the port is free again as soon as it is closed."""

        address_family = family
        allow_reuse_port = False

        def server_bind(self) -> None:
            """Bind without asking DNS for this host's full name, which may take seconds."""
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind(self.server_address)
            self.server_address = self.socket.getsockname()
            self.server_name, self.server_port = host, self.server_address[1]
            self.setup_environ()

    return Server


def _application(metrics: Any, targets: Targets | None, healthy: Healthy) -> Any:
    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "/")
        if path == "/metrics":
            answer: Iterable[bytes] = metrics(environ, start_response)
            return answer
        if path == "/healthz":
            return _health(healthy(), start_response)
        if path == "/targets" and targets is not None:
            return _targets(targets, start_response)
        start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"there are /metrics, /healthz and /targets\n"]

    return application


def _health(healthy: bool, start_response: Any) -> Iterable[bytes]:
    start_response("200 OK" if healthy else "503 Service Unavailable", [_JSON])
    return [b'{"status": "ok"}\n' if healthy else b'{"status": "without Redis"}\n']


def _targets(targets: Targets, start_response: Any) -> Iterable[bytes]:
    try:
        found = targets()
    except Exception as error:
        # Prometheus keeps the targets it knows when discovery fails.
        log.warning("targets unknown", error=f"{type(error).__name__}: {error}")
        start_response("503 Service Unavailable", [_JSON])
        return [b'{"error": "Redis cannot be asked"}\n']
    start_response("200 OK", [_JSON])
    return [json.dumps(found).encode() + b"\n"]
