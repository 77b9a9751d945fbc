//! Operations that divide a PDF with several documents.

use folio_documents::{PageHint, ProposedPart, SplitPart, check_split_parts, default_name, propose_split};
use folio_resources::{Document, PageRange};
use folio_tools::extraction::check_ready;
use folio_types::{DocumentId, Error, Reason, Result};
use serde::Serialize;
use serde_json::Value;

use crate::context::Context;
use crate::declaration::{Declaration, Quota};
use crate::documents::SERVICE;
use crate::operation::{Operation, read_outcome, write_outcome};

/// Number of pages of one read.
const PAGES_AT_ONCE: u32 = 16;

/// Proposes the documents of a PDF file. Nothing is changed.
#[derive(Debug, Clone, Serialize)]
pub struct ProposeSplit {
    pub document_id: DocumentId,
}

/// A document of a proposal, with the name that [`SplitDocument`] gives it by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPart {
    pub part: ProposedPart,
    pub name: String,
}

impl Operation for ProposeSplit {
    const DECLARATION: Declaration = SERVICE.read("ProposeSplit").long();
    type Output = Vec<NamedPart>;

    async fn run(self, context: &Context) -> Result<Vec<NamedPart>> {
        let document: Document = context.find(&self.document_id).await?;
        if document.media_type != "application/pdf" {
            let message = format!("only a PDF can be split, the file is {}", document.media_type);
            return Err(Error::precondition(Reason::UnsupportedType, message));
        }
        check_ready(&document)?;
        let hints = hints(context, &document).await?;
        let bookmarks = context.bookmarks(&document).await?;
        let parts = propose_split(&hints, &bookmarks).into_iter();
        Ok(parts.map(|part| NamedPart { name: default_name(&document.name, part.pages), part }).collect())
    }
}

/// Reads the text of a document, and returns the features of its pages. The page with an attached structured invoice is no page of the
/// file.
async fn hints(context: &Context, document: &Document) -> Result<Vec<PageHint>> {
    let (mut hints, mut next) = (Vec::new(), 1);
    while next <= document.pages {
        let (org, texts) = (&context.principal().org, &context.stores().texts);
        let pages = texts.text(org, document.id.as_str(), next, PAGES_AT_ONCE).await?;
        if pages.is_empty() {
            break;
        }
        for page in pages {
            next = page.number.saturating_add(1);
            if folio_resources::structured_invoice_name(&page.text).is_none() {
                hints.push(PageHint::of(&page.text));
            }
        }
    }
    Ok(hints)
}

/// A part of a split.
#[derive(Debug, Clone, Serialize)]
pub struct RequestedPart {
    pub first_page: u32,
    pub last_page: u32,
    /// Name of the document. None: the name of the split document with the pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Creates a document of each part of a PDF, with the tags of the PDF, which is unchanged.
#[derive(Debug, Clone, Serialize)]
pub struct SplitDocument {
    pub document_id: DocumentId,
    /// Ascending ranges of pages without a common page.
    pub parts: Vec<RequestedPart>,
}

impl Operation for SplitDocument {
    const DECLARATION: Declaration = SERVICE.change("SplitDocument").recorded_outcome().long().quota(Quota::Storage);
    type Output = Vec<Document>;

    async fn run(self, context: &Context) -> Result<Vec<Document>> {
        let part = |part: RequestedPart| SplitPart {
            pages: PageRange { first: part.first_page, last: part.last_page },
            name: part.name,
        };
        let parts: Vec<_> = self.parts.into_iter().map(part).collect();
        check_split_parts(&parts)?;
        let document: Document = context.find(&self.document_id).await?;
        context.uploader()?.split(context.principal(), context.request.id(), &document, &parts).await
    }

    /// The outcome is the ids of the documents, so that a repeated request returns their current versions.
    fn to_outcome(output: &Self::Output) -> Result<Value> {
        write_outcome(&output.iter().map(|document| &document.id).collect::<Vec<_>>())
    }

    async fn replay(&self, context: &Context, outcome: Value) -> Result<Self::Output> {
        let ids: Vec<DocumentId> = read_outcome(outcome)?;
        let mut documents = Vec::with_capacity(ids.len());
        for id in ids {
            // A document that was deleted since is missing in the response.
            documents.extend(context.stores().of::<Document>().get(&context.principal().org, &id).await?);
        }
        Ok(documents)
    }
}
