"""Errors of calls, with the reasons of the server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from . import v1

DOMAIN = "folio"
DETAILS_KEY = "grpc-status-details-bin"


@dataclass(frozen=True)
class FieldViolation:
    """A problem with one field of a request."""

    field: str
    """Path of the field, such as `tag.name` or `document_ids[1]`."""
    description: str


class FolioError(Exception):
    """A call failed. Programs decide by `code` and `reason`, never by `message`.

    Each code has its own subclass, such as `NotFound`.
    """

    code: str
    """The gRPC status code in upper snake case, such as NOT_FOUND."""
    reason: str
    """The cause as a stable word; `Reason` contains the words of this version. Empty: no Folio server answered."""
    message: str
    """Text for people."""
    retry_after: float | None
    """Seconds after which the same request may be repeated. None: unknown."""
    violations: tuple[FieldViolation, ...]
    """The invalid fields of the request."""
    details: Mapping[str, str]
    """Further facts for programs."""

    def __init__(
        self,
        code: str,
        reason: str,
        message: str,
        *,
        retry_after: float | None = None,
        violations: Iterable[FieldViolation] = (),
        details: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{message} ({reason or code})")
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.violations = tuple(violations)
        self.details = dict(details or {})

    @property
    def is_interruption(self) -> bool:
        """True if the connection broke or the stream reached a time limit of the server; the same request may succeed."""
        if self.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED"):
            return True
        return not self.reason and self.code in ("UNKNOWN", "INTERNAL", "CANCELLED")


class InvalidArgument(FolioError):
    """A field of the request is invalid."""


class NotFound(FolioError):
    """The resource does not exist or belongs to another organization."""


class AlreadyExists(FolioError):
    """A resource with this name, or another request with this id, exists."""


class FailedPrecondition(FolioError):
    """The state of the system does not permit the operation."""


class Aborted(FolioError):
    """Another change was stored first."""


class ResourceExhausted(FolioError):
    """A bound, a quota or a rate limit is exceeded."""


class Unavailable(FolioError):
    """The server is temporarily unavailable or not reachable."""


class ConnectionLost(Unavailable):
    """A stream ended before its last message, and several attempts to open it again failed."""

    def __init__(self, message: str) -> None:
        super().__init__("UNAVAILABLE", "", message)


class DeadlineExceeded(FolioError):
    """The call exceeded its deadline. Work that it started continues."""


class PermissionDenied(FolioError):
    """The role, the scopes or the policy do not permit the operation."""


class Unauthenticated(FolioError):
    """The token is missing, malformed, unknown, expired or revoked."""


class Cancelled(FolioError):
    """The caller cancelled the call."""


class Unimplemented(FolioError):
    """The server does not offer the operation."""


class InternalError(FolioError):
    """A fault of the server; `details["error_id"]` identifies it in the log of the server."""


_CLASSES: dict[str, type[FolioError]] = {
    "INVALID_ARGUMENT": InvalidArgument,
    "OUT_OF_RANGE": InvalidArgument,
    "NOT_FOUND": NotFound,
    "ALREADY_EXISTS": AlreadyExists,
    "FAILED_PRECONDITION": FailedPrecondition,
    "ABORTED": Aborted,
    "RESOURCE_EXHAUSTED": ResourceExhausted,
    "UNAVAILABLE": Unavailable,
    "DEADLINE_EXCEEDED": DeadlineExceeded,
    "PERMISSION_DENIED": PermissionDenied,
    "UNAUTHENTICATED": Unauthenticated,
    "CANCELLED": Cancelled,
    "UNIMPLEMENTED": Unimplemented,
    "INTERNAL": InternalError,
    "DATA_LOSS": InternalError,
}


def _error(code: str, reason: str, message: str, **facts: Any) -> FolioError:
    return _CLASSES.get(code, FolioError)(code, reason, message, **facts)


class FailedCall(Protocol):
    """A failed call of grpcio, synchronous or not."""

    def code(self) -> grpc.StatusCode: ...

    def details(self) -> str | None: ...

    def trailing_metadata(self) -> Any: ...


def of_call(call: FailedCall) -> FolioError:
    """Returns the error of a failed call. Malformed details of a server are ignored."""
    metadata = call.trailing_metadata() or ()
    encoded = next((value for key, value in metadata if key == DETAILS_KEY), None)
    code, message = call.code().name, call.details() or ""
    try:
        status = status_pb2.Status.FromString(encoded) if isinstance(encoded, bytes) else status_pb2.Status()
    except DecodeError:
        status = status_pb2.Status()
    return _of_details(code, message, status)


def _of_details(code: str, message: str, status: status_pb2.Status) -> FolioError:
    reason, facts = "", dict[str, Any]()
    for detail in status.details:
        info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
        bad = error_details_pb2.BadRequest()
        try:
            if detail.Unpack(info) and info.domain == DOMAIN:
                reason, facts["details"] = info.reason, dict(info.metadata)
            elif detail.Unpack(retry) and retry.HasField("retry_delay"):
                facts["retry_after"] = retry.retry_delay.ToTimedelta().total_seconds()
            elif detail.Unpack(bad):
                facts["violations"] = [FieldViolation(item.field, item.description) for item in bad.field_violations]
        except (DecodeError, ValueError):
            continue
    return _error(code, reason, message, **facts)


def of_message(error: v1.Error) -> FolioError:
    """Returns the error of a message, such as `Failed.error` of a turn or `Job.error`."""
    retry_after = error.retry_after.ToTimedelta().total_seconds() if error.HasField("retry_after") else None
    violations = [FieldViolation(item.field, item.description) for item in error.violations]
    return _error(
        error.code,
        error.reason,
        error.message,
        retry_after=retry_after,
        violations=violations,
        details=error.details,
    )
