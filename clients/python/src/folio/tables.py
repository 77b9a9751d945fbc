"""The rows of a watched table across all its streams. No I/O."""

from __future__ import annotations

from . import v1

# Number of rows of a page of a list.
_PAGE_ROWS = 100


class WatchedTable:
    """Completes the changes of a table.

    A stream sends the stack, and then only rows that change. So the rows are listed when a stream starts, and after each change of
    the stack: they then have other columns, or documents that are no longer in the stack.
    """

    def __init__(self) -> None:
        self._stack = ""
        # Versions of the known rows by id. Empty: the row is sent again by the next list.
        self._rows: dict[str, str] = {}
        self._unlisted: set[str] = set()
        self._is_listed = False

    def start_stream(self) -> None:
        self._is_listed = False

    def apply(self, response: v1.WatchTableResponse) -> bool:
        """Applies a change. Returns true if the rows must be listed after it."""
        change = response.WhichOneof("change")
        if change == "stack":
            has_changed = self._stack != response.stack.etag
            if self._is_listed and not has_changed:
                return False
            if has_changed:
                self._rows = dict.fromkeys(self._rows, "")
                self._stack = response.stack.etag
            self._is_listed = True
            self._unlisted = set(self._rows)
            return True
        if change == "row":
            self.add(response.row)
        elif change == "removed_stack_row_id":
            self._rows.pop(response.removed_stack_row_id, None)
            self._unlisted.discard(response.removed_stack_row_id)
        return False

    def add(self, row: v1.StackRow) -> bool:
        """Applies a listed row. Returns true if the row is new or was changed."""
        self._unlisted.discard(row.stack_row_id)
        is_new = self._rows.get(row.stack_row_id) != row.etag
        self._rows[row.stack_row_id] = row.etag
        return is_new

    def end_list(self) -> list[v1.WatchTableResponse]:
        """Ends the list. Returns the removals of known rows that are no longer in the table."""
        missing = sorted(self._unlisted)
        self._unlisted = set()
        for identifier in missing:
            del self._rows[identifier]
        return [v1.WatchTableResponse(removed_stack_row_id=identifier) for identifier in missing]


def list_request(stack_id: str) -> v1.ListStackRowsRequest:
    """Returns the request of the rows of a table, the oldest first."""
    return v1.ListStackRowsRequest(stack_id=stack_id, page_size=_PAGE_ROWS, order_by="create_time")
