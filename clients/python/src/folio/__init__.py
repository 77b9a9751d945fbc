"""Client of Folio: documents, conversations with approvals, extractions, jobs and webhooks.

`Client` is synchronous, `AsyncClient` is for asyncio; both have the same methods. `folio.v1` contains the messages and the
services of the API. The attributes of a client, such as `client.tags`, are these services.
"""

from . import v1
from .aio import AsyncClient, AsyncTurn
from .approvals import Approval, Approve, ApproveEdited, Decision, Leave, Reject
from .assistant import Answer
from .client import Client, Turn
from .errors import (
    Aborted,
    AlreadyExists,
    Cancelled,
    ConnectionLost,
    DeadlineExceeded,
    FailedPrecondition,
    FieldViolation,
    FolioError,
    InternalError,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)
from .reasons import Reason
from .retry import RetryPolicy
from .webhooks import InvalidSignature, WebhookEvent, verify_webhook

__all__ = [
    "Aborted",
    "AlreadyExists",
    "Answer",
    "Approval",
    "Approve",
    "ApproveEdited",
    "AsyncClient",
    "AsyncTurn",
    "Cancelled",
    "Client",
    "ConnectionLost",
    "DeadlineExceeded",
    "Decision",
    "FailedPrecondition",
    "FieldViolation",
    "FolioError",
    "InternalError",
    "InvalidArgument",
    "InvalidSignature",
    "Leave",
    "NotFound",
    "PermissionDenied",
    "Reason",
    "Reject",
    "ResourceExhausted",
    "RetryPolicy",
    "Turn",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "WebhookEvent",
    "v1",
    "verify_webhook",
]
