//! The requests that change threads, checked.

use folio_types::fields::check_name;
use folio_types::{DocumentId, RequestId, Result, ThreadId, limits};

use crate::{fields, v1};

/// `CreateThreadRequest` within its bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateInput {
    /// The profile; none: the default.
    pub profile: Option<String>,
    /// The documents.
    pub documents: Vec<DocumentId>,
    /// The title; may be empty.
    pub title: String,
    /// The model; none: the default.
    pub model: Option<String>,
    /// The client's id for the request.
    pub request: Option<RequestId>,
}

/// `RenameThreadRequest` within its bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct RenameInput {
    /// The thread.
    pub thread: ThreadId,
    /// The title, not empty.
    pub title: String,
    /// The client's id for the request.
    pub request: Option<RequestId>,
}

/// `DeleteThreadRequest` within its bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct DeleteInput {
    /// The thread.
    pub thread: ThreadId,
    /// The client's id for the request.
    pub request: Option<RequestId>,
}

/// `ForkThreadRequest` within its bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct ForkInput {
    /// The thread that is forked.
    pub thread: ThreadId,
    /// Messages that are copied; none: all of the ended turns.
    pub message_count: Option<u32>,
    /// The title; none: the old one's.
    pub title: Option<String>,
    /// The client's id for the request.
    pub request: Option<RequestId>,
}

/// Reads `CreateThreadRequest`.
pub fn create(request: &v1::CreateThreadRequest) -> Result<CreateInput> {
    Ok(CreateInput {
        profile: fields::optional_word("profile", &request.profile)?,
        documents: fields::ids("document_ids", &request.document_ids, limits::DOCUMENTS_PER_THREAD)?,
        title: title(&request.title)?.unwrap_or_default(),
        model: fields::optional_word("model", &request.model)?,
        request: fields::request_id(&request.request_id)?,
    })
}

/// Reads `RenameThreadRequest`.
pub fn rename(request: &v1::RenameThreadRequest) -> Result<RenameInput> {
    Ok(RenameInput {
        thread: fields::id("thread_id", &request.thread_id)?,
        title: fields::required("title", title(&request.title)?)?,
        request: fields::request_id(&request.request_id)?,
    })
}

/// Reads `DeleteThreadRequest`.
pub fn delete(request: &v1::DeleteThreadRequest) -> Result<DeleteInput> {
    Ok(DeleteInput {
        thread: fields::id("thread_id", &request.thread_id)?,
        request: fields::request_id(&request.request_id)?,
    })
}

/// Reads `ForkThreadRequest`.
pub fn fork(request: &v1::ForkThreadRequest) -> Result<ForkInput> {
    Ok(ForkInput {
        thread: fields::id("thread_id", &request.thread_id)?,
        message_count: request.message_count,
        title: title(&request.title)?,
        request: fields::request_id(&request.request_id)?,
    })
}

/// A title, or none where the field is empty.
fn title(text: &str) -> Result<Option<String>> {
    if text.is_empty() {
        return Ok(None);
    }
    check_name("title", text)?;
    Ok(Some(text.to_owned()))
}
