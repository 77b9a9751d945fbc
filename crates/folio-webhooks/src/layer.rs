//! A layer over the stores that creates the deliveries of an event before the write of its record, and adds their hints
//! after it. All writers of the process use the layer and do not know webhooks.
//!
//! | record | write |
//! |---|---|
//! | the batch of an append that pauses or fails a turn | [`ThreadStore::begin`], [`ThreadStore::append`] |
//! | the text of a document | [`TextStore::ingest`] |
//! | an extraction, a proposal, a question, a row of a stack | [`ResourceExecutor::decide`] |
//! | the end of a job | [`JobRecordStore::write`] |
//!
//! The layer also creates the jobs of prompts that share a tag with a document, those that make proposals ([`TagRuns`]), those that
//! keep the passages of a document current ([`Ingestions`]), and those that fill rows of stacks ([`StackFills`]).
//!
//! If the store refuses a job for the moment (`STORE_UNAVAILABLE`, `OVERLOADED`), the write fails with the same error, and its caller
//! repeats it.
//!
//! A write that was refused, or that was lost, leaves deliveries without a record. Their job finds no record and sends
//! nothing.

use std::ops::RangeInclusive;
use std::sync::Arc;

use async_trait::async_trait;
use folio_history::job::{ItemOutcome, JobFilter, JobHeader, JobLimits, JobWrite, JobWritten, OpenJobRow};
use folio_history::journal::Entry;
use folio_history::thread::{Append, Appended, Fence, NewThread, RequestRow, ThreadFilter, ThreadHeader};
use folio_resources::{
    DictionaryQuestion, Document, Extraction, Kind, ListQuery, NewName, Proposal, Record, Resource, ResourceWrite,
    Stack, StackRow, TextState, WebhookEndpoint, decode_value,
};
use folio_storage::value::{DeletionRow, PageBoxes, PageElements, PageHeadings, PageText};
use folio_storage::{
    IngestUpdate, JobRecordStore, JobStore, PendingText, ResourceExecutor, ResourceUsage, StoredResource, Stores,
    TextStore, TextWait, ThreadStore,
};
use folio_types::op::{OpKey, WriteOutcome};
use folio_types::page::{Page, PageRequest};
use folio_types::{BlobId, DocumentId, JobId, OrgId, RequestId, Result, ThreadId, Timestamp};

use crate::counters::Counters;
use crate::event::{self, Event, EventType};
use crate::follow_up_jobs::FollowUpJobs;
use crate::ingestions::Ingestions;
use crate::outbox::Outbox;
use crate::stack_fills::StackFills;
use crate::tag_runs::TagRuns;

/// Returns the stores with a layer that creates the jobs that writes cause. `hints`: the queue of hints of jobs; `limits`: the
/// limits of jobs.
pub fn with_events(stores: Stores, hints: Arc<dyn JobStore>, limits: JobLimits, counters: Counters) -> Stores {
    let outbox = Arc::new(Outbox::new(&stores, Arc::clone(&hints), counters.clone()));
    let follow_up = FollowUpJobs::new(&stores, limits, counters);
    let ingestions = Arc::new(Ingestions::new(&stores, Arc::clone(&hints), follow_up.clone()));
    let stack_fills = Arc::new(StackFills::new(&stores, follow_up.clone()));
    let tag_runs = Arc::new(TagRuns::new(&stores, hints, follow_up));
    let resources = Resources {
        below: Arc::clone(&stores.resources),
        outbox: Arc::clone(&outbox),
        tag_runs: Arc::clone(&tag_runs),
        ingestions: Arc::clone(&ingestions),
        stack_fills: Arc::clone(&stack_fills),
    };
    let texts =
        Texts { below: Arc::clone(&stores.texts), outbox: Arc::clone(&outbox), tag_runs, ingestions, stack_fills };
    let jobs = Jobs { below: Arc::clone(&stores.jobs), outbox: Arc::clone(&outbox) };
    let threads = Threads { below: Arc::clone(&stores.threads), outbox };
    Stores {
        jobs: Arc::new(jobs),
        resources: Arc::new(resources),
        texts: Arc::new(texts),
        threads: Arc::new(threads),
        ..stores
    }
}

/// Runs the write of a record with the events of the record.
async fn written<T>(
    outbox: &Outbox,
    org: &OrgId,
    events: &[Event],
    write: impl Future<Output = Result<T>>,
) -> Result<T> {
    let jobs: Vec<JobId> = outbox.enqueue(org, events).await?;
    let answer = write.await?;
    outbox.publish(org, &jobs).await;
    Ok(answer)
}

struct Resources {
    below: Arc<dyn ResourceExecutor>,
    outbox: Arc<Outbox>,
    tag_runs: Arc<TagRuns>,
    ingestions: Arc<Ingestions>,
    stack_fills: Arc<StackFills>,
}

impl Resources {
    /// Returns the events of a write to an extraction, a proposal, a question or a row of a stack. None if the write will be refused.
    async fn events(&self, write: &ResourceWrite) -> Result<Vec<Event>> {
        let types = match write.kind.name {
            Extraction::KIND => [EventType::ExtractionCompleted, EventType::InboxWaiting],
            Proposal::KIND => [EventType::ProposalReady, EventType::InboxWaiting],
            DictionaryQuestion::KIND | StackRow::KIND => [EventType::InboxWaiting; 2],
            _ => return Ok(Vec::new()),
        };
        if !self.outbox.has_endpoints(&write.org, &types).await? {
            return Ok(Vec::new());
        }
        let before = self.stored(write).await?;
        // The store reports the error of a change that does not fit the record.
        let Ok(Some(after)) = write.record_after(before.as_deref()) else { return Ok(Vec::new()) };
        if write.kind.name == Proposal::KIND {
            let events = read(&after)?.map(|after| event::of_proposal(&write.op, before.is_none(), &after));
            return Ok(events.unwrap_or_default());
        }
        if write.kind.name == DictionaryQuestion::KIND {
            let event = read(&after)?.and_then(|after| event::of_question(&write.op, before.is_none(), &after));
            return Ok(event.into_iter().collect());
        }
        if write.kind.name == StackRow::KIND {
            let before = before.as_deref().map(read::<StackRow>).transpose()?.flatten();
            let event = read(&after)?.and_then(|after| event::of_stack_row(&write.op, before.as_ref(), &after));
            return Ok(event.into_iter().collect());
        }
        let before = before.as_deref().map(read::<Extraction>).transpose()?.flatten();
        Ok(read(&after)?.map(|after| event::of_extraction(&write.op, before.as_ref(), &after)).unwrap_or_default())
    }

    /// Creates the job that follows a change of a stack.
    async fn stack_plan(&self, write: &ResourceWrite) -> Result<Option<JobId>> {
        if write.kind.name != Stack::KIND || write.deletes {
            return Ok(None);
        }
        let before = self.stored(write).await?;
        let Ok(Some(after)) = write.record_after(before.as_deref()) else { return Ok(None) };
        let before = before.as_deref().map(read::<Stack>).transpose()?.flatten();
        match read::<Stack>(&after)? {
            Some(after) => self.stack_fills.after_stack(before.as_ref(), &after, &write.by, write.at).await,
            None => Ok(None),
        }
    }

    /// Returns a document before a write, and after it unless the write deletes it. None: the document is new, and has no text
    /// and no passages, the write concerns another resource, or it will be refused.
    async fn documents(&self, write: &ResourceWrite) -> Result<Option<(Document, Option<Document>)>> {
        if write.kind.name != Document::KIND {
            return Ok(None);
        }
        let Some(before) = self.stored(write).await? else { return Ok(None) };
        let Some(document) = read::<Document>(&before)? else { return Ok(None) };
        if write.deletes {
            return Ok(Some((document, None)));
        }
        let Ok(Some(after)) = write.record_after(Some(&before)) else { return Ok(None) };
        Ok(read::<Document>(&after)?.map(|after| (document, Some(after))))
    }

    /// Returns the stored record of the target of a write.
    async fn stored(&self, write: &ResourceWrite) -> Result<Option<Vec<u8>>> {
        let found = self.below.get(&write.org, write.kind, std::slice::from_ref(&write.id)).await?;
        Ok(found.into_iter().flatten().next().map(|stored| stored.record))
    }
}

fn read<R: Resource>(record: &[u8]) -> Result<Option<R>> {
    let record = decode_value(R::KIND, R::FORMAT, record, R::read_format)?;
    Ok(Record::live(record))
}

#[async_trait]
impl ResourceExecutor for Resources {
    async fn decide(&self, write: ResourceWrite) -> Result<WriteOutcome> {
        let (events, org) = (self.events(&write).await?, write.org.clone());
        let mut runs: Vec<JobId> = self.stack_plan(&write).await?.into_iter().collect();
        let mut ingestion = None;
        if let Some((before, after)) = self.documents(&write).await? {
            if let Some(after) = &after {
                runs.extend(self.tag_runs.after_tags(&before, after, &write.by, write.at).await?);
                runs.extend(self.stack_fills.after_document(&before, after, &write.by, write.at).await?);
            }
            ingestion = self.ingestions.of_change(&before, after.as_ref(), write.at).await?;
        }
        let is_endpoint = write.kind.name == WebhookEndpoint::KIND;
        let decided = written(&self.outbox, &org, &events, self.below.decide(write)).await;
        if is_endpoint {
            self.outbox.forget(&org).await;
        }
        self.tag_runs.publish(&org, &runs).await;
        self.ingestions.publish(&org, ingestion.as_ref()).await;
        decided
    }

    async fn get(&self, org: &OrgId, kind: &'static Kind, ids: &[String]) -> Result<Vec<Option<StoredResource>>> {
        self.below.get(org, kind, ids).await
    }

    async fn id_by_name(&self, org: &OrgId, kind: &'static Kind, name: &str) -> Result<Option<String>> {
        self.below.id_by_name(org, kind, name).await
    }

    async fn list(&self, org: &OrgId, query: ListQuery, page: &PageRequest) -> Result<Page<StoredResource>> {
        self.below.list(org, query, page).await
    }

    async fn list_versions(&self, org: &OrgId, query: ListQuery, page: &PageRequest) -> Result<Page<(String, u64)>> {
        self.below.list_versions(org, query, page).await
    }

    async fn versions(&self, org: &OrgId, kind: &'static Kind, ids: &[String]) -> Result<Vec<Option<u64>>> {
        self.below.versions(org, kind, ids).await
    }

    async fn matching_ids(&self, org: &OrgId, query: ListQuery, max: usize) -> Result<Vec<String>> {
        self.below.matching_ids(org, query, max).await
    }

    async fn referrers(&self, org: &OrgId, kind: &'static Kind, referenced: &str, max: usize) -> Result<Vec<String>> {
        self.below.referrers(org, kind, referenced, max).await
    }

    async fn revision_numbers(&self, org: &OrgId, id: &str) -> Result<Vec<u32>> {
        self.below.revision_numbers(org, id).await
    }

    async fn name_revision(&self, org: &OrgId, name: NewName) -> Result<()> {
        self.below.name_revision(org, name).await
    }

    async fn revisions(&self, org: &OrgId, id: &str, numbers: &[u32]) -> Result<Vec<Option<Vec<u8>>>> {
        self.below.revisions(org, id, numbers).await
    }

    async fn resource_usage(&self, org: &OrgId, kind: &'static Kind) -> Result<ResourceUsage> {
        self.below.resource_usage(org, kind).await
    }

    async fn content_bytes(&self, org: &OrgId) -> Result<u64> {
        self.below.content_bytes(org).await
    }

    async fn set_blob_bytes(&self, org: &OrgId, id: &str, blob: &BlobId, bytes: u64, at: Timestamp) -> Result<()> {
        self.below.set_blob_bytes(org, id, blob, bytes, at).await
    }

    async fn set_image_bytes(&self, org: &OrgId, id: &str, bytes: u64, at: Timestamp) -> Result<()> {
        self.below.set_image_bytes(org, id, bytes, at).await
    }

    async fn indexed_deletions(
        &self,
        kind: &'static Kind,
        times: &RangeInclusive<Timestamp>,
        after: Option<&DeletionRow>,
        limit: usize,
    ) -> Result<Vec<DeletionRow>> {
        self.below.indexed_deletions(kind, times, after, limit).await
    }

    async fn confirm_deletion(&self, kind: &'static Kind, row: &DeletionRow) -> Result<bool> {
        self.below.confirm_deletion(kind, row).await
    }

    async fn clean_deleted(&self, org: &OrgId, kind: &'static Kind, id: &str, is_final: bool) -> Result<()> {
        self.below.clean_deleted(org, kind, id, is_final).await
    }
}

struct Jobs {
    below: Arc<dyn JobRecordStore>,
    outbox: Arc<Outbox>,
}

#[async_trait]
impl JobRecordStore for Jobs {
    async fn create(&self, header: JobHeader) -> Result<JobHeader> {
        self.below.create(header).await
    }

    async fn announce(&self, row: OpenJobRow) -> Result<()> {
        self.below.announce(row).await
    }

    async fn header(&self, org: &OrgId, id: &JobId) -> Result<Option<JobHeader>> {
        self.below.header(org, id).await
    }

    async fn fence(&self, org: &OrgId, id: &JobId) -> Result<Option<Fence>> {
        self.below.fence(org, id).await
    }

    async fn write(&self, write: JobWrite) -> Result<JobWritten> {
        let (event, org) = (event::of_job(&write), write.after.org().clone());
        written(&self.outbox, &org, event.as_slice(), self.below.write(write)).await
    }

    async fn outcomes(&self, org: &OrgId, id: &JobId, after: u32, limit: usize) -> Result<Vec<ItemOutcome>> {
        self.below.outcomes(org, id, after, limit).await
    }

    async fn list(&self, org: &OrgId, filter: &JobFilter, page: &PageRequest) -> Result<Page<JobHeader>> {
        self.below.list(org, filter, page).await
    }

    async fn delete(&self, org: &OrgId, id: &JobId) -> Result<()> {
        self.below.delete(org, id).await
    }

    async fn expired(&self, now: Timestamp, limit: usize) -> Result<Vec<(OrgId, JobId)>> {
        self.below.expired(now, limit).await
    }

    async fn open(&self, after: Option<&OpenJobRow>, limit: usize) -> Result<Vec<OpenJobRow>> {
        self.below.open(after, limit).await
    }

    async fn remove_open(&self, rows: &[OpenJobRow]) -> Result<()> {
        self.below.remove_open(rows).await
    }

    async fn compact_open(&self) -> Result<()> {
        self.below.compact_open().await
    }
}

struct Texts {
    below: Arc<dyn TextStore>,
    outbox: Arc<Outbox>,
    tag_runs: Arc<TagRuns>,
    ingestions: Arc<Ingestions>,
    stack_fills: Arc<StackFills>,
}

#[async_trait]
impl TextStore for Texts {
    async fn ingest(&self, org: &OrgId, id: &str, update: IngestUpdate) -> Result<()> {
        let document = id.parse::<DocumentId>().ok();
        let event = document.as_ref().and_then(|document| event::of_text(org, document, &update));
        let write = |update| written(&self.outbox, org, event.as_slice(), self.below.ingest(org, id, update));
        let Some(document) = document.filter(|_| update.state.is_settled()) else { return write(update).await };
        let (at, is_ready) = (update.at, update.state == TextState::Ready);
        let proposal = self.tag_runs.proposal_of_text(org, &document, at).await?;
        let ingestion = self.ingestions.of_text(org, &document, (at, is_ready)).await?;
        if !is_ready {
            write(update).await?;
            self.tag_runs.publish(org, proposal.as_slice()).await;
            self.ingestions.publish(org, ingestion.as_ref()).await;
            return Ok(());
        }
        let (tags, mut runs) = self.tag_runs.of_text(org, &document, at, &[]).await?;
        let (stacks, fills) = self.stack_fills.of_text(org, &document, at, &[]).await?;
        runs.extend(proposal.into_iter().chain(fills));
        write(update).await?;
        self.ingestions.publish(org, ingestion.as_ref()).await;
        self.tag_runs.publish(org, &runs).await;
        let (_, mut late) = self.tag_runs.of_text(org, &document, at, &tags).await?;
        late.extend(self.stack_fills.of_text(org, &document, at, &stacks).await?.1);
        self.tag_runs.publish(org, &late).await;
        Ok(())
    }

    async fn text(&self, org: &OrgId, id: &str, from: u32, count: u32) -> Result<Vec<PageText>> {
        self.below.text(org, id, from, count).await
    }

    async fn boxes(&self, org: &OrgId, id: &str, from: u32, count: u32) -> Result<Vec<PageBoxes>> {
        self.below.boxes(org, id, from, count).await
    }

    async fn headings(&self, org: &OrgId, id: &str, from: u32, count: u32) -> Result<Vec<PageHeadings>> {
        self.below.headings(org, id, from, count).await
    }

    async fn elements(&self, org: &OrgId, id: &str, from: u32, count: u32) -> Result<Vec<PageElements>> {
        self.below.elements(org, id, from, count).await
    }

    async fn waiting_texts(
        &self,
        waits_for: TextWait,
        after: Option<&PendingText>,
        limit: usize,
    ) -> Result<Vec<PendingText>> {
        self.below.waiting_texts(waits_for, after, limit).await
    }
}

struct Threads {
    below: Arc<dyn ThreadStore>,
    outbox: Arc<Outbox>,
}

#[async_trait]
impl ThreadStore for Threads {
    async fn create(&self, thread: NewThread) -> Result<ThreadHeader> {
        self.below.create(thread).await
    }

    async fn begin(&self, thread: NewThread, first: Append) -> Result<Appended> {
        let org = thread.org.clone();
        let events = event::of_append(&org, &thread.id, &first);
        written(&self.outbox, &org, &events, self.below.begin(thread, first)).await
    }

    async fn header(&self, org: &OrgId, id: &ThreadId) -> Result<Option<ThreadHeader>> {
        self.below.header(org, id).await
    }

    async fn append(&self, org: &OrgId, id: &ThreadId, append: Append) -> Result<Appended> {
        let events = event::of_append(org, id, &append);
        written(&self.outbox, org, &events, self.below.append(org, id, append)).await
    }

    async fn has_batch(&self, org: &OrgId, id: &ThreadId, batch: u128) -> Result<bool> {
        self.below.has_batch(org, id, batch).await
    }

    async fn entries(&self, org: &OrgId, id: &ThreadId, from: u64, limit: usize) -> Result<Vec<(u64, Entry)>> {
        self.below.entries(org, id, from, limit).await
    }

    async fn request(&self, org: &OrgId, id: &ThreadId, request: &RequestId) -> Result<Option<RequestRow>> {
        self.below.request(org, id, request).await
    }

    async fn list(&self, org: &OrgId, filter: &ThreadFilter, page: &PageRequest) -> Result<Page<ThreadHeader>> {
        self.below.list(org, filter, page).await
    }

    async fn delete(&self, org: &OrgId, id: &ThreadId, by: Option<&OpKey>) -> Result<()> {
        self.below.delete(org, id, by).await
    }

    async fn remove_unused(&self, org: &OrgId, id: &ThreadId) -> Result<bool> {
        self.below.remove_unused(org, id).await
    }

    async fn removed_by(&self, org: &OrgId, id: &ThreadId) -> Result<Option<OpKey>> {
        self.below.removed_by(org, id).await
    }

    async fn expired(&self, now: Timestamp, limit: usize) -> Result<Vec<(OrgId, ThreadId)>> {
        self.below.expired(now, limit).await
    }

    async fn expire_referrers(&self, org: &OrgId, id: &str, at: Timestamp) -> Result<()> {
        self.below.expire_referrers(org, id, at).await
    }

    async fn expire_unused(&self, org: &OrgId, id: &ThreadId, fence: Fence, at: Timestamp) -> Result<bool> {
        self.below.expire_unused(org, id, fence, at).await
    }
}
