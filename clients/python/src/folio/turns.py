"""The position in a turn across all its streams. No I/O."""

from __future__ import annotations

import uuid
from typing import Union

from . import v1
from .errors import FailedPrecondition, of_message

_CLOSING = frozenset({"awaiting_approval", "completed", "failed", "cancelled", "expired", "superseded"})

TurnRequest = Union[v1.ChatRequest, v1.ResumeTurnRequest, v1.WatchTurnRequest]


class TurnPosition:
    """Chooses the request that opens the next stream of a turn, and drops events that were received before."""

    def __init__(self, start: TurnRequest) -> None:
        self._start = start
        self.turn_id = "" if isinstance(start, v1.ChatRequest) else start.turn_id
        self.thread_id = start.thread_id if isinstance(start, v1.ChatRequest) else ""
        self.last_event = max(start.from_event, 1) - 1 if isinstance(start, v1.WatchTurnRequest) else 0
        self.has_events = False
        self.closing: v1.Event | None = None

    def request(self) -> TurnRequest:
        """Returns the request of the next stream. Before the first event, a repeated chat joins its turn."""
        if isinstance(self._start, (v1.ChatRequest, v1.ResumeTurnRequest)) and not self.has_events:
            return self._start
        return v1.WatchTurnRequest(turn_id=self.turn_id, from_event=self.last_event + 1)

    def accept(self, event: v1.Event) -> bool:
        """Records an event. Returns true if it is new."""
        self.turn_id, self.has_events = event.turn_id, True
        kind = event.WhichOneof("kind")
        if kind == "turn_started":
            self.thread_id = event.turn_started.thread_id
        elif kind == "snapshot":
            self.thread_id = event.snapshot.turn.thread_id
        if event.number <= self.last_event:
            return False
        self.last_event = event.number
        self.closing = event if kind in _CLOSING else None
        return True


def is_closing(event: v1.Event) -> bool:
    """Returns true if the stream of the turn ends with this event."""
    return event.WhichOneof("kind") in _CLOSING


def waiting_round(closing: v1.Event | None) -> v1.AwaitingApproval | None:
    """Returns the round that waits for decisions. None: the turn ended, or its streams have not ended yet."""
    if closing is None or closing.WhichOneof("kind") != "awaiting_approval":
        return None
    return closing.awaiting_approval


def chat_request(text: str, **fields: object) -> v1.ChatRequest:
    """Returns the request of a chat, with an idempotency key that lets a repetition join the turn."""
    fields.setdefault("request_id", str(uuid.uuid4()))
    return v1.ChatRequest(text=text, **fields)  # type: ignore[arg-type]


def completed(closing: v1.Event | None) -> v1.Completed:
    """Returns the answer of a turn that ended with this event. Raises the error of a failed turn."""
    kind = closing.WhichOneof("kind") if closing is not None else None
    if closing is not None and kind == "completed":
        return closing.completed
    if closing is not None and kind == "failed":
        raise of_message(closing.failed.error)
    raise FailedPrecondition("FAILED_PRECONDITION", "", f"the turn is not completed: {kind}")
