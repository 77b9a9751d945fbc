"""The items of a watch across all its streams. No I/O."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, Union

from . import v1

WatchResponse = Union[v1.WatchInboxResponse, v1.WatchPendingApprovalsResponse, v1.WatchDocumentResponse]
W = TypeVar("W", bound=WatchResponse)

# For each response: the field of an item, the field of its id, and the field of a removed id.
_FIELDS: dict[Any, tuple[str, str, str]] = {
    v1.WatchInboxResponse: ("item", "item_id", "removed_item_id"),
    v1.WatchPendingApprovalsResponse: ("pending_approval", "turn_id", "removed_turn_id"),
    v1.WatchDocumentResponse: ("extraction", "extraction_id", "removed_extraction_id"),
}

WatchRequest = Union[v1.WatchInboxRequest, v1.WatchPendingApprovalsRequest, v1.WatchDocumentRequest]


class WatchedItems(Generic[W]):
    """Completes the changes of a new stream.

    A stream starts with all items. Items of the stream before that the new one does not send until `caught_up` were removed
    while no stream was open, which the new stream does not state.
    """

    def __init__(self) -> None:
        self._items: set[str] = set()
        self._unconfirmed: set[str] = set()

    def start_stream(self) -> None:
        self._unconfirmed = set(self._items)

    def apply(self, response: W) -> list[W]:
        """Returns the changes to report for a change of the stream."""
        item, item_id, removed = _FIELDS[type(response)]
        change = response.WhichOneof("change")
        if change == item:
            identifier = getattr(getattr(response, item), item_id)
            self._items.add(identifier)
            self._unconfirmed.discard(identifier)
        elif change == removed:
            self._items.discard(getattr(response, removed))
            self._unconfirmed.discard(getattr(response, removed))
        elif change == "caught_up":
            removals = [self._removal(response, identifier) for identifier in sorted(self._unconfirmed)]
            self._items.difference_update(self._unconfirmed)
            self._unconfirmed = set()
            return [*removals, response]
        return [response]

    @staticmethod
    def _removal(response: W, identifier: str) -> W:
        removal = type(response)()
        setattr(removal, _FIELDS[type(response)][2], identifier)
        return removal


SETTLED_DOCUMENT_STATES = frozenset({v1.DOCUMENT_STATE_READY, v1.DOCUMENT_STATE_NO_TEXT, v1.DOCUMENT_STATE_FAILED})
