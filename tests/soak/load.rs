//! The load: each worker repeats a cycle of uploads, chats, approvals, extractions, lists, watches and deletions at a
//! constant rate. A worker keeps the objects of its last [`CYCLES_KEPT`] cycles.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use folio_proto::v1;
use folio_proto::v1::event::Kind;
use folio_proto::v1::watch_pending_approvals_response::Change;
use tokio::sync::watch;

use crate::harness::client::{Client, approved, ask, decide};
use crate::harness::cluster::Cluster;
use crate::harness::settings::INVOICE;
use crate::harness::within;

pub(super) const WORKERS: usize = 4;
/// Number of further workers during the warm-up.
pub(super) const WARM_UP_WORKERS: usize = 4;
/// Time between the starts of two cycles of a worker.
pub(super) const PERIOD: Duration = Duration::from_secs(4);
/// Maximum number of turns of a cycle.
pub(super) const TURNS_PER_CYCLE: usize = 4;
/// Number of cycles whose objects a worker keeps.
const CYCLES_KEPT: usize = 3;
/// Number of turns of a conversation, after which a worker starts another one. Their messages exceed the window of a model, so
/// that the oldest are summarized.
const CONVERSATION_TURNS: usize = 20;
/// Each worker cancels a turn in one of this many cycles.
const CANCELS_ONE_IN: u64 = 4;
/// Maximum number of errors that a worker reports.
const ERRORS_MAX: usize = 20;
/// Page size of lists, and maximum number of tags at the same time.
const PAGE: i32 = 1_000;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) cycles: usize,
    pub(super) turns: usize,
    pub(super) approvals: usize,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.cycles += other.cycles;
        self.turns += other.turns;
        self.approvals += other.approvals;
    }
}

/// Objects of a cycle, which are deleted later.
#[derive(Debug, Default)]
struct Objects {
    document: String,
    threads: Vec<String>,
    tag: String,
    extraction: String,
}

pub(super) struct Worker {
    number: usize,
    client: Client,
    prompt: String,
    /// The document of the conversations.
    document: String,
    /// The thread of the conversation, with the number of its turns.
    conversation: (String, usize),
    live: VecDeque<Objects>,
    counts: Counts,
}

impl Worker {
    /// Creates the schema and the prompt of a worker.
    pub(super) async fn start(cluster: &Cluster, number: usize) -> Result<Self> {
        let client = cluster.client(number % cluster.gateways.len()).await;
        let format = serde_json::json!({
            "type": "json_schema",
            "json_schema": {"name": "bill", "strict": true, "schema": {
                "type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"],
                "additionalProperties": false,
            }},
        });
        let name = format!("worker {number}");
        let schema = v1::Schema { name: name.clone(), response_format_json: format.to_string(), ..Default::default() };
        let schema = v1::CreateSchemaRequest { schema: Some(schema), ..Default::default() };
        let schema = client.schemas.clone().create_schema(schema).await?.into_inner().schema.context("no schema")?;
        let prompt = v1::Prompt {
            name: name.clone(),
            content: "Read the total.".to_owned(),
            schema_revid: schema.schema_revid,
            ..Default::default()
        };
        let prompt = v1::CreatePromptRequest { prompt: Some(prompt), ..Default::default() };
        let prompt = client.prompts.clone().create_prompt(prompt).await?.into_inner().prompt.context("no prompt")?;
        let document = client.try_upload(&format!("{name}.txt"), INVOICE.as_bytes()).await?.document_id;
        let (prompt, conversation) = (prompt.prompt_revid, Default::default());
        Ok(Self { number, client, prompt, document, conversation, live: VecDeque::new(), counts: Counts::default() })
    }

    /// Repeats cycles until `stopped` is true. Returns the errors of failed cycles.
    pub(super) async fn run(mut self, stopped: watch::Receiver<bool>) -> (Counts, Vec<String>) {
        let (mut errors, mut ticks) = (Vec::new(), tokio::time::interval(PERIOD));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        for cycle in 1_u64.. {
            ticks.tick().await;
            if *stopped.borrow() {
                break;
            }
            match self.cycle(cycle).await {
                Ok(()) => self.counts.cycles += 1,
                Err(error) => errors.push(format!("cycle {cycle} of worker {}: {error:#}", self.number)),
            }
            if errors.len() == ERRORS_MAX {
                break;
            }
        }
        (self.counts, errors)
    }

    async fn cycle(&mut self, cycle: u64) -> Result<()> {
        let name = format!("{}-{cycle}", self.number);
        let document = self.client.try_upload(&format!("{name}.txt"), INVOICE.as_bytes()).await?.document_id;
        self.wait_until_read(&document).await?;
        let mut objects = Objects { document, ..Default::default() };
        objects.threads.push(self.approved_turn(&objects.document, &format!("work {name}")).await?);
        self.answered_turn(&objects.threads[0]).await?;
        self.converse().await?;
        if cycle.is_multiple_of(CANCELS_ONE_IN) {
            objects.threads.push(self.cancelled_turn(&objects.document, &format!("work {name} cancelled")).await?);
        }
        let extraction = v1::RunExtractionRequest {
            document_id: objects.document.clone(),
            prompt_revid: self.prompt.clone(),
            ..Default::default()
        };
        let extraction = within("an extraction", self.client.extractions.clone().run_extraction(extraction)).await?;
        objects.extraction = extraction.into_inner().extraction.context("no extraction")?.extraction_id;
        objects.tag = self.list(&objects.document, &format!("work {name}")).await?;
        self.live.push_back(objects);
        if self.live.len() > CYCLES_KEPT
            && let Some(oldest) = self.live.pop_front()
        {
            self.delete(oldest).await?;
        }
        Ok(())
    }

    async fn wait_until_read(&self, document: &str) -> Result<()> {
        let is_read = async {
            loop {
                let request = v1::GetDocumentRequest { document_id: document.to_owned() };
                let found = self.client.documents.clone().get_document(request).await?.into_inner();
                match found.document.context("no document")?.state() {
                    v1::DocumentState::Ready => return Ok(()),
                    v1::DocumentState::Failed => bail!("{document} cannot be read"),
                    // No call waits for the text of a document.
                    _ => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        };
        within("the text of a document", is_read).await
    }

    /// Runs a turn with a write, which is found in the pending approvals and approved. Returns the thread.
    async fn approved_turn(&mut self, document: &str, text: &str) -> Result<String> {
        let (turn, thread, waiting) = self.paused_turn(document, text).await?;
        let watching = async {
            let events = self.client.watch(&turn, 0).await?.drain().await?;
            anyhow::Ok(events.len())
        };
        let approving = async { Ok(self.client.approve(decide(&waiting, approved)).await?) };
        let (answer, watched) = tokio::try_join!(approving, watching)?;
        if !matches!(answer.outcome, Some(v1::approve_response::Outcome::Completed(_))) || watched == 0 {
            bail!("{turn} did not complete: {answer:?}");
        }
        self.counts.approvals += 1;
        Ok(thread)
    }

    async fn cancelled_turn(&mut self, document: &str, text: &str) -> Result<String> {
        let (turn, thread, _) = self.paused_turn(document, text).await?;
        self.client.cancel(&turn).await?;
        Ok(thread)
    }

    /// Chats until the pause, and waits until the stream of pending approvals contains it. Returns turn, thread and
    /// pause.
    async fn paused_turn(&mut self, document: &str, text: &str) -> Result<(String, String, v1::AwaitingApproval)> {
        let events = self.client.send(ask(document, text)).await?;
        let (turn, thread) = (events.turn(), events.thread());
        let closing = events.drain().await?.pop().and_then(|event| event.kind);
        let Some(Kind::AwaitingApproval(waiting)) = closing else { bail!("{turn} did not pause: {closing:?}") };
        self.counts.turns += 1;
        let request = v1::WatchPendingApprovalsRequest::default();
        let mut conversations = self.client.conversations.clone();
        let pending = within("pending approvals", conversations.watch_pending_approvals(request)).await?;
        let mut pending = pending.into_inner();
        while let Some(item) = within("a pending approval", pending.message()).await? {
            if matches!(&item.change, Some(Change::PendingApproval(found)) if found.turn_id == turn) {
                return Ok((turn, thread, waiting));
            }
        }
        bail!("the stream of pending approvals ended before {turn}")
    }

    async fn answered_turn(&mut self, thread: &str) -> Result<()> {
        let request = v1::ChatRequest { thread_id: thread.to_owned(), text: "hello".to_owned(), ..Default::default() };
        let closing = self.client.send(request).await?.drain().await?.pop().and_then(|event| event.kind);
        let Some(Kind::Completed(_)) = closing else { bail!("a turn did not complete: {closing:?}") };
        self.counts.turns += 1;
        Ok(())
    }

    /// Sends a message of the conversation.
    async fn converse(&mut self) -> Result<()> {
        if self.conversation.1 == CONVERSATION_TURNS {
            let (thread, _) = std::mem::take(&mut self.conversation);
            self.delete_thread(thread).await?;
        }
        if self.conversation.1 == 0 {
            let events = self.client.send(ask(&self.document, "hello")).await?;
            self.conversation.0 = events.thread();
            events.drain().await?;
            self.counts.turns += 1;
        } else {
            let thread = self.conversation.0.clone();
            self.answered_turn(&thread).await?;
        }
        self.conversation.1 += 1;
        Ok(())
    }

    /// Lists all kinds of objects. Returns the id of the tag with this name.
    async fn list(&self, document: &str, tag: &str) -> Result<String> {
        let client = &self.client;
        within("documents", client.documents.clone().list_documents(v1::ListDocumentsRequest::default())).await?;
        within("threads", client.threads.clone().list_threads(v1::ListThreadsRequest::default())).await?;
        let request = v1::ListExtractionsRequest { document_id: document.to_owned(), ..Default::default() };
        within("extractions", client.extractions.clone().list_extractions(request)).await?;
        let request = v1::ListTagsRequest { page_size: PAGE, ..Default::default() };
        let tags = within("tags", client.tags.clone().list_tags(request)).await?.into_inner().tags;
        tags.into_iter().find(|found| found.name == tag).map(|tag| tag.tag_id).context("a created tag is not listed")
    }

    async fn delete(&self, objects: Objects) -> Result<()> {
        let (client, Objects { document, threads, tag, extraction }) = (&self.client, objects);
        for thread_id in threads {
            self.delete_thread(thread_id).await?;
        }
        let request = v1::DeleteExtractionRequest { extraction_id: extraction, ..Default::default() };
        within("a deletion", client.extractions.clone().delete_extraction(request)).await?;
        let request = v1::DeleteDocumentRequest { document_id: document, ..Default::default() };
        within("a deletion", client.documents.clone().delete_document(request)).await?;
        let request = v1::DeleteTagRequest { tag_id: tag, ..Default::default() };
        within("a deletion", client.tags.clone().delete_tag(request)).await?;
        Ok(())
    }

    async fn delete_thread(&self, thread_id: String) -> Result<()> {
        let request = v1::DeleteThreadRequest { thread_id, ..Default::default() };
        within("a deletion", self.client.threads.clone().delete_thread(request)).await?;
        Ok(())
    }
}
