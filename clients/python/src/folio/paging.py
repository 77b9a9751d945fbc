"""The fields of lists. No I/O."""

from __future__ import annotations

from typing import Any, TypeVar

from google.protobuf.message import Message

M = TypeVar("M", bound=Message)


def items_of(page: Message) -> list[Any]:
    """Returns the items of a page: its field with the number 1."""
    field = page.DESCRIPTOR.fields_by_number.get(1)
    if field is None or not field.is_repeated or "next_page_token" not in page.DESCRIPTOR.fields_by_name:
        raise TypeError(f"{page.DESCRIPTOR.name} is no response of a list")
    return list(getattr(page, field.name))


def next_request(request: M, page: Any) -> M | None:
    """Returns the request of the page after `page`. None: it is the last one."""
    if not page.next_page_token:
        return None
    following = type(request)()
    following.CopyFrom(request)
    setattr(following, "page_token", page.next_page_token)
    # The token continues after the skipped items.
    setattr(following, "skip", 0)
    return following
