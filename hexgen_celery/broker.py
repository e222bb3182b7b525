"""The broker's URL with everything that Celery, Kombu and redis-py need in it."""

from __future__ import annotations

from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

from hexgen_celery.cluster import resolve_broker
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.password_file import read_password
from hexgen_celery.sentinels import names_sentinels, parse, sentinel_url
from hexgen_celery.settings import Settings
from hexgen_celery.transport import ALIAS, SENTINEL_ALIAS, register_aliases

SCHEMES = ("redis", "rediss", "unix", "sentinel")
CELERY_SOCKET_SCHEME = "redis+socket"


def broker_url(settings: Settings) -> str:
    """The URL to connect to: password file read, certificates checked on TLS.

    Raises:
        BrokerUnavailable: it is `embedded` and no cluster runs.
        InvalidSettings: the scheme is unknown, the password file cannot be read, or Sentinels are
            named without their master.
    """
    broker = resolve_broker(settings).broker
    file = broker.password_file
    password = None if file is None else read_password(file, "broker.password_file")
    if names_sentinels(broker.url.get_secret_value()):
        return sentinel_url(broker, password).text()
    parts = urlsplit(broker.url.get_secret_value())
    if parts.scheme not in SCHEMES:
        raise InvalidSettings(
            f"broker.url has the unknown scheme {parts.scheme!r}",
            field="broker.url",
            hint=f"use one of {', '.join(f'{scheme}://' for scheme in SCHEMES)}",
        )
    if password is not None:
        parts = _with_password(parts, password)
    return _text(_with_certificates(parts))


def celery_url(url: str) -> str:
    """`url` as Celery's result backend and Kombu spell it (they differ for sockets only)."""
    scheme, rest = url.split("://", 1)
    return f"{CELERY_SOCKET_SCHEME}://{rest}" if scheme == "unix" else url


def queue_url(url: str, transport: str) -> str:
    """`url` as Kombu must see it to take our transport (`urgency`) or its own (`kombu`).

    The transport of a socket URL is taken from its scheme, whatever `broker_transport` says. Of
    Sentinels it is told the first; Kombu takes the transport of each further URL from its scheme,
    and so the transport option `sentinels` names them to ours.
    """
    known = celery_url(url)
    if transport == "kombu":
        return known
    register_aliases()
    if names_sentinels(url):
        return parse(url).parts(SENTINEL_ALIAS)[0]
    return known.replace(CELERY_SOCKET_SCHEME, f"{ALIAS}+socket", 1)


def _text(parts: SplitResult) -> str:
    """The URL; the standard library drops the slashes of one without a host."""
    url = parts.geturl()
    return url if "://" in url else url.replace(":", "://", 1)


def _with_password(parts: SplitResult, password: str) -> SplitResult:
    host = parts.netloc.rpartition("@")[2]
    user = quote(parts.username or "", safe="")
    return parts._replace(netloc=f"{user}:{quote(password, safe='')}@{host}")


def _with_certificates(parts: SplitResult) -> SplitResult:
    """Celery refuses a TLS URL that does not say whether certificates are checked."""
    options = dict(parse_qsl(parts.query))
    if parts.scheme != "rediss" or "ssl_cert_reqs" in options:
        return parts
    return parts._replace(query=urlencode({**options, "ssl_cert_reqs": "required"}))
