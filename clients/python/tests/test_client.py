"""Tests of both clients against a scripted server."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from fake_server import TOKEN, FakeServer, Refusal, broken

import folio
from folio import v1


class Both:
    """The same calls with one of the clients."""

    def __init__(self, address: str, is_async: bool) -> None:
        self._is_async = is_async
        self._loop = asyncio.new_event_loop() if is_async else None
        retry = folio.RetryPolicy(attempts=3, max_delay=2)
        self.client: Any
        if self._loop is None:
            self.client = folio.Client(address, TOKEN, retry=retry)
        else:
            self.client = self._loop.run_until_complete(self._connect(address, retry))

    @staticmethod
    async def _connect(address: str, retry: folio.RetryPolicy) -> folio.AsyncClient:
        return folio.AsyncClient(address, TOKEN, retry=retry)

    def call(self, call: Callable[[Any], Any]) -> Any:
        """Returns the result of a method."""
        return self._wait(call(self.client))

    def all(self, call: Callable[[Any], Any], limit: int = 1_000) -> list[Any]:
        """Returns the first items of an iterator."""
        return self.items(call(self.client), limit)

    def items(self, found: Any, limit: int = 1_000) -> list[Any]:
        if self._loop is None:
            return [item for _, item in zip(range(limit), found)]

        async def read(items: AsyncIterator[Any]) -> list[Any]:
            read = []
            async for item in items:
                read.append(item)
                if len(read) == limit:
                    break
            return read

        return list(self._loop.run_until_complete(read(found)))

    def _wait(self, result: Any) -> Any:
        return result if self._loop is None else self._loop.run_until_complete(result)

    def close(self) -> None:
        self._wait(self.client.close())
        if self._loop is not None:
            self._loop.close()


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def both(request: pytest.FixtureRequest, server: FakeServer) -> Iterator[Both]:
    both = Both(server.address, request.param)
    yield both
    both.close()


def tag(number: int) -> v1.Tag:
    return v1.Tag(tag_id=f"tag_{number}")


def test_each_service_has_an_attribute(both: Both) -> None:
    stubs = {name for name in dir(v1) if name.endswith("ServiceStub")}
    assert {type(stub).__name__ for stub in vars(both.client).values()} & stubs == stubs


def test_calls_carry_the_token_and_an_idempotency_key(server: FakeServer, both: Both) -> None:
    server.script("CreateTag", v1.CreateTagResponse(tag=tag(1)))
    made = both.call(lambda client: client.tags.CreateTag(v1.CreateTagRequest(tag=v1.Tag(name="a"))))
    assert made.tag.tag_id == "tag_1" and server.tokens == {f"Bearer {TOKEN}"}
    assert server.of("CreateTag")[0].request_id


def test_a_call_is_repeated_with_the_same_key_after_the_requested_time(server: FakeServer, both: Both) -> None:
    limited = Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED", retry_after=0.01)
    server.script("CreateTag", limited, broken(), v1.CreateTagResponse(tag=tag(1)))
    both.call(lambda client: client.tags.CreateTag(v1.CreateTagRequest()))
    assert len(server.of("CreateTag")) == 3
    assert len({request.request_id for request in server.of("CreateTag")}) == 1


def test_a_refused_call_raises_its_error(server: FakeServer, both: Both) -> None:
    violations = (("tag.name", "is missing"),)
    facts = {"limit": "5"}
    refusal = Refusal(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", "tag.name is missing", None, violations, facts)
    server.script("CreateTag", refusal)
    with pytest.raises(folio.InvalidArgument) as raised:
        both.call(lambda client: client.tags.CreateTag(v1.CreateTagRequest()))
    error = raised.value
    assert (error.code, error.reason, error.message) == ("INVALID_ARGUMENT", folio.Reason.INVALID_FIELD, refusal.message)
    assert error.violations == (folio.FieldViolation("tag.name", "is missing"),)
    assert (error.details, error.retry_after, str(error)) == (facts, None, "tag.name is missing (INVALID_FIELD)")
    assert len(server.of("CreateTag")) == 1


def test_a_long_delay_is_an_error(server: FakeServer, both: Both) -> None:
    server.script("ListTags", Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED", retry_after=3_600))
    with pytest.raises(folio.ResourceExhausted) as raised:
        both.call(lambda client: client.tags.ListTags(v1.ListTagsRequest()))
    assert raised.value.retry_after == 3_600 and len(server.of("ListTags")) == 1


def test_an_unreachable_server_is_unavailable() -> None:
    with folio.Client("127.0.0.1:1", TOKEN, retry=folio.RetryPolicy(attempts=2)) as client:
        with pytest.raises(folio.Unavailable) as raised:
            client.tags.ListTags(v1.ListTagsRequest())
        assert raised.value.reason == ""
        with pytest.raises(folio.Unavailable):
            next(client.watch_inbox())


def test_a_list_is_read_page_by_page(server: FakeServer, both: Both) -> None:
    first = v1.ListTagsResponse(tags=[tag(1), tag(2)], next_page_token="more")
    server.script("ListTags", first, v1.ListTagsResponse(tags=[tag(3)]))
    found = both.all(lambda client: client.iterate(client.tags.ListTags, v1.ListTagsRequest(filter="name:a")))
    assert [item.tag_id for item in found] == ["tag_1", "tag_2", "tag_3"]
    assert [request.page_token for request in server.of("ListTags")] == ["", "more"]
    assert {request.filter for request in server.of("ListTags")} == {"name:a"}


def uploaded(parts: list[v1.UploadDocumentRequest]) -> bytes:
    return b"".join(part.chunk for part in parts[1:])


def test_a_file_is_uploaded_with_progress_and_sent_again(server: FakeServer, both: Both, tmp_path: Path) -> None:
    content = bytes(range(256)) * 3_000
    path = tmp_path / "invoice.pdf"
    path.write_bytes(content)
    server.script("UploadDocument", broken(), v1.UploadDocumentResponse(document=v1.Document(document_id="doc_1")))
    seen: list[tuple[int, int]] = []
    found = both.call(
        lambda client: client.upload(
            path,
            tag_ids=["tag_1"],
            metadata={"year": "2026"},
            credit_budget=7,
            progress=lambda sent, size: seen.append((sent, size)),
        )
    )
    assert found.document_id == "doc_1"
    first, second = server.of("UploadDocument")
    assert uploaded(second) == content and first[0] == second[0]
    description = second[0].description
    assert (description.name, description.size_bytes, dict(description.metadata)) == (
        "invoice.pdf",
        len(content),
        {"year": "2026"},
    )
    assert description.request_id and list(description.tag_ids) == ["tag_1"]
    assert not description.HasField("auto_create") and description.credit_budget == 7
    assert seen[-1] == (len(content), len(content)) and seen[-3:] == sorted(seen[-3:])


def test_bytes_and_open_files_are_uploaded(server: FakeServer, both: Both) -> None:
    server.script("UploadDocument", v1.UploadDocumentResponse())
    both.call(lambda client: client.upload(b"abc", name="a.txt"))
    file = io.BytesIO(b"skipped|rest")
    file.seek(8)
    both.call(lambda client: client.upload(file, name="b.txt"))
    assert [uploaded(parts) for parts in server.of("UploadDocument")] == [b"abc", b"rest"]
    assert not file.closed, "the file of the caller stays open"
    with pytest.raises(ValueError, match="needs a name"):
        both.call(lambda client: client.upload(b"abc"))


def event(number: int, **kind: Any) -> v1.Event:
    return v1.Event(turn_id="turn", number=number, **kind)


def chat(number: int, **kind: Any) -> v1.ChatResponse:
    return v1.ChatResponse(event=event(number, **kind))


def watch(number: int, **kind: Any) -> v1.WatchTurnResponse:
    return v1.WatchTurnResponse(event=event(number, **kind))


STARTED = chat(1, turn_started=v1.TurnStarted(thread_id="thread"))


def kinds(events: list[v1.Event]) -> list[str]:
    return [str(event.WhichOneof("kind")) for event in events]


def test_a_broken_chat_continues_without_gap_and_repetition(server: FakeServer, both: Both) -> None:
    server.script("Chat", broken(), [STARTED, chat(2, text_delta=v1.TextDelta(text="a")), broken()])
    again = watch(2, text_delta=v1.TextDelta(text="a"))
    rest = [watch(3, text_delta=v1.TextDelta(text="b")), watch(4, completed=v1.Completed(text="ab"))]
    server.script("WatchTurn", [again, rest[0]], rest)
    turn = both.client.chat("hello", document_ids=["doc_1"], model="m")
    events = both.items(turn)
    assert [event.number for event in events] == [1, 2, 3, 4]
    assert (turn.turn_id, turn.thread_id, turn.last_event) == ("turn", "thread", 4)
    first, second = server.of("Chat")
    assert first == second and first.request_id and (first.model, first.document_ids) == ("m", ["doc_1"])
    assert [request.from_event for request in server.of("WatchTurn")] == [3, 4]
    assert both.call(lambda _: turn.completed()).text == "ab"


def test_a_refused_chat_raises_its_error(server: FakeServer, both: Both) -> None:
    server.script("Chat", Refusal(grpc.StatusCode.FAILED_PRECONDITION, "TURN_BUSY"))
    with pytest.raises(folio.FailedPrecondition) as raised:
        both.items(both.client.chat("hello", thread_id="thread"))
    assert raised.value.reason == folio.Reason.TURN_BUSY and len(server.of("Chat")) == 1


def test_a_question_has_a_typed_answer(server: FakeServer, both: Both) -> None:
    done = v1.Completed(text="1+1 = 2", answer_type="CalculationResponse", answer_json='{"expression": "1+1", "result": 2}')
    server.script("Chat", [STARTED, chat(2, completed=done)], [STARTED, chat(2, completed=v1.Completed(text="a"))])
    scope = {"tag_ids": ["tag_1"], "collection_ids": ["col_1"]}
    answer = both.call(lambda client: client.ask("What is 1 + 1?", **scope, model="m"))
    assert (answer.type, answer.value["result"], answer.text) == ("CalculationResponse", 2, "1+1 = 2")
    assert (answer.thread_id, answer.turn_id, answer.credits) == ("thread", "turn", 0)
    request = server.of("Chat")[0]
    assert (request.profile, request.text, request.model) == ("assistant", "What is 1 + 1?", "m")
    assert [mention.tag_id or mention.collection_id for mention in request.mentions] == ["tag_1", "col_1"]
    with pytest.raises(folio.FailedPrecondition):
        both.call(lambda client: client.ask("What?", thread_id="thread"))


def test_a_failed_turn_is_resumed(server: FakeServer, both: Both) -> None:
    failed = v1.Failed(error=v1.Error(code="UNAVAILABLE", reason="MODEL_TIMEOUT", message="m"), retriable=True)
    server.script("Chat", [STARTED, chat(2, failed=failed)])
    turn = both.client.chat("hello", document_ids=["doc_1"])
    with pytest.raises(folio.Unavailable) as raised:
        both.call(lambda _: turn.completed())
    assert raised.value.reason == folio.Reason.MODEL_TIMEOUT
    server.script("ResumeTurn", [v1.ResumeTurnResponse(event=event(3, completed=v1.Completed(text="a")))])
    assert kinds(both.items(both.client.resume(turn.turn_id))) == ["completed"]


CALL = v1.Call(
    call_id="1",
    name="create_tag",
    arguments_json="{}",
    needs_approval=True,
    approval_requirement=v1.ApprovalRequirement(rule="four eyes", roles=[v1.ROLE_ADMIN], not_by_requester=True),
)
WAITING = v1.AwaitingApproval(turn_id="turn", round=1, pending=[CALL])


def test_the_events_after_an_approval_are_those_of_the_same_turn(server: FakeServer, both: Both) -> None:
    server.script("Chat", [STARTED, chat(2, awaiting_approval=WAITING)])
    server.script("GetTurn", v1.GetTurnResponse(turn=v1.Turn(approvable_call_ids=["1"])))
    # The first stream opens before the decisions are recorded.
    pause, end = watch(2, awaiting_approval=WAITING), watch(4, completed=v1.Completed(text="done"))
    server.script("WatchTurn", [pause], [watch(3, tool_result=v1.ToolResult(call_id="1")), end])
    server.script("Approve", v1.ApproveResponse(turn_id="turn", completed=v1.Completed(), event_number=4))
    seen: list[folio.Approval] = []

    def approve(approval: folio.Approval) -> folio.Decision:
        seen.append(approval)
        return folio.Approve()

    events = both.items(both.client.chat("hello", document_ids=["doc_1"], approve=approve))
    assert kinds(events) == ["turn_started", "awaiting_approval", "tool_result", "completed"]
    assert [(item.rule, item.roles, item.is_requester_excluded, item.may_approve) for item in seen] == [
        ("four eyes", ("admin",), True, True)
    ]
    (request,) = server.of("Approve")
    assert request.continue_auto_approved and request.decisions[0].HasField("approved")


def test_a_turn_without_a_decision_ends_with_its_pause(server: FakeServer, both: Both) -> None:
    server.script("Chat", [STARTED, chat(2, awaiting_approval=WAITING)])
    server.script("GetTurn", v1.GetTurnResponse(turn=v1.Turn()))
    for approve in [None, lambda _: folio.Leave()]:
        events = both.items(both.client.chat("hello", document_ids=["doc_1"], approve=approve))
        assert kinds(events) == ["turn_started", "awaiting_approval"]
    assert server.of("Approve") == []
    turn = both.client.chat("hello", document_ids=["doc_1"])
    with pytest.raises(folio.FailedPrecondition, match="awaiting_approval"):
        both.call(lambda _: turn.completed())


def test_a_turn_that_needs_further_decisions_ends_with_its_pause(server: FakeServer, both: Both) -> None:
    server.script("Chat", [STARTED, chat(2, awaiting_approval=WAITING)])
    server.script("GetTurn", v1.GetTurnResponse(turn=v1.Turn()))
    server.script("WatchTurn", [watch(2, awaiting_approval=WAITING)])
    server.script("Approve", v1.ApproveResponse(turn_id="turn", still_awaiting=v1.StillAwaiting(round=1)))
    turn = both.client.chat("hello", document_ids=["doc_1"], approve=lambda _: folio.Reject("no"))
    assert kinds(both.items(turn)) == ["turn_started", "awaiting_approval"]
    assert server.of("Approve")[0].decisions[0].rejected.reason == "no"


def test_a_denied_decision_raises_its_error(server: FakeServer, both: Both) -> None:
    server.script("Chat", [STARTED, chat(2, awaiting_approval=WAITING)])
    server.script("GetTurn", v1.GetTurnResponse(turn=v1.Turn()))
    server.script("WatchTurn", [watch(2, awaiting_approval=WAITING)])
    server.script("Approve", Refusal(grpc.StatusCode.PERMISSION_DENIED, "POLICY_DENIED"))
    turn = both.client.chat("hello", document_ids=["doc_1"], approve=lambda _: folio.Approve())
    with pytest.raises(folio.PermissionDenied):
        both.items(turn)


def test_an_asynchronous_callback_decides(server: FakeServer) -> None:
    server.script("Chat", [STARTED, chat(2, awaiting_approval=WAITING)])
    server.script("GetTurn", v1.GetTurnResponse(turn=v1.Turn()))
    server.script("WatchTurn", [watch(3, completed=v1.Completed(text="done"))])
    server.script("Approve", v1.ApproveResponse(turn_id="turn", completed=v1.Completed()))

    async def approve(approval: folio.Approval) -> folio.Decision:
        await asyncio.sleep(0)
        return folio.Approve()

    async def run() -> str:
        async with folio.AsyncClient(server.address, TOKEN) as client:
            return (await client.chat("hello", document_ids=["doc_1"], approve=approve).completed()).text

    assert asyncio.run(run()) == "done"


def test_a_watch_is_opened_again_and_reports_what_was_removed_meanwhile(server: FakeServer, both: Both) -> None:
    def waiting(turn: str) -> v1.WatchPendingApprovalsResponse:
        return v1.WatchPendingApprovalsResponse(pending_approval=v1.PendingApproval(turn_id=turn))

    caught_up = v1.WatchPendingApprovalsResponse(caught_up=v1.CaughtUp())
    lifetime = Refusal(grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED")
    server.script("WatchPendingApprovals", [waiting("a"), waiting("b"), caught_up, lifetime], [waiting("b"), caught_up])
    found = both.all(lambda client: client.watch_pending_approvals("user=user_1"), limit=6)
    removed = v1.WatchPendingApprovalsResponse(removed_turn_id="a")
    assert found == [waiting("a"), waiting("b"), caught_up, waiting("b"), removed, caught_up]
    assert {request.filter for request in server.of("WatchPendingApprovals")} == {"user=user_1"}


def test_a_refused_watch_raises_its_error(server: FakeServer, both: Both) -> None:
    server.script("WatchInbox", Refusal(grpc.StatusCode.PERMISSION_DENIED, "ROLE_NOT_ALLOWED"))
    with pytest.raises(folio.PermissionDenied):
        both.all(lambda client: client.watch_inbox())


def document(state: v1.DocumentState.ValueType) -> v1.WatchDocumentResponse:
    return v1.WatchDocumentResponse(document=v1.DocumentStatus(document=v1.Document(document_id="d", state=state)))


def test_the_text_of_a_document_is_awaited(server: FakeServer, both: Both) -> None:
    reading, ready = document(v1.DOCUMENT_STATE_PROCESSING), document(v1.DOCUMENT_STATE_READY)
    server.script("WatchDocument", [reading, broken()], [reading, ready])
    assert both.call(lambda client: client.wait_for_text("d")).state == v1.DOCUMENT_STATE_READY


def test_a_watch_ends_with_the_deletion_of_its_document(server: FakeServer, both: Both) -> None:
    deleted = Refusal(grpc.StatusCode.NOT_FOUND, "NOT_FOUND")
    reading = document(v1.DOCUMENT_STATE_PROCESSING)
    server.script("WatchDocument", [reading, deleted])
    assert both.all(lambda client: client.watch_document("d")) == [reading]
    with pytest.raises(folio.NotFound):
        both.call(lambda client: client.wait_for_text("d"))
    server.script("WatchDocument", deleted)
    with pytest.raises(folio.NotFound):
        both.all(lambda client: client.watch_document("d"))


def job(state: v1.JobState.ValueType, done: int = 0, result: str = "") -> v1.WatchJobResponse:
    items = [v1.JobItem(result_json=result)]
    return v1.WatchJobResponse(job=v1.Job(job_id="job_1", state=state, done_items=done, total_items=1, items=items))


def test_a_long_extraction_is_awaited_with_progress(server: FakeServer, both: Both) -> None:
    started = v1.RunExtractionResponse(job=v1.Job(job_id="job_1"))
    server.script("RunExtraction", started)
    running, ended = job(v1.JOB_STATE_RUNNING), job(v1.JOB_STATE_COMPLETED, 1, '{"extraction_id": "ext_1"}')
    server.script("WatchJob", [running, broken()], [running, ended])
    server.script("GetExtraction", v1.GetExtractionResponse(extraction=v1.Extraction(original_json="{}")))
    seen: list[v1.Job] = []
    found = both.call(lambda client: client.extract("doc_1", "prompt_1", progress=seen.append))
    assert found.original_json == "{}" and [item.done_items for item in seen] == [0, 0, 1]
    assert server.of("GetExtraction")[0].extraction_id == "ext_1"


def test_a_short_extraction_needs_no_job(server: FakeServer, both: Both) -> None:
    server.script("RunExtraction", v1.RunExtractionResponse(extraction=v1.Extraction(extraction_id="ext_1")))
    assert both.call(lambda client: client.extract("doc_1", "prompt_1")).extraction_id == "ext_1"


def test_a_batch_selects_documents_by_id_or_filter(server: FakeServer, both: Both) -> None:
    server.script("RunExtractions", v1.RunExtractionsResponse(job=v1.Job(job_id="job_1")))
    assert both.call(lambda client: client.batch("prompt_1", document_ids=["doc_1"])).job_id == "job_1"
    both.call(lambda client: client.batch("prompt_1", document_filter="", credit_budget=5))
    by_id, by_filter = server.of("RunExtractions")
    assert not by_id.HasField("document_filter") and by_filter.HasField("document_filter")
    assert by_filter.credit_budget == 5 and not by_id.HasField("credit_budget")
    server.script("WatchJob", [job(v1.JOB_STATE_COMPLETED, 1)])
    assert both.call(lambda client: client.wait_for_job("job_1")).done_items == 1


def row(identifier: str, etag: str = "1") -> v1.StackRow:
    return v1.StackRow(stack_row_id=identifier, etag=etag)


def test_a_table_is_watched_with_its_rows_across_streams(server: FakeServer, both: Both) -> None:
    stack = v1.WatchTableResponse(stack=v1.Stack(stack_id="stk_1", etag="1"))
    changed = v1.WatchTableResponse(row=row("a", "2"))
    deleted = Refusal(grpc.StatusCode.NOT_FOUND, "NOT_FOUND")
    server.script("WatchTable", [stack, changed, broken()], [stack], deleted)
    pages = [v1.ListStackRowsResponse(rows=[row("a")], next_page_token="more"), v1.ListStackRowsResponse(rows=[row("b")])]
    server.script("ListStackRows", *pages, v1.ListStackRowsResponse(rows=[row("a", "2"), row("c")]))
    found = both.all(lambda client: client.watch_table("stk_1"))
    listed = [v1.WatchTableResponse(row=row("a")), v1.WatchTableResponse(row=row("b"))]
    again = [v1.WatchTableResponse(row=row("c")), v1.WatchTableResponse(removed_stack_row_id="b")]
    assert found == [stack, *listed, changed, stack, *again]
    assert {request.stack_id for request in server.of("ListStackRows")} == {"stk_1"}
    server.script("WatchTable", deleted)
    with pytest.raises(folio.NotFound):
        both.all(lambda client: client.watch_table("stk_1"))


def test_a_table_is_filled_and_exported(server: FakeServer, both: Both) -> None:
    server.script("FillStack", v1.FillStackResponse(job=v1.Job(job_id="job_1")))
    assert both.call(lambda client: client.fill_stack("stk_1", credit_budget=5)).job_id == "job_1"
    (request,) = server.of("FillStack")
    assert request.credit_budget == 5 and request.request_id
    server.script("ExportTable", [v1.ExportTableResponse(chunk=b"a,"), v1.ExportTableResponse(chunk=b"b")])
    assert both.call(lambda client: client.export_table("stk_1", v1.EXPORT_FORMAT_CSV)) == b"a,b"
