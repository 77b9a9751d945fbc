"""The synchronous client."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from . import v1
from .approvals import Approval, Decision, approvals, approve_request
from .assistant import Answer, answer_of, question_request
from .channel import AuthorizedChannel
from .connection import OPTIONS, credential, parse_address
from .errors import FolioError, NotFound
from .jobs import ENDED_JOB_STATES, extraction_of
from .paging import items_of, next_request
from .retry import Rejoining, RetryPolicy
from .tables import WatchedTable, list_request
from .turns import TurnPosition, TurnRequest, chat_request, completed, is_closing, waiting_round
from .uploads import Progress, Source, Upload
from .watching import SETTLED_DOCUMENT_STATES, W, WatchedItems, WatchRequest

R = TypeVar("R", bound=Message)

Approver = Callable[[Approval], Decision]
"""Decides about a call that waits for approval."""

# Delay between two streams of a turn whose decisions are not recorded yet.
_RECHECK = 0.05


class Client:
    """A connection to a server. Thread-safe.

    The attributes are the services of the API: `client.tags.CreateTag(v1.CreateTagRequest(...))`. Each call carries the token,
    raises a `FolioError` if it fails, and is repeated as the server requests. A request without a `request_id` gets one, so that
    a repetition changes nothing twice. The other methods combine several calls, and survive a lost connection.
    """

    def __init__(
        self,
        server: str,
        token: str | None,
        *,
        organization: str | None = None,
        certificate_authorities: bytes | None = None,
        retry: RetryPolicy = RetryPolicy(),
    ) -> None:
        """`server`: `HOST:PORT`, `http://HOST:PORT` or `https://HOST:PORT`. `token`: None for a sign-in, which needs none.
        `organization`: the id of the organization in which a session or an account token acts. `certificate_authorities`: PEM, to
        trust instead of those of grpcio."""
        address = parse_address(server, certificate_authorities is not None)
        if address.is_tls:
            credentials = grpc.ssl_channel_credentials(certificate_authorities)
            inner = grpc.secure_channel(address.target, credentials, options=OPTIONS)
        else:
            inner = grpc.insecure_channel(address.target, options=OPTIONS)
        channel = AuthorizedChannel(inner, credential(token, organization), retry)
        self._channel, self._retry = channel, retry
        self.accounts = v1.AccountServiceStub(channel)
        self.audits = v1.AuditServiceStub(channel)
        self.collections = v1.CollectionServiceStub(channel)
        self.completions = v1.CompletionServiceStub(channel)
        self.conversations = v1.ConversationServiceStub(channel)
        self.credits = v1.CreditServiceStub(channel)
        self.dictionary = v1.DictionaryServiceStub(channel)
        self.documents = v1.DocumentServiceStub(channel)
        self.extractions = v1.ExtractionServiceStub(channel)
        self.inbox = v1.InboxServiceStub(channel)
        self.ingestions = v1.IngestionServiceStub(channel)
        self.jobs = v1.JobServiceStub(channel)
        self.limits = v1.LimitServiceStub(channel)
        self.links = v1.LinkServiceStub(channel)
        self.mcp_servers = v1.McpServerServiceStub(channel)
        self.models = v1.ModelServiceStub(channel)
        self.organizations = v1.OrganizationServiceStub(channel)
        self.policies = v1.PolicyServiceStub(channel)
        self.prompts = v1.PromptServiceStub(channel)
        self.proposals = v1.ProposalServiceStub(channel)
        self.providers = v1.ProviderServiceStub(channel)
        self.retrieval = v1.RetrievalServiceStub(channel)
        self.schemas = v1.SchemaServiceStub(channel)
        self.stacks = v1.StackServiceStub(channel)
        self.tags = v1.TagServiceStub(channel)
        self.threads = v1.ThreadServiceStub(channel)
        self.tokens = v1.TokenServiceStub(channel)
        self.usages = v1.UsageServiceStub(channel)
        self.users = v1.UserServiceStub(channel)
        self.webhooks = v1.WebhookEndpointServiceStub(channel)

    def close(self) -> None:
        """Closes the connection. Running turns and jobs continue on the server."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def iterate(self, method: Callable[[R], Message], request: R) -> Iterator[Any]:
        """Returns the items of all pages of a list: `client.iterate(client.tags.ListTags, v1.ListTagsRequest())`."""
        following: R | None = request
        while following is not None:
            page = method(following)
            yield from items_of(page)
            following = next_request(following, page)

    def upload(
        self,
        source: Source,
        *,
        name: str = "",
        tag_ids: Sequence[str] = (),
        metadata: Mapping[str, str] | None = None,
        password: str = "",
        auto_create: bool | None = None,
        credit_budget: int | None = None,
        request_id: str = "",
        progress: Progress | None = None,
    ) -> v1.Document:
        """Uploads a file.

        `source`: a path, bytes, or an open binary file. `name`: the name of the document; default: the name of the file.
        `progress` receives the bytes that were sent and the size of the file. After a lost connection, a path, bytes and a
        seekable file are sent again.
        """
        upload = Upload(
            source,
            name=name,
            tag_ids=tag_ids,
            metadata=metadata,
            password=password,
            auto_create=auto_create,
            credit_budget=credit_budget,
            request_id=request_id,
            progress=progress,
        )
        try:
            attempt = 0
            while True:
                attempt += 1
                try:
                    return self.documents.UploadDocument(upload.messages()).document
                except FolioError as error:
                    delay = self._retry.delay(error, attempt) if upload.is_repeatable else None
                    if delay is None:
                        raise
                time.sleep(delay)
        finally:
            upload.close()

    def wait_for_text(self, document_id: str) -> v1.Document:
        """Waits until the text of a document is READY, or is NO_TEXT or FAILED."""
        for change in self.watch_document(document_id):
            document = change.document.document
            if change.WhichOneof("change") == "document" and document.state in SETTLED_DOCUMENT_STATES:
                return document
        raise NotFound("NOT_FOUND", "NOT_FOUND", f"the document {document_id} was deleted")

    def chat(
        self,
        text: str,
        *,
        document_ids: Sequence[str] = (),
        thread_id: str = "",
        approve: Approver | None = None,
        **fields: Any,
    ) -> Turn:
        """Sends a message and returns the events of its turn.

        `document_ids` or `thread_id`: the documents of a new thread, or the thread to continue. `approve` decides about each call
        that waits for approval; without it, the events end with `awaiting_approval`. `fields`: further fields of
        `v1.ChatRequest`, such as `model` or `auto_approve`.
        """
        return Turn(self, chat_request(text, document_ids=document_ids, thread_id=thread_id, **fields), approve)

    def ask(
        self,
        question: str,
        *,
        document_ids: Sequence[str] = (),
        tag_ids: Sequence[str] = (),
        collection_ids: Sequence[str] = (),
        thread_id: str = "",
        **fields: Any,
    ) -> Answer:
        """Asks the assistant and returns its typed answer.

        `document_ids` or `thread_id`: the only documents of a new conversation, or the conversation to continue. `tag_ids`: only
        documents with all of these tags. `collection_ids`: only documents in any of these collections. `fields`: further fields of
        `v1.ChatRequest`, such as `model` or `credit_budget`.
        """
        request = question_request(
            question,
            tag_ids=tag_ids,
            collection_ids=collection_ids,
            document_ids=document_ids,
            thread_id=thread_id,
            **fields,
        )
        turn = Turn(self, request, None)
        return answer_of(turn.completed(), turn.thread_id, turn.turn_id)

    def resume(self, turn_id: str, *, approve: Approver | None = None) -> Turn:
        """Resumes a failed turn and returns its further events."""
        return Turn(self, v1.ResumeTurnRequest(turn_id=turn_id), approve)

    def watch_turn(self, turn_id: str, *, from_event: int = 0, approve: Approver | None = None) -> Turn:
        """Returns the events of a turn from an event number."""
        return Turn(self, v1.WatchTurnRequest(turn_id=turn_id, from_event=from_event), approve)

    def watch_document(self, document_id: str) -> Iterator[v1.WatchDocumentResponse]:
        """Returns the state of a document and its newest extractions, and then each change. Ends when the document is deleted."""
        request = v1.WatchDocumentRequest(document_id=document_id)
        has_progress = False
        try:
            for change in self._watch(self.documents.WatchDocument, request):
                has_progress = True
                yield change
        except NotFound:
            if not has_progress:
                raise

    def watch_inbox(self, filter: str = "") -> Iterator[v1.WatchInboxResponse]:
        """Returns the items that wait for the caller, and then each change, without end."""
        return self._watch(self.inbox.WatchInbox, v1.WatchInboxRequest(filter=filter))

    def watch_pending_approvals(self, filter: str = "") -> Iterator[v1.WatchPendingApprovalsResponse]:
        """Returns the turns that wait for a decision of the caller, and then each change, without end."""
        return self._watch(self.conversations.WatchPendingApprovals, v1.WatchPendingApprovalsRequest(filter=filter))

    def _watch(self, method: Callable[[Any], Iterator[W]], request: WatchRequest) -> Iterator[W]:
        items, rejoining = WatchedItems[W](), Rejoining(self._retry)
        while True:
            items.start_stream()
            has_progress, failure = False, None
            stream: Any = method(request)
            try:
                for change in stream:
                    has_progress = True
                    yield from items.apply(change)
            except FolioError as error:
                failure = error
            finally:
                stream.cancel()
            time.sleep(rejoining.delay(failure, has_progress))

    def watch_job(self, job_id: str) -> Iterator[v1.Job]:
        """Returns the states of a job until it has ended."""
        rejoining = Rejoining(self._retry)
        while True:
            has_progress, failure = False, None
            stream: Any = self.jobs.WatchJob(v1.WatchJobRequest(job_id=job_id))
            try:
                for response in stream:
                    has_progress = True
                    yield response.job
                    if response.job.state in ENDED_JOB_STATES:
                        return
            except FolioError as error:
                failure = error
            finally:
                stream.cancel()
            time.sleep(rejoining.delay(failure, has_progress))

    def wait_for_job(self, job_id: str, progress: Callable[[v1.Job], None] | None = None) -> v1.Job:
        """Waits until a job has ended, and returns it. `progress` receives each state of the job."""
        job = v1.Job()
        for job in self.watch_job(job_id):
            if progress is not None:
                progress(job)
        return job

    def extract(
        self,
        document_id: str,
        prompt_revid: str,
        *,
        model: str = "",
        progress: Callable[[v1.Job], None] | None = None,
    ) -> v1.Extraction:
        """Runs a prompt on a document and returns the stored extraction.

        A long document, and a prompt that an agent runs, are extracted by a job; `progress` receives its states.
        """
        request = v1.RunExtractionRequest(document_id=document_id, prompt_revid=prompt_revid, model=model)
        response = self.extractions.RunExtraction(request)
        if not response.HasField("job"):
            return response.extraction
        extraction_id = extraction_of(self.wait_for_job(response.job.job_id, progress))
        return self.extractions.GetExtraction(v1.GetExtractionRequest(extraction_id=extraction_id)).extraction

    def batch(
        self,
        prompt_revid: str,
        *,
        document_ids: Sequence[str] = (),
        document_filter: str | None = None,
        model: str = "",
        credit_budget: int | None = None,
    ) -> v1.Job:
        """Starts a job that runs a prompt on documents.

        `document_filter` selects the documents if `document_ids` is empty. `wait_for_job` waits for the job, and
        `iterate(client.jobs.ListJobItems, ...)` returns its results.
        """
        request = v1.RunExtractionsRequest(
            document_ids=document_ids,
            document_filter=document_filter,
            prompt_revid=prompt_revid,
            model=model,
            credit_budget=credit_budget,
        )
        return self.extractions.RunExtractions(request).job

    def fill_stack(self, stack_id: str, *, model: str = "", credit_budget: int | None = None) -> v1.Job:
        """Starts a job that fills the missing cells of a table. `wait_for_job` waits for the job."""
        request = v1.FillStackRequest(stack_id=stack_id, model=model, credit_budget=credit_budget)
        return self.stacks.FillStack(request).job

    def export_table(self, stack_id: str, format: v1.ExportFormat.ValueType, *, include_details: bool = False) -> bytes:
        """Returns a table as a file, which is read into memory."""
        request = v1.ExportTableRequest(stack_id=stack_id, format=format, include_details=include_details)
        return b"".join(part.chunk for part in self.stacks.ExportTable(request))

    def watch_table(self, stack_id: str) -> Iterator[v1.WatchTableResponse]:
        """Returns the stack and its rows, and then each change. Ends when the stack is deleted.

        All rows are returned again after a change of the stack, and those that changed meanwhile after a lost connection.
        """
        table, rejoining, is_known = WatchedTable(), Rejoining(self._retry), False
        while True:
            table.start_stream()
            has_progress, failure = False, None
            stream: Any = self.stacks.WatchTable(v1.WatchTableRequest(stack_id=stack_id))
            try:
                for change in stream:
                    has_progress = is_known = True
                    must_list = table.apply(change)
                    yield change
                    if not must_list:
                        continue
                    for row in self.iterate(self.stacks.ListStackRows, list_request(stack_id)):
                        if table.add(row):
                            yield v1.WatchTableResponse(row=row)
                    yield from table.end_list()
            except FolioError as error:
                failure = error
            finally:
                stream.cancel()
            if is_known and isinstance(failure, NotFound):
                return
            time.sleep(rejoining.delay(failure, has_progress))

    def _open(self, request: TurnRequest) -> Any:
        if isinstance(request, v1.ChatRequest):
            return self.conversations.Chat(request)
        if isinstance(request, v1.ResumeTurnRequest):
            return self.conversations.ResumeTurn(request)
        return self.conversations.WatchTurn(request)


class Turn(Iterator[v1.Event]):
    """The events of a turn, without gaps and repetitions.

    A lost connection is opened again. The events end with the closing event of the turn, or with `awaiting_approval` if no
    decision is made about the waiting calls. Dropping the iterator does not stop the turn: `CancelTurn` does.
    """

    def __init__(self, client: Client, start: TurnRequest, approve: Approver | None) -> None:
        self._client, self._approve = client, approve
        self._position = TurnPosition(start)
        self._events = self._run()

    @property
    def turn_id(self) -> str:
        """The id of the turn. Empty before the first event."""
        return self._position.turn_id

    @property
    def thread_id(self) -> str:
        """The id of the thread, with which a further chat continues. Empty before the first event of a new thread."""
        return self._position.thread_id

    @property
    def last_event(self) -> int:
        """Number of the last event. `watch_turn` continues with the next one."""
        return self._position.last_event

    def __next__(self) -> v1.Event:
        return next(self._events)

    def close(self) -> None:
        """Closes the stream. The turn continues on the server."""
        self._events.close()

    def completed(self) -> v1.Completed:
        """Reads the events to the end and returns the answer. Raises the error of a failed turn; any other end is an error, too."""
        for _ in self:
            pass
        return completed(self._position.closing)

    def _run(self) -> Generator[v1.Event, None, None]:
        yield from self._stream()
        while self._approve is not None and (waiting := waiting_round(self._position.closing)) is not None:
            request, before = self._decide(waiting, self._approve), self._position.last_event
            if request is not None:
                yield from self._send(request)
            if self._position.last_event == before:
                # The decisions of other users are missing.
                return

    def _decide(self, waiting: v1.AwaitingApproval, approve: Approver) -> v1.ApproveRequest | None:
        turn = self._client.conversations.GetTurn(v1.GetTurnRequest(turn_id=waiting.turn_id)).turn
        pending = approvals(waiting, turn.approvable_call_ids)
        return approve_request(waiting, [(approval, approve(approval)) for approval in pending])

    def _send(self, request: v1.ApproveRequest) -> Generator[v1.Event, None, None]:
        """Sends decisions and returns the events up to the next closing event: none if decisions of other users are missing."""
        before = self._position.last_event
        with_answer = ThreadPoolExecutor(max_workers=1)
        try:
            answer = with_answer.submit(self._client.conversations.Approve, request)
            while self._position.last_event == before or self._position.closing is None:
                # Until the decisions are recorded, a stream only repeats the known pause.
                yield from self._stream()
                if answer.done() and answer.result().WhichOneof("outcome") == "still_awaiting":
                    return
                if self._position.last_event == before:
                    time.sleep(_RECHECK)
            answer.result()
        finally:
            with_answer.shutdown(wait=False)

    def _stream(self) -> Generator[v1.Event, None, None]:
        """Returns the new events until the stream ends with a closing event."""
        rejoining = Rejoining(self._client._retry)
        while True:
            has_progress, failure = False, None
            stream = self._client._open(self._position.request())
            try:
                for response in stream:
                    if self._position.accept(response.event):
                        has_progress = True
                        yield response.event
                    if is_closing(response.event):
                        return
            except FolioError as error:
                failure = error
            finally:
                stream.cancel()
            time.sleep(rejoining.delay(failure, has_progress))
