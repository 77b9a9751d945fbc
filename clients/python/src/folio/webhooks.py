"""Events of webhooks: signatures according to Standard Webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from standardwebhooks import Webhook

_PREFIX = "whsec_"
# A larger body is no event of Folio.
_BODY_BYTES = 64 * 1024


class InvalidSignature(ValueError):
    """The request is not an event that was signed with the secret within the last five minutes."""


@dataclass(frozen=True)
class WebhookEvent:
    """A verified event."""

    id: str
    """Identifies the event; an event may be delivered several times."""
    type: str
    """The type, such as `document.ready`."""
    timestamp: datetime
    data: dict[str, Any]
    """Ids, states and versions."""


def verify_webhook(secret: str, headers: Mapping[str, str], body: bytes) -> WebhookEvent:
    """Returns the event of a request after a check of its signature and its time.

    `secret`: the secret of the endpoint. `headers`: the headers of the request. `body`: the unchanged bytes of the request.
    Raises `InvalidSignature`.
    """
    if len(body) > _BODY_BYTES:
        raise InvalidSignature(f"the body has {len(body)} bytes; an event has at most {_BODY_BYTES}")
    # The library removes the prefix and decodes the rest; any other secret is a key as it is.
    key: str | bytes = secret if secret.startswith(_PREFIX) else secret.encode()
    try:
        webhook = Webhook(key)
    except Exception:
        raise ValueError(f"invalid secret: expected Base64 after {_PREFIX}, or any other text") from None
    by_name = {name.lower(): value for name, value in headers.items()}
    try:
        event = webhook.verify(body, by_name)
        timestamp = Timestamp()
        timestamp.FromJsonString(event["timestamp"])
        return WebhookEvent(
            id=by_name["webhook-id"],
            type=event["type"],
            timestamp=timestamp.ToDatetime(timezone.utc),
            data=event["data"],
        )
    except Exception as error:
        # The library reports malformed headers by various exceptions.
        raise InvalidSignature(str(error)) from None
