//! The routes of links between documents. No client of DocRouter calls them.

use folio_operations::ListRequest;
use folio_operations::links::{
    IncomingLink, ListDocumentLinks, ListLinkingDocuments, ListMissingLinks, MissingLink, NamedDocument,
    ResolveDocumentLinks, ResolvedLink,
};
use folio_types::{DocumentId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::endpoint::{get, post};
use super::extract::{Client, Id, Json, Query};
use super::list::{Limit, Skip, conditions, page};
use super::reply::Reply;
use super::routes::{Level, Route, org_path, route};

pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<ListDocumentLinks>(Level::Own, get(org_path!("/documents/{document_id}/links"), of_document)),
        route::<ListLinkingDocuments>(
            Level::Own,
            get(org_path!("/documents/{document_id}/links/incoming"), to_document),
        ),
        route::<ResolveDocumentLinks>(Level::Own, post(org_path!("/documents/{document_id}/links/resolve"), resolve)),
        route::<ListMissingLinks>(Level::Own, get(org_path!("/links/missing"), missing)),
    ]
}

/// The query parameters of a list of links.
#[derive(Debug, Deserialize, ToSchema)]
struct LinksQuery {
    /// Number of links before the page.
    #[serde(default)]
    #[schema(value_type = u32)]
    skip: Skip,
    /// Maximum number of links of the page, at most 100.
    #[serde(default)]
    #[schema(value_type = u32, minimum = 1, maximum = 100, default = 10)]
    limit: Limit,
    /// `matched`, `ambiguous` or `missing`. Only for the links of a document.
    status: Option<String>,
}

/// A document to which a link refers, or that contains a link.
#[derive(Debug, Serialize, ToSchema)]
struct LinkedDocumentBody {
    /// Identifies the document.
    document_id: String,
    /// The name of the document.
    document_name: String,
}

impl From<&NamedDocument> for LinkedDocumentBody {
    fn from(document: &NamedDocument) -> Self {
        Self { document_id: document.id.to_string(), document_name: document.name.clone() }
    }
}

/// A target of a document, with the documents to which it refers.
#[derive(Debug, Serialize, ToSchema)]
struct DocumentLinkBody {
    /// The number of the page with the first reference, from 1.
    page: u32,
    /// The text of the hyperlink. Empty: the target is part of the running text.
    anchor_text: String,
    /// The target as the document contains it.
    target: String,
    /// `matched`, `ambiguous` or `missing`.
    status: String,
    /// `id`, `url`, `name` or `title`: the property by which the documents were found. Null: none was found.
    matched_by: Option<String>,
    /// The documents to which the target refers, at most 10.
    documents: Vec<LinkedDocumentBody>,
    /// `followed` if the ingestion of this document followed the link, otherwise `left`.
    action: String,
    /// The time at which the document was first found to refer to the target.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<&ResolvedLink> for DocumentLinkBody {
    fn from(found: &ResolvedLink) -> Self {
        Self {
            page: found.link.page,
            anchor_text: found.link.anchor.clone(),
            target: found.link.target.clone(),
            status: found.status.as_str().to_owned(),
            matched_by: found.matched_by.map(str::to_owned),
            documents: found.documents.iter().map(Into::into).collect(),
            action: if found.is_followed { "followed" } else { "left" }.to_owned(),
            created_at: found.link.since,
        }
    }
}

/// A page of the links of a document.
#[derive(Debug, Serialize, ToSchema)]
struct DocumentLinkList {
    /// The links of the page, in the order of the pages of the document.
    links: Vec<DocumentLinkBody>,
    /// Number of links that match.
    total_count: u64,
    /// Number of links before the page.
    skip: u32,
}

/// A link of another document.
#[derive(Debug, Serialize, ToSchema)]
struct IncomingLinkBody {
    /// The document that contains the link.
    document: LinkedDocumentBody,
    /// The target as that document contains it.
    target: String,
    /// The time at which that document was first found to contain the link.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<&IncomingLink> for IncomingLinkBody {
    fn from(link: &IncomingLink) -> Self {
        Self { document: (&link.document).into(), target: link.target.clone(), created_at: link.since }
    }
}

/// A page of the links of other documents to a document.
#[derive(Debug, Serialize, ToSchema)]
struct IncomingLinkList {
    /// The links of the page.
    links: Vec<IncomingLinkBody>,
    /// Number of links, exact up to 1,024.
    total_count: u64,
    /// Number of links before the page.
    skip: u32,
}

/// A target that matches no document of the organization.
#[derive(Debug, Serialize, ToSchema)]
struct MissingLinkBody {
    /// The target as the document with the oldest reference contains it.
    target: String,
    /// The documents that refer to the target, at most 20.
    document_ids: Vec<String>,
    /// True if further documents refer to the target.
    has_more_documents: bool,
    /// The time of the oldest reference.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<&MissingLink> for MissingLinkBody {
    fn from(link: &MissingLink) -> Self {
        Self {
            target: link.target.clone(),
            document_ids: link.documents.iter().map(ToString::to_string).collect(),
            has_more_documents: link.has_more,
            created_at: link.since,
        }
    }
}

/// A page of the targets that match no document of the organization.
#[derive(Debug, Serialize, ToSchema)]
struct MissingLinkList {
    /// The targets of the page, the oldest reference first.
    links: Vec<MissingLinkBody>,
    /// Number of targets, exact up to 1,024.
    total_count: u64,
    /// Number of targets before the page.
    skip: u32,
}

/// The links of a document by status.
#[derive(Debug, Serialize, ToSchema)]
struct LinkReportBody {
    /// Number of targets that refer to one document.
    matched: usize,
    /// Number of targets that refer to several documents.
    ambiguous: usize,
    /// Number of targets that match no document.
    missing: usize,
    /// True if the document has further targets, which are omitted.
    truncated: bool,
}

async fn of_document(
    client: Client,
    Id(document_id): Id<DocumentId>,
    Query(query): Query<LinksQuery>,
) -> Reply<Json<DocumentLinkList>> {
    let request = ListRequest { filter: conditions(&[("status:", query.status.as_deref())]), ..ListRequest::default() };
    let read = |list| client.run(ListDocumentLinks { document_id: document_id.clone(), list });
    let page = page(query.skip, query.limit, request, read).await?;
    let links = page.rows.iter().map(Into::into).collect();
    Ok(Json(DocumentLinkList { links, total_count: page.total_count, skip: page.skip }))
}

async fn to_document(
    client: Client,
    Id(document_id): Id<DocumentId>,
    Query(query): Query<LinksQuery>,
) -> Reply<Json<IncomingLinkList>> {
    let read = |list| client.run(ListLinkingDocuments { document_id: document_id.clone(), list });
    let page = page(query.skip, query.limit, ListRequest::default(), read).await?;
    let links = page.rows.iter().map(Into::into).collect();
    Ok(Json(IncomingLinkList { links, total_count: page.total_count, skip: page.skip }))
}

async fn missing(client: Client, Query(query): Query<LinksQuery>) -> Reply<Json<MissingLinkList>> {
    let read = |list| client.run(ListMissingLinks { list });
    let page = page(query.skip, query.limit, ListRequest::default(), read).await?;
    let links = page.rows.iter().map(Into::into).collect();
    Ok(Json(MissingLinkList { links, total_count: page.total_count, skip: page.skip }))
}

async fn resolve(client: Client, Id(document_id): Id<DocumentId>) -> Reply<Json<LinkReportBody>> {
    let report = client.run(ResolveDocumentLinks { document_id }).await?;
    Ok(Json(LinkReportBody {
        matched: report.matched,
        ambiguous: report.ambiguous,
        missing: report.missing,
        truncated: report.is_cut,
    }))
}
