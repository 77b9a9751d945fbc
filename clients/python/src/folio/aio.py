"""The client for asyncio."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar, Union, cast

import grpc
import grpc.aio
from google.protobuf.message import Message

from . import v1
from .aio_channel import AuthorizedAsyncChannel
from .approvals import Approval, Decision, approvals, approve_request
from .assistant import Answer, answer_of, question_request
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

AsyncApprover = Callable[[Approval], Union[Decision, Awaitable[Decision]]]
"""Decides about a call that waits for approval; may be a coroutine function."""

# Delay between two streams of a turn whose decisions are not recorded yet.
_RECHECK = 0.05


class AsyncClient:
    """A connection to a server, for one event loop.

    The attributes are the services of the API: `await client.tags.CreateTag(v1.CreateTagRequest(...))`. Each call carries the
    token, raises a `FolioError` if it fails, and is repeated as the server requests. A request without a `request_id` gets one,
    so that a repetition changes nothing twice. The other methods combine several calls, and survive a lost connection.
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
            inner = grpc.aio.secure_channel(address.target, credentials, options=OPTIONS)
        else:
            inner = grpc.aio.insecure_channel(address.target, options=OPTIONS)
        self._channel, self._retry = AuthorizedAsyncChannel(inner, credential(token, organization), retry), retry
        channel = cast(grpc.aio.Channel, self._channel)
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

    async def close(self) -> None:
        """Closes the connection. Running turns and jobs continue on the server."""
        await self._channel.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def iterate(self, method: Callable[[R], Awaitable[Message]], request: R) -> AsyncGenerator[Any, None]:
        """Returns the items of all pages of a list: `client.iterate(client.tags.ListTags, v1.ListTagsRequest())`."""
        following: R | None = request
        while following is not None:
            page = await method(following)
            for item in items_of(page):
                yield item
            following = next_request(following, page)

    async def upload(
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
        """Uploads a file; see `Client.upload`. Chunks are read from the file in the event loop."""
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
                    return (await self.documents.UploadDocument(upload.messages())).document
                except FolioError as error:
                    delay = self._retry.delay(error, attempt) if upload.is_repeatable else None
                    if delay is None:
                        raise
                await asyncio.sleep(delay)
        finally:
            upload.close()

    async def wait_for_text(self, document_id: str) -> v1.Document:
        """Waits until the text of a document is READY, or is NO_TEXT or FAILED."""
        async with aclosing(self.watch_document(document_id)) as changes:
            async for change in changes:
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
        approve: AsyncApprover | None = None,
        **fields: Any,
    ) -> AsyncTurn:
        """Sends a message and returns the events of its turn; see `Client.chat`."""
        return AsyncTurn(self, chat_request(text, document_ids=document_ids, thread_id=thread_id, **fields), approve)

    async def ask(
        self,
        question: str,
        *,
        document_ids: Sequence[str] = (),
        tag_ids: Sequence[str] = (),
        collection_ids: Sequence[str] = (),
        thread_id: str = "",
        **fields: Any,
    ) -> Answer:
        """Asks the assistant and returns its typed answer; see `Client.ask`."""
        request = question_request(
            question,
            tag_ids=tag_ids,
            collection_ids=collection_ids,
            document_ids=document_ids,
            thread_id=thread_id,
            **fields,
        )
        turn = AsyncTurn(self, request, None)
        return answer_of(await turn.completed(), turn.thread_id, turn.turn_id)

    def resume(self, turn_id: str, *, approve: AsyncApprover | None = None) -> AsyncTurn:
        """Resumes a failed turn and returns its further events."""
        return AsyncTurn(self, v1.ResumeTurnRequest(turn_id=turn_id), approve)

    def watch_turn(self, turn_id: str, *, from_event: int = 0, approve: AsyncApprover | None = None) -> AsyncTurn:
        """Returns the events of a turn from an event number."""
        return AsyncTurn(self, v1.WatchTurnRequest(turn_id=turn_id, from_event=from_event), approve)

    async def watch_document(self, document_id: str) -> AsyncGenerator[v1.WatchDocumentResponse, None]:
        """Returns the state of a document and its newest extractions, and then each change. Ends when the document is deleted."""
        request = v1.WatchDocumentRequest(document_id=document_id)
        has_progress = False
        try:
            async with aclosing(self._watch(self.documents.WatchDocument, request)) as changes:
                async for change in changes:
                    has_progress = True
                    yield change
        except NotFound:
            if not has_progress:
                raise

    def watch_inbox(self, filter: str = "") -> AsyncGenerator[v1.WatchInboxResponse, None]:
        """Returns the items that wait for the caller, and then each change, without end."""
        return self._watch(self.inbox.WatchInbox, v1.WatchInboxRequest(filter=filter))

    def watch_pending_approvals(self, filter: str = "") -> AsyncGenerator[v1.WatchPendingApprovalsResponse, None]:
        """Returns the turns that wait for a decision of the caller, and then each change, without end."""
        return self._watch(self.conversations.WatchPendingApprovals, v1.WatchPendingApprovalsRequest(filter=filter))

    async def _watch(
        self, method: Callable[[Any], AsyncIterable[W]], request: WatchRequest
    ) -> AsyncGenerator[W, None]:
        items, rejoining = WatchedItems[W](), Rejoining(self._retry)
        while True:
            items.start_stream()
            has_progress, failure = False, None
            stream: Any = method(request)
            try:
                async for change in stream:
                    has_progress = True
                    for complete in items.apply(change):
                        yield complete
            except FolioError as error:
                failure = error
            finally:
                stream.cancel()
            await asyncio.sleep(rejoining.delay(failure, has_progress))

    async def watch_job(self, job_id: str) -> AsyncGenerator[v1.Job, None]:
        """Returns the states of a job until it has ended."""
        rejoining = Rejoining(self._retry)
        while True:
            has_progress, failure = False, None
            stream: Any = self.jobs.WatchJob(v1.WatchJobRequest(job_id=job_id))
            try:
                async for response in stream:
                    has_progress = True
                    yield response.job
                    if response.job.state in ENDED_JOB_STATES:
                        return
            except FolioError as error:
                failure = error
            finally:
                stream.cancel()
            await asyncio.sleep(rejoining.delay(failure, has_progress))

    async def wait_for_job(self, job_id: str, progress: Callable[[v1.Job], None] | None = None) -> v1.Job:
        """Waits until a job has ended, and returns it. `progress` receives each state of the job."""
        job = v1.Job()
        async for job in self.watch_job(job_id):
            if progress is not None:
                progress(job)
        return job

    async def extract(
        self,
        document_id: str,
        prompt_revid: str,
        *,
        model: str = "",
        progress: Callable[[v1.Job], None] | None = None,
    ) -> v1.Extraction:
        """Runs a prompt on a document and returns the stored extraction; see `Client.extract`."""
        request = v1.RunExtractionRequest(document_id=document_id, prompt_revid=prompt_revid, model=model)
        response = await self.extractions.RunExtraction(request)
        if not response.HasField("job"):
            return response.extraction
        extraction_id = extraction_of(await self.wait_for_job(response.job.job_id, progress))
        found = await self.extractions.GetExtraction(v1.GetExtractionRequest(extraction_id=extraction_id))
        return found.extraction

    async def batch(
        self,
        prompt_revid: str,
        *,
        document_ids: Sequence[str] = (),
        document_filter: str | None = None,
        model: str = "",
        credit_budget: int | None = None,
    ) -> v1.Job:
        """Starts a job that runs a prompt on documents; see `Client.batch`."""
        request = v1.RunExtractionsRequest(
            document_ids=document_ids,
            document_filter=document_filter,
            prompt_revid=prompt_revid,
            model=model,
            credit_budget=credit_budget,
        )
        return (await self.extractions.RunExtractions(request)).job

    async def fill_stack(self, stack_id: str, *, model: str = "", credit_budget: int | None = None) -> v1.Job:
        """Starts a job that fills the missing cells of a table; see `Client.fill_stack`."""
        request = v1.FillStackRequest(stack_id=stack_id, model=model, credit_budget=credit_budget)
        return (await self.stacks.FillStack(request)).job

    async def export_table(
        self, stack_id: str, format: v1.ExportFormat.ValueType, *, include_details: bool = False
    ) -> bytes:
        """Returns a table as a file, which is read into memory."""
        request = v1.ExportTableRequest(stack_id=stack_id, format=format, include_details=include_details)
        stream: Any = self.stacks.ExportTable(request)
        return b"".join([part.chunk async for part in stream])

    async def watch_table(self, stack_id: str) -> AsyncGenerator[v1.WatchTableResponse, None]:
        """Returns the stack and its rows, and then each change; see `Client.watch_table`."""
        table, rejoining, is_known = WatchedTable(), Rejoining(self._retry), False
        while True:
            table.start_stream()
            has_progress, failure = False, None
            stream: Any = self.stacks.WatchTable(v1.WatchTableRequest(stack_id=stack_id))
            try:
                async for change in stream:
                    has_progress = is_known = True
                    must_list = table.apply(change)
                    yield change
                    if not must_list:
                        continue
                    async with aclosing(self.iterate(self.stacks.ListStackRows, list_request(stack_id))) as rows:
                        async for row in rows:
                            if table.add(row):
                                yield v1.WatchTableResponse(row=row)
                    for removal in table.end_list():
                        yield removal
            except FolioError as error:
                failure = error
            finally:
                stream.cancel()
            if is_known and isinstance(failure, NotFound):
                return
            await asyncio.sleep(rejoining.delay(failure, has_progress))

    def _open(self, request: TurnRequest) -> Any:
        if isinstance(request, v1.ChatRequest):
            return self.conversations.Chat(request)
        if isinstance(request, v1.ResumeTurnRequest):
            return self.conversations.ResumeTurn(request)
        return self.conversations.WatchTurn(request)


class AsyncTurn(AsyncIterator[v1.Event]):
    """The events of a turn, without gaps and repetitions; see `Turn`."""

    def __init__(self, client: AsyncClient, start: TurnRequest, approve: AsyncApprover | None) -> None:
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

    async def __anext__(self) -> v1.Event:
        return await self._events.__anext__()

    async def aclose(self) -> None:
        """Closes the stream. The turn continues on the server."""
        await self._events.aclose()

    async def completed(self) -> v1.Completed:
        """Reads the events to the end and returns the answer. Raises the error of a failed turn; any other end is an error, too."""
        async for _ in self:
            pass
        return completed(self._position.closing)

    async def _run(self) -> AsyncGenerator[v1.Event, None]:
        async with aclosing(self._stream()) as events:
            async for event in events:
                yield event
        while self._approve is not None and (waiting := waiting_round(self._position.closing)) is not None:
            request, before = await self._decide(waiting, self._approve), self._position.last_event
            if request is not None:
                async with aclosing(self._send(request)) as events:
                    async for event in events:
                        yield event
            if self._position.last_event == before:
                # The decisions of other users are missing.
                return

    async def _decide(self, waiting: v1.AwaitingApproval, approve: AsyncApprover) -> v1.ApproveRequest | None:
        turn = (await self._client.conversations.GetTurn(v1.GetTurnRequest(turn_id=waiting.turn_id))).turn
        decisions = list[tuple[Approval, Decision]]()
        for approval in approvals(waiting, turn.approvable_call_ids):
            decision = approve(approval)
            decisions.append((approval, await decision if inspect.isawaitable(decision) else decision))
        return approve_request(waiting, decisions)

    async def _send(self, request: v1.ApproveRequest) -> AsyncGenerator[v1.Event, None]:
        """Sends decisions and returns the events up to the next closing event: none if decisions of other users are missing."""
        before = self._position.last_event
        answer = asyncio.ensure_future(self._client.conversations.Approve(request))
        try:
            while self._position.last_event == before or self._position.closing is None:
                # Until the decisions are recorded, a stream only repeats the known pause.
                async with aclosing(self._stream()) as events:
                    async for event in events:
                        yield event
                if answer.done() and answer.result().WhichOneof("outcome") == "still_awaiting":
                    return
                if self._position.last_event == before:
                    await asyncio.sleep(_RECHECK)
            await answer
        finally:
            answer.cancel()

    async def _stream(self) -> AsyncGenerator[v1.Event, None]:
        """Returns the new events until the stream ends with a closing event."""
        rejoining = Rejoining(self._client._retry)
        while True:
            has_progress, failure = False, None
            stream = self._client._open(self._position.request())
            try:
                async for response in stream:
                    if self._position.accept(response.event):
                        has_progress = True
                        yield response.event
                    if is_closing(response.event):
                        return
            except FolioError as error:
                failure = error
            finally:
                stream.cancel()
            await asyncio.sleep(rejoining.delay(failure, has_progress))
