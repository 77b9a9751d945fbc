//! Creates, renames, forks and deletes threads. A request id identifies one of these requests, regardless of the
//! thread.

use folio_history::thread::{RequestRow, ThreadHeader};
use folio_types::op::{IdempotencyRecord, OpKey, Target};
use folio_types::{Digest, Error, Principal, Reason, RequestId, Result, Role, ThreadId};
use serde_json::json;

use super::{ANSWER_TIMEOUT, Conversations};
use crate::actor::Request;
use crate::prepare::{self, requested_thread};
use folio_history::command::{CreateThreadCommand, ForkThreadCommand};

impl Conversations {
    /// Creates a thread without a message. A repeated request returns the same thread; the same id with other content
    /// is refused with `REQUEST_ID_CONFLICT`.
    pub async fn create_thread(&self, principal: &Principal, command: CreateThreadCommand) -> Result<ThreadHeader> {
        self.may_start_work(principal)?;
        let models = self.node.shared.dependencies.models.catalogue(&principal.org).await?;
        let mut new = prepare::new_thread(&self.node.shared, principal, &models, command)?;
        prepare::check_media_types(&self.node.shared, &new).await?;
        prepare::start_from_proposal(&self.node.shared, &mut new).await?;
        if let Some(row) = &new.request {
            self.reserve_request_id(principal, &row.request, &new.id, &row.digest).await?;
        }
        self.node.shared.dependencies.stores.threads.create(new).await
    }

    /// Sets the title of a thread (1 to [`folio_types::limits::NAME_CHARS`] characters). A repeated request has no
    /// further effect; the same id with another title or thread is refused with `REQUEST_ID_CONFLICT`.
    pub async fn rename_thread(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        title: String,
        request: Option<RequestId>,
    ) -> Result<ThreadHeader> {
        self.may_start_work(principal)?;
        let digest = Digest::of_json(&json!({ "ask": "rename", "title": title }));
        if let Some(request) = &request {
            self.readable_thread(principal, thread).await?;
            self.reserve_request_id(principal, request, thread, &digest).await?;
        }
        let row = request.map(|request| RequestRow { request, turn: 0, digest });
        let key = (principal.org.clone(), thread.clone());
        let make = |reply| Request::Rename(title.clone(), row.clone(), reply);
        self.request(principal, &key, ANSWER_TIMEOUT, make).await
    }

    /// Cancels a running turn, then deletes the thread with its history. A missing thread is `NOT_FOUND` unless this
    /// request deleted it. The same id with another thread is refused with `REQUEST_ID_CONFLICT`.
    pub async fn delete_thread(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        request: Option<&RequestId>,
    ) -> Result<()> {
        self.may_start_work(principal)?;
        if let Some(request) = request {
            let digest = Digest::of_json(&json!({ "ask": "delete" }));
            self.reserve_request_id(principal, request, thread, &digest).await?;
        }
        let key = (principal.org.clone(), thread.clone());
        let by = request.map(|request| op_key(principal, request));
        match self.request(principal, &key, ANSWER_TIMEOUT, |reply| Request::Delete(by.clone(), reply)).await {
            Err(error) if error.reason == Reason::NotFound && by.is_some() => {
                let threads = &self.node.shared.dependencies.stores.threads;
                if threads.removed_by(&principal.org, thread).await? == by { Ok(()) } else { Err(error) }
            }
            answer => answer,
        }
    }

    /// Copies a thread up to a message, with the working state of that message, into a new thread of the caller. Beyond
    /// [`folio_types::limits::FORK_BYTES`] or [`folio_types::limits::FORK_TURNS`], only the newest part is copied,
    /// after a message that states the omission. A repeated request returns its fork, even if the source was deleted
    /// meanwhile.
    pub async fn fork_thread(&self, principal: &Principal, command: ForkThreadCommand) -> Result<ThreadHeader> {
        self.may_start_work(principal)?;
        if let Some(request) = &command.request_id {
            let (id, row) = requested_thread(principal, request.clone(), prepare::fork_digest(&command));
            if let Some(fork) = self.created_fork(principal, &id, &row).await? {
                return Ok(fork);
            }
            self.readable_thread(principal, &command.thread).await?;
            self.reserve_request_id(principal, request, &id, &row.digest).await?;
        }
        let key = (principal.org.clone(), command.thread.clone());
        let make = |reply| Request::Fork(Box::new(command.clone()), reply);
        self.request(principal, &key, ANSWER_TIMEOUT, make).await
    }

    /// Returns the thread that an earlier attempt of this request created. None: there is none.
    async fn created_fork(&self, by: &Principal, id: &ThreadId, row: &RequestRow) -> Result<Option<ThreadHeader>> {
        let threads = &self.node.shared.dependencies.stores.threads;
        let Some(fork) = threads.header(&by.org, id).await? else { return Ok(None) };
        match threads.request(&by.org, id, &row.request).await? {
            Some(existing) if existing.digest == row.digest => Ok(Some(fork)),
            _ => Err(Error::request_id_conflict()),
        }
    }

    /// Returns a thread to which the principal has access.
    async fn readable_thread(&self, principal: &Principal, thread: &ThreadId) -> Result<ThreadHeader> {
        let found = self.node.shared.dependencies.stores.threads.header(&principal.org, thread).await?;
        let readable = found.filter(|header| header.user == principal.user || principal.role == Role::Admin);
        readable.ok_or_else(|| Error::not_found("thread", thread))
    }

    /// Reserves a request id for a request on this thread. Refused if another request used the id.
    async fn reserve_request_id(
        &self,
        principal: &Principal,
        request: &RequestId,
        thread: &ThreadId,
        digest: &Digest,
    ) -> Result<()> {
        let shared = &self.node.shared;
        let (target, at) = (Target::thread(thread), shared.dependencies.environment.now());
        let row = IdempotencyRecord { target, digest: digest.clone(), at };
        let ops = &shared.dependencies.stores.ops;
        let existing = ops.record_request(&principal.org, &op_key(principal, request), row.clone()).await?;
        match (existing.target, existing.digest) == (row.target, row.digest) {
            true => Ok(()),
            false => Err(Error::request_id_conflict()),
        }
    }
}

fn op_key(principal: &Principal, request: &RequestId) -> OpKey {
    OpKey::Request { user: principal.user.clone(), request: request.clone() }
}
