"""One way to connect to Redis: URL, credentials, TLS and time-outs from the settings."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError

from hexgen_celery.broker import broker_url
from hexgen_celery.errors import BrokerUnavailable, InvalidSettings
from hexgen_celery.sentinels import names_sentinels, parse, sentinel_client
from hexgen_celery.settings import Settings

HEALTH_CHECK_SECONDS = 25
RETRIES = 3
_AWAY = (redis.ConnectionError, redis.TimeoutError)
_REFUSALS = ("OOM ", "MISCONF ", "READONLY ", "BUSY ", "NOREPLICAS ")
BACKOFF_SECONDS = 0.05
BACKOFF_MAX_SECONDS = 1.0


def connect(settings: Settings) -> redis.Redis:
    """A client that answers in `str`, checked by a ping. Thread-safe.

    A command whose connection broke is repeated a few times, which every script of ours bears.

    Raises:
        BrokerUnavailable: Redis cannot be reached, or refuses the credentials.
        InvalidSettings: the URL or the password file is unusable.
    """
    return _checked(settings, decode=True)


def connect_binary(settings: Settings) -> redis.Redis:
    """The same client, but it answers in bytes: queued messages are binary.

    Raises:
        BrokerUnavailable: Redis cannot be reached, or refuses the credentials.
        InvalidSettings: the URL or the password file is unusable.
    """
    return _checked(settings, decode=False)


def may_pass(error: BaseException) -> bool:
    """Whether the same command may succeed a moment later: Redis is away, or takes no writes now.

    Inside a script the refusal is only a part of the error's text, in all versions before 7.
    """
    if isinstance(error, (*_AWAY, redis.exceptions.OutOfMemoryError, redis.ReadOnlyError)):
        return True
    return isinstance(error, redis.ResponseError) and any(word in str(error) for word in _REFUSALS)


def lost_broker(error: Exception) -> BrokerUnavailable:
    """What to raise when the connection broke under way and did not come back."""
    return BrokerUnavailable(
        f"the connection to Redis was lost: {error}",
        field="broker.url",
        hint="look with `hexgen doctor`; questions that were accepted are in `hexgen status`",
    )


@contextlib.contextmanager
def naming_a_lost_broker() -> Iterator[None]:
    """Raise BrokerUnavailable where redis-py gives up on a connection."""
    try:
        yield
    except (redis.ConnectionError, redis.TimeoutError) as error:
        raise lost_broker(error) from error


def _checked(settings: Settings, *, decode: bool) -> redis.Redis:
    client = unchecked_client(settings, decode=decode)
    try:
        client.ping()
    except MasterNotFoundError as error:
        client.close()
        raise _no_master(settings, error) from error
    except redis.RedisError as error:
        client.close()
        raise _unavailable(settings, error) from error
    return client


def unchecked_client(settings: Settings, *, decode: bool) -> redis.Redis:
    """A client that has not connected yet; it answers in `str` if `decode`, else in bytes.

    Raises:
        BrokerUnavailable: the broker is `embedded` and no cluster runs.
        InvalidSettings: the URL or the password file is unusable.
    """
    url, options = broker_url(settings), _connection_options(settings, decode)
    if names_sentinels(url):
        return sentinel_client(url, settings.broker, **options)
    try:
        client = redis.Redis.from_url(url, **options)
    except ValueError as error:
        raise InvalidSettings(
            f"broker.url cannot be used: {error}",
            field="broker.url",
            hint="write it as redis://user:password@host:port/number (rediss:// for TLS)",
        ) from error
    return client


def _connection_options(settings: Settings, decode: bool) -> dict[str, Any]:
    timeout = settings.broker.socket_timeout_seconds
    backoff = ExponentialWithJitterBackoff(BACKOFF_MAX_SECONDS, BACKOFF_SECONDS)
    return {
        "decode_responses": decode,
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "socket_keepalive": True,
        "health_check_interval": HEALTH_CHECK_SECONDS,
        "retry": Retry(backoff, RETRIES),
    }


def _no_master(settings: Settings, error: MasterNotFoundError) -> BrokerUnavailable:
    """redis-py's error lists the Sentinels that could not be reached, and only those."""
    place, master = _place(settings), settings.broker.sentinel_master
    silent = str(error).count(" - ")
    if silent == len(parse(broker_url(settings)).addresses):
        return BrokerUnavailable(
            f"no Sentinel at {place} can be reached: {error}",
            field="broker.url",
            hint="start one, or name running ones in broker.url (HEXGEN_BROKER__URL)",
        )
    return BrokerUnavailable(
        f"the Sentinels at {place} name no reachable master {master!r}: {error}",
        field="broker.sentinel_master",
        hint="give the name after `sentinel monitor` in the Sentinels' configuration",
    )


def _unavailable(settings: Settings, error: redis.RedisError) -> BrokerUnavailable:
    place = _place(settings)
    if isinstance(error, redis.AuthenticationError):
        return BrokerUnavailable(
            f"Redis at {place} refuses the credentials: {error}",
            field="broker.password_file",
            hint="set user and password in broker.url, or the password in broker.password_file",
        )
    if isinstance(error, redis.ResponseError) and may_pass(error):
        return BrokerUnavailable(
            f"Redis at {place} refuses commands: {error}",
            field="broker.url",
            hint="free memory or disk space on its host; `redis-cli info persistence` says more",
        )
    return BrokerUnavailable(
        f"Redis at {place} cannot be reached: {error}",
        field="broker.url",
        hint="start it, or name a running one in broker.url (HEXGEN_BROKER__URL)",
    )


def _place(settings: Settings) -> str:
    """Host and port without any credentials."""
    url = broker_url(settings)
    if names_sentinels(url):
        return parse(url).place
    return url.split("://", 1)[-1].rpartition("@")[2].split("?", 1)[0]
