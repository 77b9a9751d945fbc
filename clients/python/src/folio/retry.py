"""Decides whether and when a failed call or a broken stream is repeated. No I/O, no clock."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import Message

from .errors import ConnectionLost, FolioError

M = TypeVar("M", bound=Message)

# Delay before the first repetition in seconds, doubled after each repetition up to the maximum.
_PAUSE = 0.2
_PAUSE_MAX = 5.0
# Consecutive attempts to open a stream again that was open before.
_REJOIN_ATTEMPTS = 12


@dataclass(frozen=True)
class RetryPolicy:
    """Bounds of the repetitions of a call."""

    attempts: int = 5
    """Maximum number of calls, including the first one. 1: no repetition."""
    max_delay: float = 30.0
    """Maximum delay in seconds. If the server requests a longer one, the error is raised."""

    def delay(self, error: FolioError, attempt: int) -> float | None:
        """Returns the seconds to wait after failed call number `attempt`, from 1. None: the error is final."""
        if attempt >= self.attempts:
            return None
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= self.max_delay else None
        # A refusal without a delay, such as VERSION_CONFLICT, fails again if the same request is repeated.
        if error.code != "UNAVAILABLE":
            return None
        return min(_pause(attempt - 1) * random.uniform(0.5, 1.0), self.max_delay)


def _pause(repetitions: int) -> float:
    return float(min(_PAUSE * 2**repetitions, _PAUSE_MAX))


class Rejoining:
    """Counts the attempts to open one stream."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._failures = 0
        self._has_connected = False

    def delay(self, error: FolioError | None, has_progress: bool) -> float:
        """Returns the seconds before the next attempt after a stream ended.

        `error`: None if the stream ended without an error. `has_progress`: the stream sent messages. Raises the error if it is
        final or the attempts are exhausted.
        """
        if error is not None and error.retry_after is None and not error.is_interruption:
            raise error
        if has_progress:
            self._failures, self._has_connected = 0, True
        self._failures += 1
        limit = _REJOIN_ATTEMPTS if self._has_connected else self._policy.attempts
        requested = (error.retry_after if error is not None else None) or 0.0
        if self._failures >= limit or requested > self._policy.max_delay:
            raise error or ConnectionLost("the stream ended before its last message")
        return max(_pause(self._failures - 1), requested)


def with_request_id(request: M) -> M:
    """Returns the request with an idempotency key, so that a repetition has no second effect."""
    if "request_id" not in request.DESCRIPTOR.fields_by_name or getattr(request, "request_id"):
        return request
    copy = type(request)()
    copy.CopyFrom(request)
    setattr(copy, "request_id", str(uuid.uuid4()))
    return copy
