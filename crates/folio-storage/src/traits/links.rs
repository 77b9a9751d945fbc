//! Links between the documents of organizations, as rows of a [`RowStore`].
//!
//! | group | row | content |
//! |---|---|---|
//! | `document_link/DOCUMENT` | digest of the target | a target of the document |
//! | `document_link_key/DOCUMENT` | digest of the key | a key under which the document is found |
//! | `link_key/DIGEST` | `d/DOCUMENT` | a document with the key |
//! | `link_key/DIGEST` | `s/TIME/DOCUMENT/DIGEST` | a document that refers to the key, with the target |
//! | `missing_link/DIGIT` | `TIME/DIGEST` | a target without a document, from the time of its first reference; one group for each first digit of the digest |
//! | `followed_link/ROOT` | `DOCUMENT` | a document that the ingestion of the root followed |
//! | `link_follower/DOCUMENT` | `ROOT` | the reverse of the row above |
//!
//! The groups `link_key` are authoritative: whether a target is missing follows from them, so that a missing target is found when its
//! document arrives, without a scan. A document that arrives writes its row and then reads the references; a document that
//! refers writes its rows and then reads the documents. So at least one of two concurrent writers finds the other. The rows of
//! `missing_link` are an index, which is read in the order of time: a reader checks each of them.
//!
//! All writes are idempotent and have no conditions. The first two groups name every other row of a document, are written before
//! them, and are removed after them. They are written again at the end, because a removal that met the write has removed them, but
//! not the later rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use folio_resources::{FollowedLink, FoundLink, LinkKey, follow_link};
use folio_types::{DocumentId, OrgId, Result, Timestamp};
use futures::{StreamExt as _, TryStreamExt as _};

use super::RowStore;
use crate::value::{
    DocumentLink, DocumentLinkKey, LinkFollower, LinkedDocument, LinkingDocument, MissingLinkRow, Stored as _, decode,
    encode,
};

/// Maximum number of documents of a match. A target that more documents have is ambiguous anyway.
// proto: ResolvedLink.documents "at most {} documents"
pub const MATCHES_MAX: usize = 10;
/// Number of references of one read.
const READ_REFERENCES: usize = 200;
/// Maximum number of references of a key that are read when its documents change, or to find the oldest reference to a target.
/// Readers check the targets of further ones.
const CHANGED_REFERENCES_MAX: usize = 10_000;
/// Maximum number of targets that are written concurrently.
const AT_ONCE: usize = 16;

/// First digits of digests.
const DIGITS: &str = "0123456789abcdef";
const DOCUMENTS: &str = "d/";
const REFERENCES: &str = "s/";

/// The documents that a target refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkMatch {
    /// The key that the target and the documents have in common.
    pub key: LinkKey,
    /// At least one document and at most [`MATCHES_MAX`]. A document may have been deleted since.
    pub documents: Vec<DocumentId>,
}

fn links_of(document: &DocumentId) -> String {
    format!("{}/{document}", DocumentLink::KIND)
}

fn keys_of(document: &DocumentId) -> String {
    format!("{}/{document}", DocumentLinkKey::KIND)
}

fn followed_from(root: &DocumentId) -> String {
    format!("{}/{root}", FollowedLink::KIND)
}

fn followers_of(document: &DocumentId) -> String {
    format!("{}/{document}", LinkFollower::KIND)
}

fn group_of(key: &LinkKey) -> String {
    format!("link_key/{}", key.digest())
}

/// Returns a text whose order is the order of time, with a precision of microseconds.
fn sortable(at: Timestamp) -> String {
    format!("{:016x}", at.as_microsecond().max(0))
}

fn reference_row(document: &DocumentId, link: &DocumentLink, identity: &LinkKey) -> String {
    format!("{REFERENCES}{}/{document}/{}", sortable(link.since), identity.digest())
}

/// Returns the group of the missing targets whose digests begin with a digit, so that their list consists of several partitions.
fn missing_group(digit: &str) -> String {
    format!("{}/{digit}", MissingLinkRow::KIND)
}

fn missing_group_of(identity: &LinkKey) -> String {
    missing_group(identity.digest().get(..1).unwrap_or_default())
}

fn missing_row(since: Timestamp, identity: &LinkKey) -> String {
    format!("{}/{}", sortable(since), identity.digest())
}

/// The links of organizations. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LinkStore(Arc<dyn RowStore>);

impl LinkStore {
    pub fn new(rows: Arc<dyn RowStore>) -> Self {
        Self(rows)
    }

    /// Replaces the keys under which targets find a document. Targets that the document resolves leave the list of missing ones.
    pub async fn write_keys(&self, org: &OrgId, document: &DocumentId, keys: &[LinkKey]) -> Result<()> {
        let stored = self.keys(org, document).await?;
        for key in keys {
            let (row, name) = (key.digest(), encode(&DocumentLinkKey { key: key.clone() })?);
            self.0.put(org, &keys_of(document), &row, name.clone()).await?;
            let value = encode(&LinkedDocument { document: document.clone() })?;
            self.0.put(org, &group_of(key), &format!("{DOCUMENTS}{document}"), value).await?;
            self.0.put(org, &keys_of(document), &row, name).await?;
            self.update_references(org, key).await?;
        }
        for key in stored.iter().filter(|key| !keys.contains(key)) {
            self.remove_key(org, document, key).await?;
            self.0.remove(org, &keys_of(document), &key.digest()).await?;
        }
        Ok(())
    }

    /// Replaces the targets of a document. A target that the document had before keeps the time of its first reference.
    pub async fn write_links(
        &self,
        org: &OrgId,
        document: &DocumentId,
        links: Vec<FoundLink>,
        at: Timestamp,
    ) -> Result<()> {
        let stored = self.links(org, document).await?;
        let since = |identity: Option<&LinkKey>| {
            stored.iter().find(|link| link.keys.first() == identity).map(|link| link.since)
        };
        let new: Vec<DocumentLink> = links
            .into_iter()
            .filter(|link| !link.keys.is_empty())
            .map(|FoundLink { page, anchor, target, keys }| {
                let since = since(keys.first()).unwrap_or(at);
                DocumentLink { page, anchor, target, keys, since }
            })
            .collect();
        let identities: BTreeSet<&LinkKey> = new.iter().filter_map(|link| link.keys.first()).collect();
        // A key of a target may have changed, because the key of the linked text belongs to the target.
        let is_removed = |link: &&DocumentLink| link.keys.first().is_none_or(|identity| !identities.contains(identity));
        let replaced = stored.iter().filter(|link| {
            let kept = new.iter().find(|new| new.keys.first() == link.keys.first());
            kept.is_some_and(|kept| kept.keys != link.keys)
        });
        let removed: Vec<&DocumentLink> = stored.iter().filter(is_removed).chain(replaced).collect();
        let removals: Vec<_> = removed.into_iter().map(|link| self.remove_link(org, document, link)).collect();
        futures::stream::iter(removals).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        let writes: Vec<_> = new.iter().map(|link| self.write_link(org, document, link)).collect();
        futures::stream::iter(writes).buffer_unordered(AT_ONCE).try_collect().await
    }

    async fn write_link(&self, org: &OrgId, document: &DocumentId, link: &DocumentLink) -> Result<()> {
        let Some(identity) = link.keys.first() else { return Ok(()) };
        let name = encode(link)?;
        self.0.put(org, &links_of(document), &identity.digest(), name.clone()).await?;
        let DocumentLink { target, keys, since, .. } = link.clone();
        let reference = encode(&LinkingDocument { document: document.clone(), target, keys, since })?;
        let row = reference_row(document, link, identity);
        for key in &link.keys {
            self.0.put(org, &group_of(key), &row, reference.clone()).await?;
        }
        self.0.put(org, &links_of(document), &identity.digest(), name).await?;
        self.update_missing(org, &link.keys).await
    }

    async fn remove_link(&self, org: &OrgId, document: &DocumentId, link: &DocumentLink) -> Result<()> {
        let Some(identity) = link.keys.first() else { return Ok(()) };
        let row = reference_row(document, link, identity);
        for key in &link.keys {
            self.0.remove(org, &group_of(key), &row).await?;
        }
        self.0.remove(org, &missing_group_of(identity), &missing_row(link.since, identity)).await?;
        self.update_missing(org, &link.keys).await?;
        self.0.remove(org, &links_of(document), &identity.digest()).await
    }

    /// Removes a document from the documents of a key.
    async fn remove_key(&self, org: &OrgId, document: &DocumentId, key: &LinkKey) -> Result<()> {
        self.0.remove(org, &group_of(key), &format!("{DOCUMENTS}{document}")).await?;
        self.update_references(org, key).await
    }

    /// Updates the list of missing targets after a change of the documents of a key.
    async fn update_references(&self, org: &OrgId, key: &LinkKey) -> Result<()> {
        let (mut after, mut updated, mut read): (Option<String>, _, _) = (None, BTreeSet::new(), 0);
        while read < CHANGED_REFERENCES_MAX {
            let found = self.references(org, key, after.as_deref(), READ_REFERENCES).await?;
            let is_last = found.len() < READ_REFERENCES;
            read += found.len();
            for (row, reference) in found {
                if let Some(identity) = reference.keys.first()
                    && updated.insert(identity.clone())
                {
                    self.update_missing(org, &reference.keys).await?;
                }
                after = Some(row);
            }
            if is_last {
                break;
            }
        }
        Ok(())
    }

    /// Adds a target to the list of missing ones, or removes it, by the documents of its keys.
    async fn update_missing(&self, org: &OrgId, keys: &[LinkKey]) -> Result<()> {
        let Some(identity) = keys.first() else { return Ok(()) };
        let Some(first) = self.first_reference(org, identity).await? else { return Ok(()) };
        let (group, row) = (missing_group_of(identity), missing_row(first.since, identity));
        if self.find(org, keys).await?.is_none() {
            let LinkingDocument { target, keys, since, .. } = first;
            self.0.put(org, &group, &row, encode(&MissingLinkRow { target, keys, since })?).await?;
        }
        // A document that arrived after the first read did not find the row.
        match self.find(org, keys).await? {
            Some(_) => self.0.remove(org, &group, &row).await,
            None => Ok(()),
        }
    }

    /// Returns the oldest reference to a target. None: no document refers to it, or the oldest references of its key are those of many
    /// other targets.
    pub async fn first_reference(&self, org: &OrgId, identity: &LinkKey) -> Result<Option<LinkingDocument>> {
        let (mut after, mut read): (Option<String>, usize) = (None, 0);
        while read < CHANGED_REFERENCES_MAX {
            let found = self.references(org, identity, after.as_deref(), READ_REFERENCES).await?;
            let is_last = found.len() < READ_REFERENCES;
            read += found.len();
            after = found.last().map(|(row, _)| row.clone());
            let of_target = found.into_iter().find(|(_, reference)| reference.keys.first() == Some(identity));
            match of_target {
                Some((_, reference)) => return Ok(Some(reference)),
                None if is_last => break,
                None => {}
            }
        }
        Ok(None)
    }

    /// Returns the targets that have a key, after a row, the oldest reference first, at most `limit`. Fewer: no more follow.
    pub async fn references(
        &self,
        org: &OrgId,
        key: &LinkKey,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, LinkingDocument)>> {
        // Every other row of the group is before these.
        let rows = self.0.list_after(org, &group_of(key), after.unwrap_or(REFERENCES), limit).await?;
        rows.into_iter().map(|(row, value)| Ok((row, decode(&value)?))).collect()
    }

    /// Returns the documents that a target refers to: those with the first of its keys that any document has.
    pub async fn find(&self, org: &OrgId, keys: &[LinkKey]) -> Result<Option<LinkMatch>> {
        for key in keys {
            let rows = self.0.list_after(org, &group_of(key), DOCUMENTS, MATCHES_MAX).await?;
            let rows = rows.iter().take_while(|(row, _)| row.starts_with(DOCUMENTS));
            let documents: Vec<DocumentId> =
                rows.map(|(_, value)| Ok(decode::<LinkedDocument>(value)?.document)).collect::<Result<_>>()?;
            if !documents.is_empty() {
                return Ok(Some(LinkMatch { key: key.clone(), documents }));
            }
        }
        Ok(None)
    }

    /// Returns the targets of a document, in the order of its pages.
    pub async fn links(&self, org: &OrgId, document: &DocumentId) -> Result<Vec<DocumentLink>> {
        let rows = self.0.list(org, &links_of(document)).await?;
        let mut links: Vec<DocumentLink> = rows.iter().map(|row| decode(row)).collect::<Result<_>>()?;
        links.sort_by(|one, other| (one.page, &one.target).cmp(&(other.page, &other.target)));
        Ok(links)
    }

    /// Returns the keys under which targets find a document.
    pub async fn keys(&self, org: &OrgId, document: &DocumentId) -> Result<Vec<LinkKey>> {
        let rows = self.0.list(org, &keys_of(document)).await?;
        rows.iter().map(|row| Ok(decode::<DocumentLinkKey>(row)?.key)).collect()
    }

    /// Returns rows of the list of missing targets after a row, the oldest first, at most `limit`. The caller checks each target
    /// with [`Self::find`] and [`Self::first_reference`].
    pub async fn missing(
        &self,
        org: &OrgId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, MissingLinkRow)>> {
        let after = after.unwrap_or_default();
        let reads: Vec<_> = DIGITS
            .split_inclusive(|_: char| true)
            .map(|digit| async move { self.0.list_after(org, &missing_group(digit), after, limit).await })
            .collect();
        let groups: Vec<Vec<(String, Vec<u8>)>> =
            futures::stream::iter(reads).buffer_unordered(AT_ONCE).try_collect().await?;
        let mut rows: Vec<(String, Vec<u8>)> = groups.into_iter().flatten().collect();
        rows.sort();
        rows.truncate(limit);
        rows.into_iter().map(|(row, value)| Ok((row, decode(&value)?))).collect()
    }

    /// Returns the documents that the ingestion of a document followed.
    pub async fn followed(&self, org: &OrgId, root: &DocumentId) -> Result<Vec<FollowedLink>> {
        self.0.list(org, &followed_from(root)).await?.iter().map(|row| decode(row)).collect()
    }

    /// Records that the ingestion of a document, the root, follows a link. Idempotent.
    ///
    /// # Errors
    /// Those of [`follow_link`]. Concurrent calls for one root may exceed the maximum number by as many documents.
    pub async fn follow(
        &self,
        org: &OrgId,
        (root, from): (&DocumentId, &DocumentId),
        document: &DocumentId,
        at: Timestamp,
    ) -> Result<FollowedLink> {
        let link = follow_link(&self.followed(org, root).await?, root, from, document, at)?;
        let follower = encode(&LinkFollower { root: root.clone() })?;
        self.0.put(org, &followers_of(document), root.as_str(), follower).await?;
        self.0.put(org, &followed_from(root), document.as_str(), encode(&link)?).await?;
        Ok(link)
    }

    /// Removes the links from a document and to it. References of other documents to it become missing. Idempotent.
    pub async fn remove_document(&self, org: &OrgId, document: &DocumentId) -> Result<()> {
        for link in self.links(org, document).await? {
            self.remove_link(org, document, &link).await?;
        }
        for key in self.keys(org, document).await? {
            self.remove_key(org, document, &key).await?;
        }
        for followed in self.followed(org, document).await? {
            self.0.remove(org, &followers_of(&followed.document), document.as_str()).await?;
        }
        for row in self.0.list(org, &followers_of(document)).await? {
            let root = decode::<LinkFollower>(&row)?.root;
            self.0.remove(org, &followed_from(&root), document.as_str()).await?;
        }
        for group in [keys_of(document), followed_from(document), followers_of(document)] {
            self.0.remove_group(org, &group).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::super::rows::memory::MemoryRows;
    use super::*;

    #[test]
    fn rows_of_a_write_that_meets_a_removal_are_removed_later() {
        let (org, document) = (OrgId::derive(&["o"]), DocumentId::derive(&["document"]));
        let (key, since) = (LinkKey::Name("annex.pdf".to_owned()), Timestamp::constant(1, 0));
        let (anchor, target) = (String::new(), "annex.pdf".to_owned());
        let link = DocumentLink { page: 1, anchor, target, keys: vec![key.clone()], since };
        let found = FoundLink { page: 1, anchor: String::new(), target: link.target.clone(), keys: link.keys.clone() };
        let reference = format!("{}/{}", group_of(&key), reference_row(&document, &link, &key));
        for row in [reference, format!("{}/{DOCUMENTS}{document}", group_of(&key))] {
            let rows = Arc::new(MemoryRows::default());
            let store = LinkStore::new(rows.clone());
            let (other, of_org, of_document) = (store.clone(), org.clone(), document.clone());
            rows.before(&row, async move { other.remove_document(&of_org, &of_document).await.unwrap() });
            block_on(store.write_links(&org, &document, vec![found.clone()], since)).unwrap();
            block_on(store.write_keys(&org, &document, std::slice::from_ref(&key))).unwrap();
            assert!(rows.names().contains(&row), "{row} is written after the removal");
            block_on(store.remove_document(&org, &document)).unwrap();
            assert_eq!(rows.names(), Vec::<String>::new(), "{row}");
        }
    }

    #[test]
    fn missing_targets_of_all_groups_are_listed_in_the_order_of_time() {
        let (org, rows) = (OrgId::derive(&["o"]), Arc::new(MemoryRows::default()));
        let store = LinkStore::new(rows.clone());
        let name = |second: i64| format!("{second}.pdf");
        for second in 0..40 {
            let document = DocumentId::derive(&[&name(second)]);
            let keys = vec![LinkKey::Name(name(second))];
            let link = FoundLink { page: 1, anchor: String::new(), target: name(second), keys };
            block_on(store.write_links(&org, &document, vec![link], Timestamp::constant(second, 0))).unwrap();
        }
        let groups: BTreeSet<String> = rows.names().iter().map(|name| name.split('/').take(2).collect()).collect();
        let missing = groups.iter().filter(|group| group.starts_with(MissingLinkRow::KIND)).count();
        assert!(missing > 4, "{missing} groups");
        let (mut found, mut after) = (Vec::new(), None::<String>);
        loop {
            let page = block_on(store.missing(&org, after.as_deref(), 7)).unwrap();
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            assert!(page.len() <= 7);
            found.extend(page.into_iter().map(|(_, row)| row.target));
        }
        assert_eq!(found, (0..40).map(name).collect::<Vec<_>>());
    }

    #[test]
    fn invariant_10_the_oldest_reference_to_a_target_is_searched_within_a_bound() {
        let (org, name) = (OrgId::derive(&["o"]), LinkKey::Name("annex.pdf".to_owned()));
        let store = LinkStore::new(Arc::new(MemoryRows::default()));
        let refer = |second: i64, keys: Vec<LinkKey>| {
            let (document, since) = (DocumentId::derive(&[&second.to_string()]), Timestamp::constant(second, 0));
            let (anchor, target) = (String::new(), "annex.pdf".to_owned());
            let link = DocumentLink { page: 1, anchor, target: target.clone(), keys: keys.clone(), since };
            let row = reference_row(&document, &link, &keys[0]);
            let value = encode(&LinkingDocument { document, target, keys, since }).unwrap();
            block_on(store.0.put(&org, &group_of(&name), &row, value)).unwrap();
        };
        let others = i64::try_from(CHANGED_REFERENCES_MAX).unwrap();
        for second in 0..others {
            refer(second, vec![LinkKey::Url(format!("example.com/{second}/annex.pdf")), name.clone()]);
        }
        refer(others, vec![name.clone()]);
        assert_eq!(block_on(store.first_reference(&org, &name)).unwrap(), None);
    }

    #[test]
    fn rows_of_references_are_in_the_order_of_time_and_after_those_of_documents() {
        let document = DocumentId::derive(&["document"]);
        let key = LinkKey::Name("annex.pdf".to_owned());
        let row = |second| {
            let since = Timestamp::constant(second, 0);
            let link =
                DocumentLink { page: 1, anchor: String::new(), target: String::new(), keys: vec![key.clone()], since };
            reference_row(&document, &link, &key)
        };
        assert!(row(1) < row(2) && row(2) < row(1_790_000_000));
        assert!(row(1).as_str() > REFERENCES && format!("{DOCUMENTS}{document}").as_str() < REFERENCES);
        assert!(missing_row(Timestamp::constant(1, 0), &key) < missing_row(Timestamp::constant(2, 0), &key));
    }
}
