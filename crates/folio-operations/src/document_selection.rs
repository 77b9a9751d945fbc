//! The documents on which a prompt runs.

use std::collections::HashMap;

use folio_resources::{Document, TextState};
use folio_tools::extraction::check_ready;
use folio_types::limits::{JOB_ITEMS_MAX, PAGE_SIZE_MAX};
use folio_types::page::{Order, PageRequest};
use folio_types::{DocumentId, Error, Result};

use crate::context::Context;
use crate::documents::document_filter;

/// Number of documents of one read.
const DOCUMENTS_PER_READ: usize = 100;

/// A document whose text is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selected {
    pub(crate) id: DocumentId,
    pub(crate) pages: u32,
}

impl From<Document> for Selected {
    fn from(document: Document) -> Self {
        Self { id: document.id, pages: document.pages }
    }
}

/// Returns the documents of a request: either those with these ids, whose texts must be ready, or those that match a filter of
/// documents and have a text, oldest first.
///
/// # Errors
/// `INVALID_FIELD` unless the request has either ids or a filter, and if too many documents match; `NOT_FOUND`; the errors of
/// [`check_ready`].
pub(crate) async fn select(context: &Context, ids: &[DocumentId], filter: Option<&str>) -> Result<Vec<Selected>> {
    match filter {
        None if ids.is_empty() => Err(Error::invalid_field("document_ids", "is missing")),
        None => by_id(context, ids).await,
        Some(_) if !ids.is_empty() => {
            Err(Error::invalid_field("document_filter", "must be unset if document_ids has entries"))
        }
        Some(filter) => by_filter(context, filter).await,
    }
}

async fn by_id(context: &Context, ids: &[DocumentId]) -> Result<Vec<Selected>> {
    let (store, org) = (context.stores().of::<Document>(), &context.principal().org);
    let mut selected = Vec::with_capacity(ids.len());
    for ids in ids.chunks(DOCUMENTS_PER_READ) {
        let found = store.get_many(org, ids).await?;
        let mut found: HashMap<_, _> = found.into_iter().map(|document| (document.id.clone(), document)).collect();
        for id in ids {
            let document = found.remove(id).ok_or_else(|| Error::not_found("document", id))?;
            let name_document = |error: Error| Error { message: format!("{id}: {}", error.message), ..error };
            check_ready(&document).map_err(name_document)?;
            selected.push(document.into());
        }
    }
    Ok(selected)
}

async fn by_filter(context: &Context, filter: &str) -> Result<Vec<Selected>> {
    let filter = document_filter(filter).map_err(|mut error| {
        let problem = error.violations.pop().map_or(error.message, |violation| violation.description);
        Error::invalid_field("document_filter", problem)
    })?;
    let (store, org) = (context.stores().of::<Document>(), &context.principal().org);
    let mut selected: Vec<Selected> = Vec::new();
    let mut request = PageRequest { size: PAGE_SIZE_MAX, order: Order::Oldest, ..PageRequest::default() };
    loop {
        let page = store.list(org, &filter, &request).await?;
        let ready = page.items.into_iter().filter(|document| document.state == TextState::Ready);
        selected.extend(ready.map(Selected::from));
        if selected.len() > JOB_ITEMS_MAX {
            let problem = format!("more than {JOB_ITEMS_MAX} documents match; use several requests");
            return Err(Error::invalid_field("document_filter", problem));
        }
        match page.next {
            Some(token) => request.token = Some(token),
            None => return Ok(selected),
        }
    }
}
