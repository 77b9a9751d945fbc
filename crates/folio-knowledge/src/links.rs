//! Links of a document: the hyperlinks and references of its text are stored, and resolved against the documents of the
//! organization ([`folio_storage::LinkStore`]). Nothing is read from the network.

use std::collections::{BTreeMap, BTreeSet};

use folio_passages::LINKED_DOCUMENT;
use folio_resources::{Document, LinkCollector, LinkTarget, TextState, document_keys};
use folio_storage::value::{DocumentLink, StoredPassage};
use folio_tools::ToolResources;
use folio_tools::links::{LinkStatus, resolve_all};
use folio_types::{DocumentId, Error, OrgId, Result};

/// Maximum number of cross-references of a passage.
const REFERENCES_PER_PASSAGE: usize = 8;
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

/// Adds the documents that a passage refers to, to its metadata. A link belongs to the passages of its page that contain its text or
/// its target.
pub(crate) fn add_references(references: &[CrossReference], passages: &mut [StoredPassage]) {
    let mut by_page: BTreeMap<u32, Vec<&CrossReference>> = BTreeMap::new();
    for reference in references {
        by_page.entry(reference.link.page).or_default().push(reference);
    }
    for passage in passages {
        let pages: BTreeSet<u32> = passage.segments.iter().map(|segment| segment.page).collect();
        let on_pages: Vec<&CrossReference> =
            pages.iter().filter_map(|page| by_page.get(page)).flatten().copied().collect();
        if on_pages.is_empty() {
            continue;
        }
        let text = passage.text.split_whitespace().collect::<Vec<_>>().join(" ");
        let contains = |part: &str| !part.is_empty() && text.contains(part);
        let is_in = |reference: &&CrossReference| contains(&reference.link.anchor) || contains(&reference.link.target);
        let documents = on_pages.into_iter().filter(is_in).flat_map(|reference| &reference.documents);
        let ids: BTreeSet<String> = documents.map(|document| document.id.to_string()).collect();
        let pairs = ids.into_iter().take(REFERENCES_PER_PASSAGE).map(|id| (LINKED_DOCUMENT.to_owned(), id));
        passage.metadata_pairs.extend(pairs);
    }
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
        let pages = texts.text(org, id, first, count).await?;
        // The references of long pages would block the other tasks of the thread.
        let collected = tokio::task::spawn_blocking(move || {
            for page in pages {
                for link in links.remove(&page.number).unwrap_or_default() {
                    if let LinkTarget::Url(url) = &link.target {
                        collector.add_link(page.number, &link.anchor, url);
                    }
                }
                collector.add_text(page.number, &page.text);
            }
            collector
        });
        collector = collected
            .await
            .map_err(|error| Error::internal(format!("the references of a text cannot be collected: {error}")))?;
        first += count;
    }
    Ok(collector)
}

#[cfg(test)]
mod tests {
    use folio_resources::{FoundLink, NewDocument};
    use folio_storage::value::StoredSegment;
    use folio_types::{BlobId, Timestamp, UserId};

    use super::*;

    fn document(name: &str) -> Document {
        let new = NewDocument::file(name, "text/plain", b"x", BlobId::derive(&[name]));
        let (id, org) = (DocumentId::derive(&[name]), OrgId::derive(&["org"]));
        Document::uploaded(id, org, &new, UserId::platform(), Timestamp::UNIX_EPOCH)
    }

    fn reference(page: u32, anchor: &str, target: &str) -> CrossReference {
        let mut collector = LinkCollector::default();
        collector.add_link(page, anchor, target);
        let FoundLink { page, anchor, target, keys } = collector.finish().0.remove(0);
        let link = DocumentLink { page, anchor, keys, since: Timestamp::UNIX_EPOCH, target: target.clone() };
        CrossReference { link, documents: vec![document(&target)] }
    }

    fn passage(page: u32, text: &str) -> StoredPassage {
        StoredPassage {
            source_page: page,
            segments: vec![StoredSegment { text_start: 0, page, start: 0, end: 1, is_verbatim: true }],
            ..StoredPassage::of_text(0, text)
        }
    }

    #[test]
    fn a_passage_refers_to_the_documents_of_the_links_in_its_text() {
        let references = [reference(1, "the annex", "a.pdf"), reference(1, "", "b.pdf"), reference(2, "here", "c.pdf")];
        let mut passages = [
            passage(1, "See the\nannex and b.pdf here."),
            passage(1, "Nothing."),
            passage(2, "Click here."),
            passage(3, "the annex, b.pdf, here"),
        ];
        add_references(&references, &mut passages);
        let linked = |names: &[&str]| {
            let mut ids: Vec<String> = names.iter().map(|name| document(name).id.to_string()).collect();
            ids.sort();
            ids.into_iter().map(|id| (LINKED_DOCUMENT.to_owned(), id)).collect::<Vec<_>>()
        };
        let expected = [linked(&["a.pdf", "b.pdf"]), Vec::new(), linked(&["c.pdf"]), Vec::new()];
        assert_eq!(passages.map(|passage| passage.metadata_pairs), expected);

        let many: Vec<CrossReference> = (0..20).map(|number| reference(1, "all", &format!("{number}.pdf"))).collect();
        let mut passages = [passage(1, "all")];
        add_references(&many, &mut passages);
        assert_eq!(passages[0].metadata_pairs.len(), REFERENCES_PER_PASSAGE);
    }
}
