//! Operations on documents.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use folio_documents::NewUpload;
use folio_resources::{
    Document, DocumentChange, DocumentFilter, DocumentPatch, Organization, PageImage, Rendition, TextState, WordBoxes,
    check_document_patch,
};
use folio_storage::BlobReader;
use folio_storage::value::PageText;
use folio_tools::extraction::check_ready;
use folio_tools::links;
use folio_types::access::Scope;
use folio_types::budget::check_credit_budget;
use folio_types::{BlobKey, DocumentId, Error, Etag, OrgId, Result, Secret, TagId, limits};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _};
use serde::Serialize;

use crate::context::Context;
use crate::declaration::{Declaration, Quota, service};
use crate::document_splits::{ProposeSplit, SplitDocument};
use crate::document_structure::{GetDocumentImage, GetDocumentStructure, GetSection, ListImages, ListLinks};
use crate::document_watch::WatchDocument;
use crate::filter::{self, Operator};
use crate::grid::{Column, Grid, GridFilter, GridOperator, GridRows, STATE, STATES};
use crate::list::{ListPage, ListRequest};
use crate::operation::{Operation, get_operation, outcome_as_json};

service! {
    "DocumentService", Some(Scope::Documents) =>
    UploadDocument, GetDocument, DownloadDocument, ListDocuments, UpdateDocument, DeleteDocument, GetDocumentText,
    GetPageWords, GetPageImage, GetDocumentStructure, GetSection, ListLinks, ListImages, GetDocumentImage,
    ReadDocumentAgain, WatchDocument, ProposeSplit, SplitDocument
}

/// Media type of a document that is its own PDF rendition.
const PDF: &str = "application/pdf";
/// Maximum size of the text of a response.
// proto: GetDocumentTextRequest.page_count "about {} MiB"
// proto: GetDocumentStructureRequest.page_count "about {} MiB"
pub(crate) const TEXT_BYTES: usize = 2 * 1024 * 1024;
/// Number of pages of one read.
const PAGES_AT_ONCE: u32 = 16;

/// The bytes of a file, in order.
pub struct Content(Mutex<BoxStream<'static, Result<Bytes>>>);

impl Content {
    /// The content is the concatenated chunks. An error of the stream aborts the upload.
    pub fn new(chunks: impl Stream<Item = Result<Bytes>> + Send + 'static) -> Self {
        Self(Mutex::new(chunks.boxed()))
    }

    fn of_blob(blob: Box<dyn BlobReader>) -> Self {
        let read = |mut blob: Box<dyn BlobReader>| async move { Ok(blob.read().await?.map(|chunk| (chunk, blob))) };
        Self::new(futures::stream::try_unfold(blob, read))
    }

    pub fn into_stream(self) -> BoxStream<'static, Result<Bytes>> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Content")
    }
}

/// Stores a file as a document. Its text is extracted asynchronously.
#[derive(Debug, Serialize)]
pub struct UploadDocument {
    pub name: String,
    /// At most 50 tags, which must exist.
    pub tag_ids: Vec<TagId>,
    /// At most 50 entries.
    pub metadata: BTreeMap<String, String>,
    /// The size of the file. An upload with another size is refused. None: any size.
    pub size_bytes: Option<u64>,
    /// The password of a protected PDF. No digest and no log contains it.
    #[serde(skip)]
    pub password: Option<Secret>,
    /// True if an agent makes a proposal for the document. None: the default of the organization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_create: Option<bool>,
    /// Credits that the model calls of the agent may cost. Without an agent it has no effect. None: the setting of the server is the
    /// only bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credit_budget: Option<u64>,
    /// The bytes are compared with those of an earlier upload under the same request id.
    #[serde(skip)]
    pub content: Content,
}

impl Operation for UploadDocument {
    const DECLARATION: Declaration = SERVICE.change("UploadDocument").long().quota(Quota::Storage);
    type Output = Document;

    async fn run(self, context: &Context) -> Result<Document> {
        let credit_budget = check_credit_budget(self.credit_budget)?;
        let has_auto_create = has_auto_create(context, self.auto_create).await?;
        let new = NewUpload {
            has_auto_create,
            auto_create_budget: credit_budget.filter(|_| has_auto_create),
            request_id: context.request.id().clone(),
            name: self.name,
            tags: self.tag_ids,
            metadata: self.metadata,
            size: self.size_bytes,
            password: self.password,
        };
        let mut upload = context.uploader()?.begin(context.principal(), new).await?;
        let mut chunks = self.content.into_stream();
        while let Some(chunk) = chunks.next().await {
            upload.write(chunk?).await?;
        }
        Ok(upload.finish().await?.document)
    }
}

/// Returns true if an agent makes a proposal for an uploaded document.
///
/// # Errors
/// `SCOPE_NOT_ALLOWED` if the upload requests it with a token that does not permit the resources of the proposal.
async fn has_auto_create(context: &Context, requested: Option<bool>) -> Result<bool> {
    let Some(requested) = requested else {
        let organizations = context.stores().of::<Organization>();
        let found = organizations.get(&OrgId::platform(), &context.principal().org).await?;
        return Ok(found.is_some_and(|organization| organization.auto_create));
    };
    for scope in [Scope::Definitions, Scope::Extractions].into_iter().filter(|_| requested) {
        context.caller.require(scope, "automatic creation")?;
    }
    Ok(requested)
}

get_operation! {
    /// Returns a document without its bytes.
    GetDocument { document_id: DocumentId } -> Document
}

/// The form in which a document is downloaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DownloadForm {
    /// The uploaded bytes.
    #[default]
    Original,
    /// The PDF rendition: the bytes of a PDF file, otherwise a PDF file that a node makes.
    Pdf,
}

#[derive(Debug, Clone, Serialize)]
pub struct DownloadDocument {
    pub document_id: DocumentId,
    pub form: DownloadForm,
}

#[derive(Debug)]
pub struct Download {
    pub document: Document,
    pub content: Content,
}

impl Operation for DownloadDocument {
    const DECLARATION: Declaration = SERVICE.read("DownloadDocument").long();
    type Output = Download;

    async fn run(self, context: &Context) -> Result<Download> {
        let document: Document = context.find(&self.document_id).await?;
        if self.form == DownloadForm::Pdf && document.media_type != PDF {
            let content = rendition(context, &document, &Rendition::Pdf).await?;
            return Ok(Download { document, content });
        }
        let blob = context.stores().blobs.open(&document.blob_key()).await?;
        // A deletion removes the document before its bytes.
        let blob = blob.ok_or_else(|| Error::not_found("document", &document.id))?;
        Ok(Download { document, content: Content::of_blob(blob) })
    }
}

/// The columns of the grid of [`ListDocuments`].
pub const COLUMNS: &[Column] = <Document as GridRows>::COLUMNS;

/// Lists documents. Filter: `name:` a part of the name, `name=` the name, `tag:` a tag id, `metadata.KEY:` a part of the value
/// of that key, `metadata.KEY=` the value, `parent=` the id of the document whose parts are listed, `state=` the state of the text.
#[derive(Debug, Clone, Serialize)]
pub struct ListDocuments {
    pub list: ListRequest,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DocumentPage {
    pub page: ListPage<Document>,
    /// The ids of those documents of the page that have an extraction. Empty if the request has no grid.
    pub extracted: BTreeSet<String>,
}

impl Operation for ListDocuments {
    const DECLARATION: Declaration = SERVICE.read("ListDocuments");
    type Output = DocumentPage;

    async fn run(self, context: &Context) -> Result<DocumentPage> {
        let (mut filter, state) = document_conditions(&self.list.filter)?;
        filter.name_search = Grid::name_search(filter.name_search, self.list.grid.as_ref());
        let (list, max, has_grid) = (&self.list, limits::PAGE_SIZE_MAX, self.list.grid.is_some());
        let page: ListPage<Document> = match state {
            None => context.list_with_grid(list, &filter, max).await?,
            Some(state) => {
                // The rows of the stores' lists lack the state, which changes without the document.
                let is_in_state = GridFilter {
                    field: STATE.to_owned(),
                    operator: GridOperator::Equals,
                    values: vec![state.to_owned()],
                };
                let grid = list.grid_or_order()?;
                context.list_in_grid(list, &filter, (&grid, &[is_in_state]), max).await?
            }
        };
        let ids = page.items.iter().map(|document| document.id.clone()).filter(|_| has_grid).collect();
        Ok(DocumentPage { extracted: context.extracted(ids).await?, page })
    }
}

/// Parses a filter of documents whose state is given.
///
/// # Errors
/// `INVALID_FIELD` of `filter`.
pub(crate) fn document_filter(text: &str) -> Result<DocumentFilter> {
    match document_conditions(text)? {
        (filter, None) => Ok(filter),
        (_, Some(_)) => Err(Error::invalid_field("filter", "state is not a field here: the documents must be ready")),
    }
}

/// Parses the filter of [`ListDocuments`]. Also returns the state that the documents must have.
fn document_conditions(text: &str) -> Result<(DocumentFilter, Option<&'static str>)> {
    let (mut filter, mut state) = (DocumentFilter::default(), None);
    for condition in filter::parse(text)? {
        match condition.field.split_once('.') {
            None if condition.field == "name" => {
                filter::set_text(&mut filter.name_search, &mut filter.name, &condition)?;
            }
            None if condition.field == "tag" => filter.all_tags.push(condition.id()?),
            None if condition.field == "parent" => filter::set_once(&mut filter.parent, &condition, condition.id()?)?,
            None if condition.field == "state" => {
                let named = STATES.iter().copied().find(|name| *name == condition.value);
                filter::set_once(&mut state, &condition, condition.one_of(named, &STATES)?)?;
            }
            Some(("metadata", key)) if !key.is_empty() => {
                let (values, value) = match condition.operator {
                    Operator::Has => (&mut filter.metadata, condition.search()?),
                    Operator::Equals => (&mut filter.metadata_equals, condition.value.clone()),
                };
                if values.insert(key.to_owned(), value).is_some() {
                    return Err(Error::invalid_field("filter", format!("metadata.{key} appears twice")));
                }
            }
            _ => return Err(filter::unknown_field(&condition, "name, tag, parent, state and metadata.KEY")),
        }
    }
    filter::check_tags(filter.all_tags.len())?;
    Ok((filter, state))
}

/// Changes name, tags or metadata of a document. A field that is None keeps its value.
#[derive(Debug, Clone, Serialize)]
pub struct UpdateDocument {
    pub document_id: DocumentId,
    pub name: Option<String>,
    /// The new tags replace all stored ones.
    pub tag_ids: Option<Vec<TagId>>,
    /// The new metadata replaces all stored entries.
    pub metadata: Option<BTreeMap<String, String>>,
    /// The version that the change is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for UpdateDocument {
    const DECLARATION: Declaration = SERVICE.change("UpdateDocument");
    type Output = Document;

    async fn run(self, context: &Context) -> Result<Document> {
        let patch = DocumentPatch { name: self.name, tags: self.tag_ids, metadata: self.metadata };
        let patch = check_document_patch("document.", patch)?;
        let has_other_keys = patch.name.is_some() || patch.metadata.is_some();
        let document: Document = context.update(&self.document_id, self.etag, DocumentChange::Update(patch)).await?;
        if has_other_keys {
            links::update_keys(context.stores(), &document).await;
        }
        Ok(document)
    }
}

/// Deletes a document with its bytes, its text and its extractions, and after 24 hours its threads.
#[derive(Debug, Clone, Serialize)]
pub struct DeleteDocument {
    pub document_id: DocumentId,
    /// The version to delete. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for DeleteDocument {
    const DECLARATION: Declaration = SERVICE.change("DeleteDocument");
    type Output = ();

    async fn run(self, context: &Context) -> Result<()> {
        context.request.delete::<Document>(context.stores(), &self.document_id, self.etag).await?;
        context.clean_up().sweep_soon();
        Ok(())
    }
}

/// Returns the text of a document by page. A response ends at about 2 MiB.
#[derive(Debug, Clone, Serialize)]
pub struct GetDocumentText {
    pub document_id: DocumentId,
    /// The first page. 0 and 1: the first page of the document.
    pub from_page: u32,
    /// The maximum number of pages. 0: as many as fit.
    pub page_count: u32,
}

#[derive(Debug, Clone)]
pub struct DocumentText {
    /// The pages are empty unless the text is ready.
    pub state: TextState,
    /// The pages, in order.
    pub pages: Vec<PageText>,
    /// Number of pages of the whole document.
    pub total_pages: u32,
    /// Number of the first page after the returned ones. None: the last page is included.
    pub next_page: Option<u32>,
}

impl Operation for GetDocumentText {
    const DECLARATION: Declaration = SERVICE.read("GetDocumentText");
    type Output = DocumentText;

    async fn run(self, context: &Context) -> Result<DocumentText> {
        let document: Document = context.find(&self.document_id).await?;
        let total_pages = document.pages;
        let mut text = DocumentText { state: document.state, pages: Vec::new(), total_pages, next_page: None };
        if text.state != TextState::Ready {
            return Ok(text);
        }
        let first = self.from_page.max(1);
        let count = if self.page_count == 0 { u32::MAX } else { self.page_count };
        let end = first.saturating_add(count).min(total_pages.saturating_add(1));
        let (mut next, mut bytes) = (first, 0);
        while next < end && bytes < TEXT_BYTES {
            let count = PAGES_AT_ONCE.min(end - next);
            let texts = &context.stores().texts;
            let pages = texts.text(&context.principal().org, document.id.as_str(), next, count).await?;
            if pages.is_empty() {
                break;
            }
            for page in pages {
                if bytes > 0 && bytes + page.text.len() > TEXT_BYTES {
                    bytes = TEXT_BYTES;
                    break;
                }
                bytes += page.text.len();
                next = page.number.saturating_add(1);
                text.pages.push(page);
            }
        }
        text.next_page = Some(next).filter(|next| *next <= total_pages && first <= total_pages);
        Ok(text)
    }
}

/// Returns the words of a page with their boxes.
#[derive(Debug, Clone, Serialize)]
pub struct GetPageWords {
    pub document_id: DocumentId,
    /// The number of the page, from 1.
    pub page: u32,
}

#[derive(Debug, Clone)]
pub struct PageWords {
    /// The text of the page. Its words are the parts between white space.
    pub text: String,
    /// The boxes of the words, in order. Empty: the format has none. Words after the last box have none.
    pub boxes: WordBoxes,
}

impl Operation for GetPageWords {
    const DECLARATION: Declaration = SERVICE.read("GetPageWords");
    type Output = PageWords;

    async fn run(self, context: &Context) -> Result<PageWords> {
        let document: Document = context.find(&self.document_id).await?;
        check_ready(&document)?;
        if self.page == 0 || self.page > document.pages {
            let problem = format!("must be from 1 to {}, the number of pages of the document", document.pages);
            return Err(Error::invalid_field("page", problem));
        }
        let (org, id, texts) = (&context.principal().org, document.id.as_str(), &context.stores().texts);
        let (pages, boxes) = futures::try_join!(texts.text(org, id, self.page, 1), texts.boxes(org, id, self.page, 1))?;
        Ok(PageWords {
            text: pages.into_iter().next().map(|page| page.text).unwrap_or_default(),
            boxes: boxes.into_iter().next().map(|page| page.boxes).unwrap_or_default(),
        })
    }
}

/// Returns an image of a page. The first request for an image renders it at a node.
#[derive(Debug, Clone, Serialize)]
pub struct GetPageImage {
    pub document_id: DocumentId,
    #[serde(skip)]
    pub image: PageImage,
}

impl Operation for GetPageImage {
    const DECLARATION: Declaration = SERVICE.read("GetPageImage").long();
    type Output = Content;

    async fn run(self, context: &Context) -> Result<Content> {
        let document: Document = context.find(&self.document_id).await?;
        rendition(context, &document, &Rendition::Page(self.image)).await
    }
}

/// Returns the bytes of a rendition. The first request makes it at a node.
///
/// # Errors
/// `NOT_FOUND` if the document was deleted, `VERSION_CONFLICT` if its text was extracted again; the errors of the node.
pub(crate) async fn rendition(context: &Context, document: &Document, rendition: &Rendition) -> Result<Content> {
    let (blobs, key) = (&context.stores().blobs, BlobKey { blob: rendition.blob(document), ..document.blob_key() });
    if let Some(blob) = blobs.open(&key).await? {
        return Ok(Content::of_blob(blob));
    }
    context.conversations().render(context.principal(), &document.id, rendition).await?;
    if let Some(blob) = blobs.open(&key).await? {
        return Ok(Content::of_blob(blob));
    }
    // A deletion of the document removes its renditions.
    context.find::<Document>(&document.id).await?;
    let message = "the text of the document was extracted again meanwhile; retry";
    Err(Error::version_conflict(message))
}

/// Reads the text of a document again.
#[derive(Debug, Clone, Serialize)]
pub struct ReadDocumentAgain {
    pub document_id: DocumentId,
}

impl Operation for ReadDocumentAgain {
    const DECLARATION: Declaration = SERVICE.change("ReadDocumentAgain").recorded_outcome();
    type Output = Document;
    outcome_as_json!();

    async fn run(self, context: &Context) -> Result<Document> {
        context.read_again(&context.find(&self.document_id).await?).await?;
        context.find(&self.document_id).await
    }
}

#[cfg(test)]
mod tests;
