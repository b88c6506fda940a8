"""Access control: allowed hosts, API tokens, and the identity of clients."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, Final

from fastapi import Request

from dragoman.errors import SearchError
from dragoman.serve.errors import RequestError

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
ANY_ADDRESS: Final = ("0.0.0.0", "::")
OPEN_PATHS: Final = (
    "/health",
    "/ready",
    "/languages",
    "/frontend/settings",
)  # without a token: of probes, and of LibreTranslate clients, which send none there
DOWNLOADS: Final = "/download_file/"  # translated files, at addresses that cannot be guessed
BODY_TOKEN_PATHS: Final = (
    "/translate",
    "/detect",
    "/translate_file",
)  # LibreTranslate clients send the token in the body
TOKEN_VARIABLE: Final = "DRAGOMAN_API_TOKEN"
CHECK_KEY: Final = "dragoman.check_token_field"  # scope key: a function that checks the `api_key` of a body


class Access:
    """Allowed hosts and API tokens of a server."""

    def __init__(self, hosts: Iterable[str] | None = None, tokens: Iterable[str] = ()) -> None:
        self.hosts = None if hosts is None else {host.lower() for host in hosts}
        self.tokens = [token.encode() for token in tokens]

    def client(self, scope: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> str:
        """Identify the client for per-client limits: by token if there are several, else by address."""
        if len(self.tokens) > 1 and (number := self._token_number(headers)) is not None:
            return f"token {number}"
        return str((scope.get("client") or ("",))[0])

    def check(self, path: str, headers: Mapping[bytes, bytes]) -> RequestError | None:
        """The error for the host or the token of a request, or None."""
        host = headers.get(b"host")
        if host is not None and not self.allows_host(host.decode("latin-1")):
            message = "the host name in the Host header is not allowed; restart the server with --allowed-host NAME"
            return RequestError(421, "host_not_allowed", message)
        is_open = path in OPEN_PATHS or path.startswith(DOWNLOADS)
        if not self.tokens or is_open or self._token_number(headers) is not None:
            return None
        return None if path in BODY_TOKEN_PATHS and b"authorization" not in headers else unauthorized()

    def allows_host(self, host: str) -> bool:
        """Whether a Host header is allowed; rejecting other names prevents DNS rebinding."""
        if self.hosts is None or "*" in self.hosts:
            return True
        name = host_name(host)
        if name in self.hosts or name in LOOPBACK:
            return True
        return not self.hosts.isdisjoint(ANY_ADDRESS) and is_address(name)

    def check_token_field(self, headers: Mapping[bytes, bytes], key: object) -> None:
        """Raise unless the header or the body has a valid token."""
        if self.tokens and self._token_number(headers) is None:
            given = key.encode("utf-8", "replace") if isinstance(key, str) else b""
            if not any(hmac.compare_digest(given, token) for token in self.tokens):
                raise unauthorized()

    def _token_number(self, headers: Mapping[bytes, bytes]) -> int | None:
        given = given_token(headers.get(b"authorization", b""))
        matches = [number for number, token in enumerate(self.tokens) if hmac.compare_digest(given, token)]
        return matches[0] if matches else None


def api_tokens(given: Sequence[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """The tokens of the command line, or else the one in the environment; reject blank ones."""
    sources = [("--api-token", token) for token in given]
    if not given and TOKEN_VARIABLE in environment:
        sources = [(TOKEN_VARIABLE, environment[TOKEN_VARIABLE])]
    for name, token in sources:
        if not token.strip():
            message = f"{name} is blank, so the server would be open to everyone; give a token, or leave it out"
            raise SearchError(message, code="missing_option")
    return tuple(token.strip() for _, token in sources)


def check_token_field(request: Request, key: object) -> None:
    """Check the token of a LibreTranslate request, which may be in its body."""
    if CHECK_KEY in request.scope:
        request.scope[CHECK_KEY](key)


def unauthorized() -> RequestError:
    """The error for a missing or invalid token."""
    message = "this server needs an API token; send the header Authorization: Bearer TOKEN"
    return RequestError(401, "unauthorized", message)


def given_token(authorization: bytes) -> bytes:
    """The token of an Authorization header: Bearer TOKEN, or the password of Basic, for which browsers prompt."""
    scheme, _, value = authorization.strip().partition(b" ")
    if scheme.lower() == b"bearer":
        return value.strip()
    if scheme.lower() == b"basic":
        try:
            return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return b""
    return b""


def host_name(host: str) -> str:
    """The name in a Host header, without the port."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0] if host.count(":") < 2 else host


def is_address(name: str) -> bool:
    """Whether a name is an IP address."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
