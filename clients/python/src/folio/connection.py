"""Addresses of servers and options of channels. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from urllib.parse import urlsplit

# A turn with all its rounds may have this size.
_MESSAGE_BYTES = 64 * 1024 * 1024
_KEEPALIVE_MILLISECONDS = 20_000

OPTIONS: list[tuple[str, int | str]] = [
    ("grpc.max_receive_message_length", _MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", _KEEPALIVE_MILLISECONDS),
    ("grpc.keepalive_permit_without_calls", 1),
    # A broken connection is opened again as fast as the retries expect.
    ("grpc.max_reconnect_backoff_ms", 5_000),
    ("grpc.primary_user_agent", f"folio-client-python/{version('folio-client')}"),
]


@dataclass(frozen=True)
class Address:
    """The address of a server."""

    target: str
    is_tls: bool


def parse_address(server: str, has_authorities: bool) -> Address:
    """Parses `HOST:PORT`, `http://HOST:PORT` or `https://HOST:PORT`. An address without a scheme uses TLS if the caller names
    certificate authorities."""
    url = server if "://" in server else f"{'https' if has_authorities else 'http'}://{server}"
    expected = f"invalid address {server!r}: expected HOST:PORT, http://HOST:PORT or https://HOST:PORT"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError(expected) from None
    if not host or parts.scheme not in ("http", "https") or parts.path.strip("/"):
        raise ValueError(expected)
    is_tls = parts.scheme == "https"
    if has_authorities and not is_tls:
        raise ValueError(f"certificate authorities require an https:// address, got {server!r}")
    name = f"[{host}]" if ":" in host else host
    return Address(f"{name}:{port or (443 if is_tls else 80)}", is_tls)


def authorization(token: str) -> tuple[str, str]:
    """Returns the metadata that authenticates a call. The error message does not contain the token."""
    token = token.strip()
    if not _is_visible(token):
        raise ValueError("the token is empty or contains invalid characters")
    return ("authorization", f"Bearer {token}")


def credential(token: str | None, organization: str | None) -> tuple[tuple[str, str], ...]:
    """Returns the metadata of each call: the token, and the organization in which a session or an account token acts."""
    metadata = [] if token is None else [authorization(token)]
    if organization is not None:
        if not _is_visible(organization):
            raise ValueError("the id of the organization is empty or contains invalid characters")
        metadata.append(("folio-organization", organization))
    return tuple(metadata)


def _is_visible(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and " " not in text
