//! The documents on which a prompt runs.

use std::collections::{HashMap, HashSet};

use folio_resources::{Document, DocumentFilter, TextState};
use folio_tools::extraction::check_ready;
use folio_types::limits::{JOB_ITEMS_MAX, PAGE_SIZE_MAX};
use folio_types::page::{Order, PageRequest};
use folio_types::{DocumentId, Error, Result, TagId};

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

/// The selection of documents by a request.
#[derive(Debug)]
pub(crate) enum Selector<'a> {
    /// The documents with these ids, whose texts must be ready.
    Ids(&'a [DocumentId]),
    /// The documents that match a filter and have a text, oldest first.
    Filter(DocumentFilter),
}

impl<'a> Selector<'a> {
    /// Returns the selection of a request.
    ///
    /// # Errors
    /// `INVALID_FIELD` unless the request has either ids or a valid filter; `INVALID_ID` if a condition of the filter has a
    /// malformed id.
    pub(crate) fn new(ids: &'a [DocumentId], filter: Option<&str>) -> Result<Self> {
        match filter {
            None if ids.is_empty() => Err(Error::invalid_field("document_ids", "is missing")),
            None => Ok(Self::Ids(ids)),
            Some(_) if !ids.is_empty() => {
                Err(Error::invalid_field("document_filter", "must be unset if document_ids has entries"))
            }
            Some(filter) => {
                let of_this_field = |mut error: Error| {
                    let problem = error.violations.pop().map_or(error.message, |violation| violation.description);
                    Error::invalid_field("document_filter", problem).with_reason(error.reason)
                };
                document_filter(filter).map(Self::Filter).map_err(of_this_field)
            }
        }
    }

    /// Returns the documents.
    ///
    /// # Errors
    /// `INVALID_FIELD` if too many documents match; `NOT_FOUND`; the errors of [`check_ready`].
    pub(crate) async fn read(&self, context: &Context) -> Result<Vec<Selected>> {
        match self {
            Self::Ids(ids) => by_id(context, ids).await,
            Self::Filter(filter) => by_filter(context, filter).await,
        }
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

async fn by_filter(context: &Context, filter: &DocumentFilter) -> Result<Vec<Selected>> {
    let mut selected = Selection::new(JOB_ITEMS_MAX);
    selected.add(context, filter).await?;
    if selected.has_more {
        let problem = format!("more than {JOB_ITEMS_MAX} documents match; use several requests");
        return Err(Error::invalid_field("document_filter", problem));
    }
    Ok(selected.documents)
}

/// Returns at most `max` documents with a text and at least one of these tags, oldest first for each tag, and whether there are
/// more.
pub(crate) async fn with_any_tag(context: &Context, tags: &[TagId], max: usize) -> Result<(Vec<Selected>, bool)> {
    let mut selected = Selection::new(max);
    for tag in tags {
        let filter = DocumentFilter { all_tags: vec![tag.clone()], ..DocumentFilter::default() };
        selected.add(context, &filter).await?;
    }
    Ok((selected.documents, selected.has_more))
}

/// Different documents whose texts are ready, up to a maximum.
struct Selection {
    documents: Vec<Selected>,
    ids: HashSet<DocumentId>,
    max: usize,
    /// True if further documents matched.
    has_more: bool,
}

impl Selection {
    fn new(max: usize) -> Self {
        Self { documents: Vec::new(), ids: HashSet::new(), max, has_more: false }
    }

    /// Adds the documents that match a filter, until the maximum is exceeded.
    async fn add(&mut self, context: &Context, filter: &DocumentFilter) -> Result<()> {
        let (store, org) = (context.stores().of::<Document>(), &context.principal().org);
        let mut request = PageRequest { size: PAGE_SIZE_MAX, order: Order::Oldest, ..PageRequest::default() };
        while !self.has_more {
            let page = store.list(org, filter, &request).await?;
            for document in page.items.into_iter().filter(|document| document.state == TextState::Ready) {
                if !self.ids.insert(document.id.clone()) {
                    continue;
                }
                if self.documents.len() >= self.max {
                    self.has_more = true;
                    break;
                }
                self.documents.push(document.into());
            }
            match page.next {
                Some(token) => request.token = Some(token),
                None => break,
            }
        }
        Ok(())
    }
}
