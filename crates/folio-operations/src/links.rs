//! Operations on the links between documents.

use std::fmt;
use std::str::FromStr;

pub use folio_knowledge::LinkReport;
use folio_knowledge::resolve_links;
use folio_resources::{Document, FollowedLink, LinkKey};
use folio_storage::value::{DocumentLink, LinkingDocument, MissingLinkRow};
use folio_storage::{LinkStore, Stores};
use folio_tools::links::{LinkStatus, Resolution, resolve, resolve_all};
use folio_types::access::Scope;
use folio_types::op::Target;
use folio_types::page::Order;
use folio_types::{Digest, DocumentId, Error, OrgId, Result, Timestamp};
use futures::{StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use serde_json::json;

use crate::context::Context;
use crate::declaration::{Declaration, service};
use crate::filter;
use crate::list::{LARGE_PAGE_MAX, ListPage, ListRequest, Listing, ScanRead, SortKeys};
use crate::operation::Operation;

service! {
    "LinkService", Some(Scope::Documents) =>
    ListDocumentLinks, ListLinkingDocuments, ListMissingLinks, ResolveDocumentLinks
}

/// Maximum number of documents that a missing target lists.
// proto: MissingLink.document_ids "at most {} documents"
pub const LISTED_DOCUMENTS_MAX: usize = 20;
/// Maximum number of rows of one read of a list.
// proto: none "internal; larger than any page size"
const READ_MAX: usize = 2 * LARGE_PAGE_MAX as usize;
/// Number of rows of a list that are checked concurrently.
const CHECKED_AT_ONCE: usize = 8;
/// Number of references of a missing target that are read together: more than the documents that are listed.
const READ_REFERENCES: usize = 32;

/// A document that a link refers to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedDocument {
    pub id: DocumentId,
    pub name: String,
}

impl From<Document> for NamedDocument {
    fn from(document: Document) -> Self {
        Self { id: document.id, name: document.name }
    }
}

/// A target of a document with the documents that it refers to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResolvedLink {
    pub link: DocumentLink,
    pub status: LinkStatus,
    /// The kind of the key that the target and the documents have in common. None: the target refers to no document.
    pub matched_by: Option<&'static str>,
    pub documents: Vec<NamedDocument>,
    /// True if the ingestion of the document followed the link.
    pub is_followed: bool,
}

impl ResolvedLink {
    fn new((link, found): (DocumentLink, Resolution), followed: &[FollowedLink]) -> Self {
        let Resolution { status, key, documents } = found;
        let is_of_link = |followed: &FollowedLink| documents.iter().any(|document| document.id == followed.document);
        Self {
            is_followed: followed.iter().any(is_of_link),
            link,
            status,
            matched_by: key.as_ref().map(LinkKey::kind),
            documents: documents.into_iter().map(Into::into).collect(),
        }
    }
}

/// Lists the targets of a document in the order of its pages, each with the documents that it refers to. Filter: `status:` the
/// name of a status.
#[derive(Debug, Clone, Serialize)]
pub struct ListDocumentLinks {
    pub document_id: DocumentId,
    pub list: ListRequest,
}

impl Operation for ListDocumentLinks {
    const DECLARATION: Declaration = SERVICE.read("ListDocumentLinks");
    type Output = ListPage<ResolvedLink>;

    async fn run(self, context: &Context) -> Result<Self::Output> {
        let status = status_filter(&self.list.filter)?;
        let (stores, org) = (context.stores(), &context.principal().org);
        let listing = |request: &ListRequest, targets: &str| {
            let scope = ["document links", org.as_str(), self.document_id.as_str(), targets];
            Listing::new(request, &scope, SortKeys::Ascending("page"), Order::Oldest, LARGE_PAGE_MAX)
        };
        // A malformed request is refused whether the document exists or not.
        listing(&ListRequest { page_token: String::new(), ..self.list.clone() }, "")?;
        let document: Document = context.find(&self.document_id).await?;
        let mut links = stores.links().links(org, &document.id).await?;
        // A page token is a position among these targets.
        let targets: Vec<_> = links.iter().map(|link| (link.page, &link.target)).collect();
        let listing = listing(&self.list, Digest::of_json(&json!(targets)).as_str())?;
        let followed: Vec<FollowedLink> = stores.links().followed(org, &document.id).await?;
        let followed: Vec<FollowedLink> = followed.into_iter().filter(|link| link.from == document.id).collect();
        let resolved = |found: Vec<(DocumentLink, Resolution)>| -> Vec<ResolvedLink> {
            found.into_iter().map(|found| ResolvedLink::new(found, &followed)).collect()
        };
        match status {
            Some(status) => {
                // Each link of the document is resolved by several reads.
                let _permit = context.sorted_list_permit().await?;
                let mut found = resolve_all(stores, org, links).await?;
                found.retain(|(_, found)| found.status == status);
                listing.slice(resolved(found))
            }
            None => {
                let (total, positions) = (links.len(), listing.positions(links.len())?);
                let start = positions.start;
                links.truncate(positions.end);
                let found = resolve_all(stores, org, links.split_off(start)).await?;
                Ok(listing.page_at(start, resolved(found), total, usize::MAX, |_| 0))
            }
        }
    }
}

/// Returns the status that a filter names. None: the filter is empty.
fn status_filter(text: &str) -> Result<Option<LinkStatus>> {
    const STATUSES: [LinkStatus; 3] = [LinkStatus::Matched, LinkStatus::Ambiguous, LinkStatus::Missing];
    let mut selected = None;
    for condition in filter::parse(text)? {
        let status = STATUSES.into_iter().find(|status| status.as_str() == condition.value);
        match (condition.field.as_str(), status) {
            ("status", Some(status)) => filter::set_once(&mut selected, &condition, status)?,
            ("status", None) => {
                let names = STATUSES.map(LinkStatus::as_str).join(" or ");
                return Err(Error::invalid_field("filter", format!("the value of status must be {names}")));
            }
            _ => return Err(filter::unknown_field(&condition, "status")),
        }
    }
    Ok(selected)
}

/// A link of another document to a document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IncomingLink {
    pub document: NamedDocument,
    pub target: String,
    /// The time at which the other document was first found to contain the link.
    pub since: Timestamp,
}

/// The position of a reference: the number of a key of the document, and the row of the reference.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ReferencePosition {
    key: usize,
    row: String,
}

impl fmt::Display for ReferencePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.key, self.row)
    }
}

impl FromStr for ReferencePosition {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (key, row) = text.split_once(':').ok_or(())?;
        Ok(Self { key: key.parse().map_err(drop)?, row: row.to_owned() })
    }
}

/// Lists the links of other documents to a document.
///
/// The total counts references. After a complete page they are not checked, so that it may contain some of deleted documents.
#[derive(Debug, Clone, Serialize)]
pub struct ListLinkingDocuments {
    pub document_id: DocumentId,
    pub list: ListRequest,
}

impl Operation for ListLinkingDocuments {
    const DECLARATION: Declaration = SERVICE.read("ListLinkingDocuments");
    type Output = ListPage<IncomingLink>;

    async fn run(self, context: &Context) -> Result<Self::Output> {
        filter::require_empty(&self.list.filter)?;
        let (stores, org) = (context.stores(), &context.principal().org);
        let scope = ["linking documents", org.as_str(), self.document_id.as_str()];
        let listing =
            Listing::new(&self.list, &scope, SortKeys::Ascending("create_time"), Order::Oldest, LARGE_PAGE_MAX)?;
        let document: Document = context.find(&self.document_id).await?;
        let keys = stores.links().keys(org, &document.id).await?;
        let (keys, id) = (keys.as_slice(), &document.id);
        let read = async |scan: ScanRead<ReferencePosition>| {
            let (mut found, is_only_counted) = (Vec::new(), scan.is_page_complete);
            let (mut number, mut after) = scan.after.map_or((0, None), |after| (after.key, Some(after.row)));
            while let Some(key) = keys.get(number)
                && found.len() < scan.limit
            {
                let limit = scan.limit - found.len();
                let rows = stores.links().references(org, key, after.as_deref(), limit).await?;
                let is_last = rows.len() < limit;
                after = rows.last().map(|(row, _)| row.clone()).or(after);
                let of_document = keys.get(..number).unwrap_or_default();
                let check = |link: LinkingDocument| async move {
                    match is_only_counted {
                        true => Ok(counted(of_document, link)),
                        false => incoming(stores, org, id, of_document, link).await,
                    }
                };
                let checks: Vec<_> = rows.iter().map(|(_, link)| check(link.clone())).collect();
                let items: Vec<Option<IncomingLink>> =
                    futures::stream::iter(checks).buffered(CHECKED_AT_ONCE).try_collect().await?;
                let positions = rows.into_iter().map(|(row, _)| ReferencePosition { key: number, row });
                found.extend(positions.zip(items));
                if is_last {
                    (number, after) = (number + 1, None);
                }
            }
            Ok::<_, Error>(found)
        };
        listing.scan(READ_MAX, None, read).await
    }
}

/// Returns a reference as a link that is only counted, without a read. None: an earlier key of the document lists the reference.
fn counted(
    earlier: &[LinkKey],
    LinkingDocument { document, target, keys, since }: LinkingDocument,
) -> Option<IncomingLink> {
    let document = NamedDocument { id: document, name: String::new() };
    (!keys.iter().any(|key| earlier.contains(key))).then_some(IncomingLink { document, target, since })
}

/// Returns a reference as a link to a document. None: an earlier key of the document lists the reference, it refers to another document, or
/// its own document was deleted.
async fn incoming(
    stores: &Stores,
    org: &OrgId,
    document: &DocumentId,
    earlier: &[LinkKey],
    reference: LinkingDocument,
) -> Result<Option<IncomingLink>> {
    if reference.keys.iter().any(|key| earlier.contains(key)) {
        return Ok(None);
    }
    let found = resolve(stores, org, &reference.keys).await?;
    if !found.documents.iter().any(|found| found.id == *document) {
        return Ok(None);
    }
    let from = stores.of::<Document>().get(org, &reference.document).await?;
    Ok(from.map(|from| IncomingLink { document: from.into(), target: reference.target, since: reference.since }))
}

/// A target without a document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MissingLink {
    /// The target as the document with the oldest reference contains it.
    pub target: String,
    /// The time of the oldest reference.
    pub since: Timestamp,
    /// The documents that refer to the target, the oldest reference first, at most [`LISTED_DOCUMENTS_MAX`].
    pub documents: Vec<DocumentId>,
    /// True if further documents refer to the target.
    pub has_more: bool,
}

/// Lists the targets of all documents that refer to no document, the oldest reference first.
///
/// The total counts rows; targets that were resolved within the last seconds may be counted.
#[derive(Debug, Clone, Serialize)]
pub struct ListMissingLinks {
    pub list: ListRequest,
}

impl Operation for ListMissingLinks {
    const DECLARATION: Declaration = SERVICE.read("ListMissingLinks");
    type Output = ListPage<MissingLink>;

    async fn run(self, context: &Context) -> Result<Self::Output> {
        filter::require_empty(&self.list.filter)?;
        let (stores, org) = (context.stores(), &context.principal().org);
        let scope = ["missing links", org.as_str()];
        let listing =
            Listing::new(&self.list, &scope, SortKeys::Ascending("create_time"), Order::Oldest, LARGE_PAGE_MAX)?;
        let read = async |scan: ScanRead<String>| {
            let rows = stores.links().missing(org, scan.after.as_deref(), scan.limit).await?;
            let (names, rows): (Vec<String>, Vec<MissingLinkRow>) = rows.into_iter().unzip();
            let is_only_counted = scan.is_page_complete;
            let check = |row: MissingLinkRow| async move {
                match is_only_counted {
                    true => Ok(Some(MissingLink::new(row, Vec::new()))),
                    false => missing(stores, org, row).await,
                }
            };
            let checks: Vec<_> = rows.into_iter().map(check).collect();
            let items: Vec<Option<MissingLink>> =
                futures::stream::iter(checks).buffered(CHECKED_AT_ONCE).try_collect().await?;
            Ok::<Vec<_>, Error>(names.into_iter().zip(items).collect())
        };
        listing.scan(READ_MAX, None, read).await
    }
}

impl MissingLink {
    /// `documents`: one more than are listed, if there are more.
    fn new(row: MissingLinkRow, mut documents: Vec<DocumentId>) -> Self {
        let has_more = documents.len() > LISTED_DOCUMENTS_MAX;
        documents.truncate(LISTED_DOCUMENTS_MAX);
        Self { target: row.target, since: row.since, documents, has_more }
    }
}

/// Returns the target of a row with the documents that refer to it. None: the target is not missing, or another row lists it.
async fn missing(stores: &Stores, org: &OrgId, row: MissingLinkRow) -> Result<Option<MissingLink>> {
    let Some(identity) = row.keys.first() else { return Ok(None) };
    let is_oldest =
        stores.links().first_reference(org, identity).await?.is_some_and(|reference| reference.since == row.since);
    if !is_oldest || resolve(stores, org, &row.keys).await?.status != LinkStatus::Missing {
        return Ok(None);
    }
    let documents = referring(&stores.links(), org, identity).await?;
    Ok((!documents.is_empty()).then(|| MissingLink::new(row, documents)))
}

/// Returns the documents that refer to a target, at most one more than are listed.
async fn referring(links: &LinkStore, org: &OrgId, identity: &LinkKey) -> Result<Vec<DocumentId>> {
    let (mut documents, mut after): (Vec<DocumentId>, Option<String>) = (Vec::new(), None);
    for _ in 0..READ_MAX / READ_REFERENCES {
        let rows = links.references(org, identity, after.as_deref(), READ_REFERENCES).await?;
        let is_last = rows.len() < READ_REFERENCES;
        for (row, reference) in rows {
            let is_of_target = reference.keys.first() == Some(identity);
            if is_of_target && documents.len() <= LISTED_DOCUMENTS_MAX && !documents.contains(&reference.document) {
                documents.push(reference.document);
            }
            after = Some(row);
        }
        if is_last || documents.len() > LISTED_DOCUMENTS_MAX {
            break;
        }
    }
    Ok(documents)
}

/// Stores the links of a document's text again, and resolves them. Ingestion does the same when a text is ready.
#[derive(Debug, Clone, Serialize)]
pub struct ResolveDocumentLinks {
    pub document_id: DocumentId,
}

impl Operation for ResolveDocumentLinks {
    const DECLARATION: Declaration = SERVICE.change("ResolveDocumentLinks").long();
    type Output = LinkReport;

    async fn run(self, context: &Context) -> Result<LinkReport> {
        context.find::<Document>(&self.document_id).await?;
        context.request.record(context.stores(), Target::operation(Self::DECLARATION.name)).await?;
        resolve_links(&context.preview_resources(), &context.principal().org, &self.document_id).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_selects_a_status() {
        assert_eq!(status_filter("").unwrap(), None);
        assert_eq!(status_filter("status:missing").unwrap(), Some(LinkStatus::Missing));
        for bad in ["status:other", "status:not_a_document", "status:missing status:matched", "target:a"] {
            assert_eq!(status_filter(bad).unwrap_err().violations[0].field, "filter", "{bad}");
        }
    }

    #[test]
    fn references_that_are_only_counted_are_not_counted_twice() {
        let (document, since) = (DocumentId::derive(&["a"]), Timestamp::UNIX_EPOCH);
        let keys = vec![LinkKey::Url("https://example.com/a.pdf".to_owned()), LinkKey::Name("a.pdf".to_owned())];
        let reference =
            || LinkingDocument { document: document.clone(), target: "a".to_owned(), keys: keys.clone(), since };
        assert_eq!(counted(&[], reference()).map(|link| link.document.id), Some(document.clone()));
        assert_eq!(counted(&keys[..1], reference()), None);
    }

    #[test]
    fn a_position_is_read_as_it_was_written() {
        let position = ReferencePosition { key: 3, row: "s/0006/doc_0/ab".to_owned() };
        assert_eq!(position.to_string().parse(), Ok(position));
        for bad in ["", "1", "a:b"] {
            assert!(bad.parse::<ReferencePosition>().is_err(), "{bad}");
        }
    }
}
