"""Tests of the decisions without I/O."""

import base64
import hashlib
import hmac
import json
import time

import pytest

import folio
from folio import v1
from folio.approvals import approvals, approve_request
from folio.connection import authorization, credential, parse_address
from folio.errors import of_message
from folio.jobs import extraction_of
from folio.paging import items_of, next_request
from folio.retry import Rejoining, with_request_id
from folio.tables import WatchedTable
from folio.turns import TurnPosition
from folio.watching import WatchedItems


@pytest.mark.parametrize(
    ("server", "has_authorities", "target", "is_tls"),
    [
        ("127.0.0.1:8080", False, "127.0.0.1:8080", False),
        ("folio.example:443", True, "folio.example:443", True),
        ("http://[::1]:8080", False, "[::1]:8080", False),
        ("https://folio.example", False, "folio.example:443", True),
    ],
)
def test_an_address_has_a_target_and_a_scheme(server: str, has_authorities: bool, target: str, is_tls: bool) -> None:
    address = parse_address(server, has_authorities)
    assert (address.target, address.is_tls) == (target, is_tls)


@pytest.mark.parametrize("server", ["", "ftp://a", "http://", "a:99999", "http://a/path"])
def test_an_invalid_address_is_refused(server: str) -> None:
    with pytest.raises(ValueError, match="expected HOST:PORT"):
        parse_address(server, False)


def test_authorities_require_tls() -> None:
    with pytest.raises(ValueError, match="require an https:// address"):
        parse_address("http://a:1", True)


@pytest.mark.parametrize("token", ["", " ", "a b", "a\nb", "geheim-ä"])
def test_an_invalid_token_is_refused_and_not_repeated_in_the_message(token: str) -> None:
    with pytest.raises(ValueError) as refused:
        authorization(token)
    assert not token.strip() or token not in str(refused.value)


def test_each_call_carries_the_token_and_the_organization() -> None:
    assert credential(None, None) == ()
    assert credential(" t\n", None) == (("authorization", "Bearer t"),)
    assert credential("t", "org_1") == (("authorization", "Bearer t"), ("folio-organization", "org_1"))
    for organization in ("", "a b", "org_ä"):
        with pytest.raises(ValueError, match="id of the organization"):
            credential("t", organization)


def error(code: str, retry_after: float | None = None, reason: str = "R") -> folio.FolioError:
    return folio.FolioError(code, reason, "m", retry_after=retry_after)


def test_a_call_is_repeated_as_the_server_requests() -> None:
    policy = folio.RetryPolicy(attempts=3, max_delay=10)
    assert policy.delay(error("RESOURCE_EXHAUSTED", 2.5), 1) == 2.5
    assert policy.delay(error("ABORTED", 0.5), 2) == 0.5
    assert policy.delay(error("RESOURCE_EXHAUSTED", 2.5), 3) is None, "the attempts are exhausted"
    assert policy.delay(error("RESOURCE_EXHAUSTED", 11), 1) is None, "the delay is too long"
    first, second = policy.delay(error("UNAVAILABLE"), 1), policy.delay(error("UNAVAILABLE"), 2)
    assert first is not None and second is not None and 0.1 <= first <= 0.2 <= second <= 0.4
    for final in ["ABORTED", "NOT_FOUND", "INVALID_ARGUMENT", "INTERNAL", "RESOURCE_EXHAUSTED"]:
        assert policy.delay(error(final), 1) is None, final


def test_a_stream_is_opened_again_with_growing_delays_until_the_attempts_are_exhausted() -> None:
    rejoining = Rejoining(folio.RetryPolicy(attempts=3))
    assert [rejoining.delay(error("UNAVAILABLE"), False) for _ in range(2)] == [0.2, 0.4]
    with pytest.raises(folio.FolioError):
        rejoining.delay(error("UNAVAILABLE"), False)
    assert rejoining.delay(None, True) == 0.2, "progress resets the count"
    delays = [rejoining.delay(None, False) for _ in range(10)]
    assert delays[:3] == [0.4, 0.8, 1.6] and delays[-1] == 5.0
    with pytest.raises(folio.ConnectionLost):
        rejoining.delay(None, False)


def test_only_an_interrupted_stream_is_opened_again() -> None:
    rejoining = Rejoining(folio.RetryPolicy(max_delay=10))
    for interrupted in [error("DEADLINE_EXCEEDED"), error("INTERNAL", reason=""), error("CANCELLED", reason="")]:
        assert rejoining.delay(interrupted, True) == 0.2
    assert rejoining.delay(error("RESOURCE_EXHAUSTED", 3), True) == 3
    for final in [error("INTERNAL"), error("NOT_FOUND", reason=""), error("UNAVAILABLE", 11)]:
        with pytest.raises(folio.FolioError) as raised:
            rejoining.delay(final, True)
        assert raised.value is final


def test_a_request_gets_an_idempotency_key_once() -> None:
    request = v1.CreateTagRequest(tag=v1.Tag(name="a"))
    first, second = with_request_id(request), with_request_id(request)
    assert first.tag.name == "a" and len(first.request_id) == 36 and first.request_id != second.request_id
    assert request.request_id == "", "the request of the caller is not changed"
    own = v1.CreateTagRequest(request_id="own")
    assert with_request_id(own) is own
    read = v1.GetTagRequest(tag_id="tag_1")
    assert with_request_id(read) is read


def test_the_first_field_of_each_list_has_its_items() -> None:
    lists = [
        getattr(v1, name)
        for name in dir(v1)
        if name.startswith("List") and name.endswith("Response") and hasattr(getattr(v1, name), "DESCRIPTOR")
    ]
    assert len(lists) > 20
    for response in lists:
        assert items_of(response()) == [], response.DESCRIPTOR.name
        assert response.DESCRIPTOR.fields_by_number[1].message_type is not None, response.DESCRIPTOR.name
    own, effective = v1.Provider(name="own"), v1.Provider(name="effective")
    assert items_of(v1.ListProvidersResponse(providers=[own], effective_providers=[effective])) == [own]
    assert items_of(v1.ListProvidersResponse(effective_providers=[effective])) == []
    with pytest.raises(TypeError, match="GetTagResponse is no response of a list"):
        items_of(v1.GetTagResponse())


def test_the_next_page_continues_after_skipped_items() -> None:
    request = v1.ListTagsRequest(filter="name:a", skip=5)
    following = next_request(request, v1.ListTagsResponse(next_page_token="t"))
    assert following == v1.ListTagsRequest(filter="name:a", page_token="t")
    assert next_request(request, v1.ListTagsResponse()) is None


def event(number: int, **kind: object) -> v1.Event:
    return v1.Event(turn_id="turn", number=number, **kind)  # type: ignore[arg-type]


def test_a_turn_continues_after_its_last_event() -> None:
    chat = v1.ChatRequest(text="hello", request_id="r")
    position = TurnPosition(chat)
    assert position.request() is chat
    assert position.accept(event(1, turn_started=v1.TurnStarted(thread_id="thread")))
    assert position.accept(event(2, text_delta=v1.TextDelta(text="a")))
    assert not position.accept(event(2, text_delta=v1.TextDelta(text="a"))), "a repeated event"
    assert (position.turn_id, position.thread_id, position.closing) == ("turn", "thread", None)
    assert position.request() == v1.WatchTurnRequest(turn_id="turn", from_event=3)
    assert position.accept(event(9, failed=v1.Failed()))
    assert position.closing is not None and position.closing.number == 9
    assert position.accept(event(10, snapshot=v1.Snapshot(turn=v1.Turn(thread_id="thread"))))
    assert position.closing is None, "the turn was resumed"


def test_a_watch_and_a_resumed_turn_start_with_their_own_requests() -> None:
    assert TurnPosition(v1.WatchTurnRequest(turn_id="turn", from_event=7)).request().from_event == 7  # type: ignore[union-attr]
    resume = v1.ResumeTurnRequest(turn_id="turn")
    position = TurnPosition(resume)
    assert position.request() is resume
    position.accept(event(12, round_started=v1.RoundStarted()))
    assert position.request() == v1.WatchTurnRequest(turn_id="turn", from_event=13)


WAITING = v1.AwaitingApproval(
    turn_id="turn",
    round=2,
    pending=[
        v1.Call(
            call_id="1",
            name="create_tag",
            arguments_json='{"name": "ä"}',
            arguments_digest="digest",
            access=v1.TOOL_ACCESS_READ_WRITE,
            needs_approval=True,
            approval_requirement=v1.ApprovalRequirement(
                rule="four eyes", roles=[v1.ROLE_ADMIN], not_by_requester=True
            ),
        ),
        v1.Call(call_id="2", name="list_tags"),
        v1.Call(call_id="3", name="delete_tag", arguments_digest="other", needs_approval=True),
    ],
)


def test_an_approval_states_the_rule_the_roles_and_an_excluded_requester() -> None:
    first, second = approvals(WAITING, ["3"])
    assert (first.tool, first.arguments, first.is_write) == ("create_tag", {"name": "ä"}, True)
    assert (first.rule, first.roles, first.is_requester_excluded) == ("four eyes", ("admin",), True)
    assert not first.may_approve and second.may_approve
    assert (second.rule, second.roles, second.is_requester_excluded) == ("", (), False)


def test_decisions_are_bound_to_the_arguments() -> None:
    first, second = approvals(WAITING, [])
    request = approve_request(WAITING, [(first, folio.ApproveEdited({"name": "ö"})), (second, folio.Reject("no"))])
    assert request is not None and (request.turn_id, request.round) == ("turn", 2)
    edited, rejected = request.decisions
    assert (edited.arguments_digest, edited.approved_edited.arguments_json) == ("digest", '{"name": "ö"}')
    assert (rejected.call_id, rejected.rejected.reason) == ("3", "no")
    partly = approve_request(WAITING, [(first, folio.Leave()), (second, folio.Approve())])
    assert partly is not None and [made.call_id for made in partly.decisions] == ["3"]
    assert partly.decisions[0].HasField("approved")
    assert approve_request(WAITING, [(first, folio.Leave()), (second, folio.Leave())]) is None
    empty = approve_request(WAITING, [])
    assert empty is not None and not empty.decisions, "a round that only waits to be continued"


def test_items_that_a_new_stream_does_not_send_are_reported_as_removed() -> None:
    def item(identifier: str) -> v1.WatchInboxResponse:
        return v1.WatchInboxResponse(item=v1.InboxItem(item_id=identifier))

    caught_up = v1.WatchInboxResponse(caught_up=v1.CaughtUp())
    items = WatchedItems[v1.WatchInboxResponse]()
    items.start_stream()
    for change in [item("a"), item("b"), item("c"), caught_up]:
        assert items.apply(change) == [change]
    items.apply(v1.WatchInboxResponse(removed_item_id="c"))
    items.start_stream()
    assert items.apply(item("b")) == [item("b")]
    assert items.apply(caught_up) == [v1.WatchInboxResponse(removed_item_id="a"), caught_up]
    assert items.apply(caught_up) == [caught_up], "a keep-alive"


def test_a_table_sends_rows_that_are_new_or_changed_and_all_rows_after_a_change_of_its_stack() -> None:
    def stack(etag: str) -> v1.WatchTableResponse:
        return v1.WatchTableResponse(stack=v1.Stack(etag=etag))

    def listed(table: WatchedTable, *rows: tuple[str, str]) -> tuple[list[str], list[str]]:
        sent = [identifier for identifier, etag in rows if table.add(v1.StackRow(stack_row_id=identifier, etag=etag))]
        return sent, [removal.removed_stack_row_id for removal in table.end_list()]

    table = WatchedTable()
    table.start_stream()
    assert table.apply(stack("1"))
    assert listed(table, ("a", "1"), ("b", "1"), ("c", "1")) == (["a", "b", "c"], [])
    assert not table.apply(stack("1")), "a keep-alive"
    assert not table.apply(v1.WatchTableResponse(row=v1.StackRow(stack_row_id="b", etag="2")))
    assert not table.apply(v1.WatchTableResponse(removed_stack_row_id="c"))
    table.start_stream()
    assert table.apply(stack("1"))
    assert listed(table, ("b", "2"), ("d", "1")) == (["d"], ["a"])
    assert table.apply(stack("2"))
    assert listed(table, ("b", "2")) == (["b"], ["d"])


def test_the_result_of_a_job_is_its_extraction_or_its_error() -> None:
    done = v1.Job(items=[v1.JobItem(result_json='{"extraction_id": "ext_1"}')])
    assert extraction_of(done) == "ext_1"
    failed = v1.Job(items=[v1.JobItem(error=v1.Error(code="NOT_FOUND", reason="NOT_FOUND", message="m"))])
    with pytest.raises(folio.NotFound):
        extraction_of(failed)
    with pytest.raises(folio.Cancelled):
        extraction_of(v1.Job(job_id="job_1", state=v1.JOB_STATE_CANCELLED))


def test_an_error_of_an_event_is_typed() -> None:
    message = v1.Error(code="UNAVAILABLE", reason="MODEL_TIMEOUT", message="m", details={"model": "a"})
    message.retry_after.FromMilliseconds(1_500)
    found = of_message(message)
    assert isinstance(found, folio.Unavailable) and found.reason == folio.Reason.MODEL_TIMEOUT
    assert (found.retry_after, found.details) == (1.5, {"model": "a"})


BODY = b'{"type": "document.ready", "timestamp": "2026-11-22T09:00:00.5Z", "data": {"document_id": "doc_1"}}'


def signed(key: bytes, body: bytes, age: int = 0) -> dict[str, str]:
    seconds = str(int(time.time()) - age)
    signature = hmac.new(key, b".".join([b"evt_1", seconds.encode(), body]), hashlib.sha256).digest()
    return {
        "Webhook-Id": "evt_1",
        "Webhook-Timestamp": seconds,
        "Webhook-Signature": f"v1,{base64.b64encode(signature).decode()}",
    }


@pytest.mark.parametrize(("secret", "key"), [("whsec_AAEC", b"\0\1\2"), ("any text", b"any text")])
def test_a_signed_event_is_returned(secret: str, key: bytes) -> None:
    found = folio.verify_webhook(secret, signed(key, BODY), BODY)
    assert (found.id, found.type, found.data) == ("evt_1", "document.ready", {"document_id": "doc_1"})
    assert found.timestamp.isoformat() == "2026-11-22T09:00:00.500000+00:00"


def test_an_event_without_a_valid_signature_is_refused() -> None:
    headers = signed(b"key", BODY)
    refused = [
        ("other", headers, BODY),
        ("key", headers, BODY + b" "),
        ("key", signed(b"key", BODY, age=301), BODY),
        ("key", signed(b"key", BODY, age=-301), BODY),
        ("key", {**headers, "Webhook-Id": "evt_2"}, BODY),
        ("key", {**headers, "Webhook-Signature": "v1"}, BODY),
        ("key", {**headers, "Webhook-Signature": "v1,%%%"}, BODY),
        ("key", {**headers, "Webhook-Timestamp": "now"}, BODY),
        ("key", {}, BODY),
        ("key", signed(b"key", b"\xff"), b"\xff"),
        ("key", signed(b"key", b"[]"), b"[]"),
        ("key", signed(b"key", b" " * 70_000), b" " * 70_000),
    ]
    for secret, with_headers, body in refused:
        with pytest.raises(folio.InvalidSignature):
            folio.verify_webhook(secret, with_headers, body)


@pytest.mark.parametrize("secret", ["whsec_", "whsec_%", ""])
def test_an_invalid_secret_is_refused_and_not_repeated_in_the_message(secret: str) -> None:
    with pytest.raises(ValueError, match="invalid secret") as refused:
        folio.verify_webhook(secret, signed(b"key", BODY), BODY)
    assert json.dumps(secret) not in str(refused.value)
