//! Faults of [`ThreadStore`].

use async_trait::async_trait;
use folio_history::journal::Entry;
use folio_history::thread::{Append, Appended, NewThread, ThreadHeader};
use folio_storage::ThreadStore;
use folio_types::{OrgId, Reason, Result, ThreadId};

use crate::layer::ThreadLayer;

#[derive(Default)]
pub(super) struct FenceOff;

#[async_trait]
impl ThreadLayer for FenceOff {
    async fn append(&self, below: &dyn ThreadStore, org: &OrgId, id: &ThreadId, append: Append) -> Result<Appended> {
        let answer = below.append(org, id, append.clone()).await?;
        match &answer {
            Appended::Refused { header, request: None } => {
                below.append(org, id, Append { fence: header.fence(), ..append }).await
            }
            _ => Ok(answer),
        }
    }
}

#[derive(Default)]
pub(super) struct RequestRowIgnored;

#[async_trait]
impl ThreadLayer for RequestRowIgnored {
    async fn append(&self, below: &dyn ThreadStore, org: &OrgId, id: &ThreadId, append: Append) -> Result<Appended> {
        match below.append(org, id, append.clone()).await? {
            Appended::Refused { request: Some(_), .. } => {
                below.append(org, id, Append { request: None, ..append }).await
            }
            answer => Ok(answer),
        }
    }
}

#[derive(Default)]
pub(super) struct BatchRowMissing;

#[async_trait]
impl ThreadLayer for BatchRowMissing {
    async fn append(&self, below: &dyn ThreadStore, org: &OrgId, id: &ThreadId, append: Append) -> Result<Appended> {
        below.append(org, id, Append { batch: !append.batch, ..append }).await
    }

    async fn begin(&self, below: &dyn ThreadStore, thread: NewThread, first: Append) -> Result<Appended> {
        below.begin(thread, Append { batch: !first.batch, ..first }).await
    }
}

#[derive(Default)]
pub(super) struct OpenTurnRowMissing;

#[async_trait]
impl ThreadLayer for OpenTurnRowMissing {
    async fn append(&self, below: &dyn ThreadStore, org: &OrgId, id: &ThreadId, append: Append) -> Result<Appended> {
        below.append(org, id, Append { opens: None, ..append }).await
    }

    async fn begin(&self, below: &dyn ThreadStore, thread: NewThread, first: Append) -> Result<Appended> {
        below.begin(thread, Append { opens: None, ..first }).await
    }
}

#[derive(Default)]
pub(super) struct BegunInTwoWrites;

#[async_trait]
impl ThreadLayer for BegunInTwoWrites {
    async fn begin(&self, below: &dyn ThreadStore, thread: NewThread, first: Append) -> Result<Appended> {
        let (org, id) = (thread.org.clone(), thread.id.clone());
        below.create(thread).await?;
        crate::crash::point("begin:between");
        below.append(&org, &id, first).await
    }
}

#[derive(Default)]
pub(super) struct BegunOverAnother;

#[async_trait]
impl ThreadLayer for BegunOverAnother {
    async fn begin(&self, below: &dyn ThreadStore, thread: NewThread, first: Append) -> Result<Appended> {
        let (org, id) = (thread.org.clone(), thread.id.clone());
        let answer = below.begin(thread, first.clone()).await?;
        match &answer {
            Appended::Refused { header, .. } => {
                below.append(&org, &id, Append { fence: header.fence(), request: None, ..first }).await
            }
            Appended::Done(_) => Ok(answer),
        }
    }
}

#[derive(Default)]
pub(super) struct RemovedThreadCreated;

#[async_trait]
impl ThreadLayer for RemovedThreadCreated {
    async fn create(&self, below: &dyn ThreadStore, thread: NewThread) -> Result<ThreadHeader> {
        match below.create(thread.clone()).await {
            Err(error) if error.reason == Reason::NotFound && thread.documents.is_empty() => Ok(thread.header()),
            answer => answer,
        }
    }
}

#[derive(Default)]
pub(super) struct DecisionsNotRecorded;

#[async_trait]
impl ThreadLayer for DecisionsNotRecorded {
    async fn append(
        &self,
        below: &dyn ThreadStore,
        org: &OrgId,
        id: &ThreadId,
        mut append: Append,
    ) -> Result<Appended> {
        append.entries.retain(|entry| !matches!(entry, Entry::Decisions(..)));
        below.append(org, id, append).await
    }
}
