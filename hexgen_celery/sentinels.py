"""A broker URL that names Sentinels in place of the Redis they watch.

`sentinel://user:password@host:port;sentinel://host:port/number`: credentials and database are the
watched Redis's, so one of the parts has to give them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from hexgen_celery.errors import InvalidSettings
from hexgen_celery.password_file import read_password
from hexgen_celery.settings import BrokerSettings

SCHEME = "sentinel"
SEPARATOR = ";"
DEFAULT_PORT = 26379


@dataclass(frozen=True, slots=True)
class SentinelUrl:
    """Where the Sentinels listen, and how the Redis that they name is used.

    `user` and `password` are plain text, "" for none.
    """

    addresses: tuple[tuple[str, int], ...]
    database: int = 0
    user: str = ""
    password: str = ""

    @property
    def place(self) -> str:
        """Hosts and ports without any credentials."""
        return ", ".join(f"{_bracketed(host)}:{port}" for host, port in self.addresses)

    def text(self) -> str:
        """The URL with credentials and database in each part, as Celery and Kombu read it."""
        return SEPARATOR.join(self.parts(SCHEME))

    def parts(self, scheme: str) -> list[str]:
        """One complete URL per Sentinel."""
        login = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}@"
        login = login if self.user or self.password else ""
        return [
            f"{scheme}://{login}{_bracketed(host)}:{port}/{self.database}"
            for host, port in self.addresses
        ]


def names_sentinels(url: str) -> bool:
    """Whether `url` is one of Sentinels."""
    return url.startswith(f"{SCHEME}://")


def sentinel_url(broker: BrokerSettings, password: str | None = None) -> SentinelUrl:
    """What `broker.url` says, with `password` in place of its own.

    Raises:
        InvalidSettings: it cannot be read, or `broker.sentinel_master` is not given.
    """
    if broker.sentinel_master is None:
        raise InvalidSettings(
            "broker.url names Sentinels, but not the master that they watch",
            field="broker.sentinel_master",
            hint="give the name after `sentinel monitor` in the Sentinels' configuration",
        )
    try:
        read = parse(broker.url.get_secret_value())
    except ValueError as error:
        raise InvalidSettings(
            f"broker.url cannot be used: {error}",
            field="broker.url",
            hint="write it as sentinel://host:port;sentinel://host:port/number",
        ) from error
    return read if password is None else replace(read, password=password)


def parse(url: str) -> SentinelUrl:
    """The Sentinels in `url`; the first part with credentials and the first with a database count.

    Raises:
        ValueError: a part has another scheme, no host, or a port or database that is no number.
    """
    parts = [urlsplit(part) for part in url.split(SEPARATOR)]
    for number, part in enumerate(parts, 1):
        if part.scheme != SCHEME or not part.hostname:
            raise ValueError(f"part {number} does not begin with {SCHEME}:// and a host")
    logins = [(part.username or "", part.password or "") for part in parts]
    user, password = next((login for login in logins if any(login)), ("", ""))
    databases = [part.path.strip("/") for part in parts]
    database = next((name for name in databases if name), "0")
    if not database.isdecimal():
        raise ValueError("the database after the last / is not a number")
    addresses = tuple((part.hostname or "", _port(part)) for part in parts)
    return SentinelUrl(addresses, int(database), unquote(user), unquote(password))


def transport_options(broker: BrokerSettings) -> dict[str, Any]:
    """What Kombu and Celery's result backend must know besides the URL; nothing without Sentinels.

    Raises:
        InvalidSettings: as `sentinel_url` does, or the Sentinels' password file cannot be read.
    """
    if not names_sentinels(broker.url.get_secret_value()):
        return {}
    return {
        "master_name": broker.sentinel_master,
        "sentinels": sentinel_url(broker).addresses,
        "sentinel_kwargs": _connection_options(broker),
    }


def sentinel_client(url: str, broker: BrokerSettings, **options: Any) -> redis.Redis:
    """A client of the Redis that the Sentinels in `url` name now, which follows a failover.

    `options` are redis-py's of a connection. Nothing is connected yet.
    """
    read = parse(url)
    options |= {"db": read.database, "username": read.user or None}
    manager = Sentinel(  # type: ignore[no-untyped-call]
        read.addresses,
        sentinel_kwargs=_connection_options(broker),
        password=read.password or None,
        **options,
    )
    client: redis.Redis = manager.master_for(broker.sentinel_master)  # type: ignore[no-untyped-call]
    return client


def _connection_options(broker: BrokerSettings) -> dict[str, Any]:
    """How to talk to a Sentinel: one that does not answer is passed over, not asked again.

    The credentials in the URL are the watched Redis's and no business of a Sentinel's.
    """
    timeout, file = broker.socket_timeout_seconds, broker.sentinel_password_file
    return {
        "password": None if file is None else read_password(file, "broker.sentinel_password_file"),
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "retry": Retry(NoBackoff(), 0),
    }


def _port(part: SplitResult) -> int:
    """The standard library's own message could show a piece of a password."""
    try:
        return part.port or DEFAULT_PORT
    except ValueError:
        raise ValueError("a port is not a number below 65536") from None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
