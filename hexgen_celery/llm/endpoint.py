"""Where a server is: its URLs, whether proxies apply, and the key it wants."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from hexgen_celery.errors import InvalidSettings
from hexgen_celery.settings import LlmSettings


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One server. `root` has neither `/v1` nor a trailing slash."""

    root: str

    @classmethod
    def parse(cls, url: str) -> Endpoint:
        """Read a base URL, written with or without `/v1`.

        Raises:
            InvalidSettings: it is no http or https URL with a host.
        """
        text = url.strip().rstrip("/")
        try:
            parts = urlsplit(text)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname)
            _ = parts.port
        except ValueError:
            usable = False
        if not usable:
            raise InvalidSettings(
                f"{url!r} is not the address of an LLM server",
                field="url",
                hint="write it as http://host:port or https://host/v1",
            )
        return cls(text.removesuffix("/v1").rstrip("/"))

    def api(self, path: str) -> str:
        """The URL of an OpenAI route, `path` without its leading `/v1/`."""
        return f"{self.root}/v1/{path}"

    def plain(self, path: str) -> str:
        """The URL of one of vLLM's own routes."""
        return f"{self.root}/{path}"

    @property
    def is_loopback(self) -> bool:
        """Whether the server is on this machine, so that no proxy may stand between."""
        host = urlsplit(self.root).hostname or ""
        if host == "localhost" or host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False


def authorization(settings: LlmSettings) -> dict[str, str]:
    """The header that carries the API key, or nothing where none is set.

    Raises:
        InvalidSettings: the key file cannot be read.
    """
    key = _api_key(settings)
    return {"Authorization": f"Bearer {key}"} if key else {}


def _api_key(settings: LlmSettings) -> str:
    if settings.api_key is not None:
        return settings.api_key.get_secret_value()
    if settings.api_key_file is None:
        return ""
    try:
        return settings.api_key_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSettings(
            f"cannot read the API key from {settings.api_key_file}: {error}",
            field="llm.api_key_file",
            hint="name a readable file that holds the key alone, or set HEXGEN_LLM__API_KEY",
        ) from error
