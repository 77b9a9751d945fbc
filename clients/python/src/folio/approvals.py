"""Decisions about tool calls that wait for approval. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Union

from . import v1


@dataclass(frozen=True)
class Approval:
    """A tool call that waits for a decision, with the rule that requires it."""

    turn_id: str
    round: int
    call_id: str
    tool: str
    arguments: dict[str, Any]
    is_write: bool
    """True if the tool writes."""
    rule: str
    """Name of the rule of the organization's policy. Empty: no rule matched, and calls of writing tools wait by default."""
    roles: tuple[str, ...]
    """Minimum roles that may approve, such as `admin`. Empty: each user with write access to the thread."""
    is_requester_excluded: bool
    """True if another user than the requester of the turn must approve."""
    may_approve: bool
    """True if the user of this client may approve the call."""
    expire_time: datetime | None
    """Time from which decisions are refused."""
    digest: str
    """SHA-256 of the arguments; the decision is bound to it."""


@dataclass(frozen=True)
class Approve:
    """Runs the call."""


@dataclass(frozen=True)
class ApproveEdited:
    """Runs the call with other arguments."""

    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Reject:
    """Does not run the call. The model receives the reason."""

    reason: str = ""


@dataclass(frozen=True)
class Leave:
    """Leaves the decision to another user. No call of the round runs before each call that needs a decision has one."""


Decision = Union[Approve, ApproveEdited, Reject, Leave]


def approvals(waiting: v1.AwaitingApproval, approvable: Iterable[str]) -> list[Approval]:
    """Returns the calls of a round that need a decision. `approvable`: ids of the calls that the user may approve."""
    ids = set(approvable)
    return [_approval(waiting, call, call.call_id in ids) for call in waiting.pending if call.needs_approval]


def _approval(waiting: v1.AwaitingApproval, call: v1.Call, may_approve: bool) -> Approval:
    rule = call.approval_requirement
    expires = waiting.expire_time.ToDatetime(timezone.utc) if waiting.HasField("expire_time") else None
    return Approval(
        turn_id=waiting.turn_id,
        round=waiting.round,
        call_id=call.call_id,
        tool=call.name,
        arguments=json.loads(call.arguments_json or "{}"),
        is_write=call.access == v1.TOOL_ACCESS_READ_WRITE,
        rule=rule.rule,
        roles=tuple(v1.Role.Name(role).removeprefix("ROLE_").lower() for role in rule.roles),
        is_requester_excluded=rule.not_by_requester,
        may_approve=may_approve,
        expire_time=expires,
        digest=call.arguments_digest,
    )


def approve_request(
    waiting: v1.AwaitingApproval, decisions: Iterable[tuple[Approval, Decision]]
) -> v1.ApproveRequest | None:
    """Returns the request with the decisions. None: calls need decisions, and all of them are left to other users."""
    decisions = list(decisions)
    made = [_decision(approval, decision) for approval, decision in decisions if not isinstance(decision, Leave)]
    if decisions and not made:
        return None
    return v1.ApproveRequest(
        turn_id=waiting.turn_id, round=waiting.round, decisions=made, continue_auto_approved=True
    )


def _decision(approval: Approval, decision: Decision) -> v1.Decision:
    made = v1.Decision(call_id=approval.call_id, arguments_digest=approval.digest)
    if isinstance(decision, Approve):
        made.approved.SetInParent()
    elif isinstance(decision, ApproveEdited):
        made.approved_edited.arguments_json = json.dumps(decision.arguments, ensure_ascii=False)
    elif isinstance(decision, Reject):
        made.rejected.SetInParent()
        made.rejected.reason = decision.reason
    else:
        raise TypeError(f"expected Approve, ApproveEdited, Reject or Leave, got {decision!r}")
    return made
