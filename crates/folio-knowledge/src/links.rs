//! Links of a document: the hyperlinks and references of its text are stored, and resolved against the documents of the
//! organization ([`folio_storage::LinkStore`]). Nothing is read from the network.

use std::collections::BTreeMap;

use folio_resources::{Document, LinkCollector, LinkTarget, TextState, document_keys};
use folio_storage::value::DocumentLink;
use folio_tools::ToolResources;
use folio_tools::links::{LinkStatus, resolve_all};
use folio_types::{DocumentId, Error, OrgId, Result};

/// Number of pages of one read.
const PAGES_AT_ONCE: u32 = 20;

/// The links of a document by status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkReport {
    pub matched: usize,
    pub ambiguous: usize,
    pub missing: usize,
    /// True if the text has more targets than are stored.
    pub is_cut: bool,
}

/// A target of a document with the documents that it refers to: the cross-reference of a chunk or an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossReference {
    pub link: DocumentLink,
    pub documents: Vec<Document>,
}

/// Stores the keys under which other documents find a document, and the links of its text. Links of other documents that the
/// document resolves leave the list of missing ones. Idempotent; a document without text has keys and no links.
///
/// # Errors
/// `NOT_FOUND`, and those of the stores.
pub async fn resolve_links(resources: &ToolResources, org: &OrgId, document: &DocumentId) -> Result<LinkReport> {
    let (stores, links) = (&resources.stores, resources.stores.links());
    let found = stores.of::<Document>().get(org, document).await?;
    let found = found.ok_or_else(|| Error::not_found("document", document))?;
    let (targets, is_cut) = collect(resources, &found).await?.finish();
    links.write_keys(org, document, &document_keys(&found)).await?;
    links.write_links(org, document, targets, resources.environment.now()).await?;
    // The clean-up of a deletion may have been earlier than the writes.
    if stores.of::<Document>().get(org, document).await?.is_none() {
        links.remove_document(org, document).await?;
        return Err(Error::not_found("document", document));
    }
    let mut report = LinkReport { is_cut, ..LinkReport::default() };
    let stored = links.links(org, document).await?;
    for (_, resolution) in resolve_all(stores, org, stored).await? {
        match resolution.status {
            LinkStatus::Matched => report.matched += 1,
            LinkStatus::Ambiguous => report.ambiguous += 1,
            LinkStatus::Missing => report.missing += 1,
            LinkStatus::NotADocument => {}
        }
    }
    Ok(report)
}

/// Returns the links of a document that refer to documents of the organization, in the order of its pages.
pub async fn cross_references(
    resources: &ToolResources,
    org: &OrgId,
    document: &DocumentId,
) -> Result<Vec<CrossReference>> {
    let links = resources.stores.links().links(org, document).await?;
    let resolved = resolve_all(&resources.stores, org, links).await?.into_iter();
    let found = resolved.map(|(link, resolution)| CrossReference { link, documents: resolution.documents });
    Ok(found.filter(|reference| !reference.documents.is_empty()).collect())
}

/// Collects the hyperlinks and the references of a text.
async fn collect(resources: &ToolResources, document: &Document) -> Result<LinkCollector> {
    let (texts, org, id) = (&resources.stores.texts, &document.org, document.id.as_str());
    let mut collector = LinkCollector::default();
    if document.state != TextState::Ready {
        return Ok(collector);
    }
    let mut first = 1;
    while first <= document.pages && !collector.is_cut() {
        let count = PAGES_AT_ONCE.min(document.pages - first + 1);
        let elements = texts.elements(org, id, first, count).await?;
        let mut links: BTreeMap<u32, _> = elements.into_iter().map(|page| (page.number, page.links)).collect();
        for page in texts.text(org, id, first, count).await? {
            for link in links.remove(&page.number).unwrap_or_default() {
                if let LinkTarget::Url(url) = &link.target {
                    collector.add_link(page.number, &link.anchor, url);
                }
            }
            collector.add_text(page.number, &page.text);
        }
        first += count;
    }
    Ok(collector)
}
