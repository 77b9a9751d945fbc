"""Questions to the assistant, and their typed answers. No I/O."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import v1
from .errors import FailedPrecondition
from .turns import chat_request


@dataclass(frozen=True)
class Answer:
    """An answer of the assistant."""

    type: str
    """`AnswerResponse`, `SummarizationResponse` or `CalculationResponse`."""
    value: dict[str, Any]
    """The members of the type, with `sources` and `passages`."""
    text: str
    """The answer as a text."""
    thread_id: str
    """The conversation, for a further question."""
    turn_id: str
    credits: int
    """The charged credits of all model calls."""


def question_request(
    text: str, *, tag_ids: Sequence[str] = (), collection_ids: Sequence[str] = (), **fields: object
) -> v1.ChatRequest:
    """Returns the request of a question. `tag_ids`: only documents with all of these tags; `collection_ids`: only documents in
    any of these collections."""
    mentions = [v1.Mention(tag_id=tag_id) for tag_id in tag_ids]
    mentions += [v1.Mention(collection_id=collection_id) for collection_id in collection_ids]
    return chat_request(text, profile="assistant", mentions=mentions, **fields)


def answer_of(completed: v1.Completed, thread_id: str, turn_id: str) -> Answer:
    """Returns the answer of a completed turn."""
    if not completed.answer_json:
        raise FailedPrecondition("FAILED_PRECONDITION", "", "the turn has no typed answer")
    return Answer(
        type=completed.answer_type,
        value=json.loads(completed.answer_json),
        text=completed.text,
        thread_id=thread_id,
        turn_id=turn_id,
        credits=completed.usage.credits,
    )
