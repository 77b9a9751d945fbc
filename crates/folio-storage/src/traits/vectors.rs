//! Cache of the vectors of texts, as rows of a [`RowStore`].
//!
//! An organization has [`VECTOR_SLOTS`] slots, and the digest of a text selects its slot: a vector replaces the vector of
//! another text in the same slot. So the cache needs neither a count nor a list, and an organization cannot exceed its
//! bound. A vector of a passage is removed with the document of the passage. Every vector can be computed again, so
//! writes have no conditions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use folio_types::{Digest, DocumentId, OrgId, Result};
use futures::{StreamExt as _, TryStreamExt as _};

use super::RowStore;
use crate::value::{CachedVector, CachedVectorSlot, Stored as _, decode, encode};

/// Number of cached vectors of an organization. A vector of 1,536 numbers needs about 8 KiB, so that an organization has at
/// most 64 MiB of them.
pub const VECTOR_SLOTS: u16 = 8_192;
/// Number of slots in a group of rows.
const GROUP_SLOTS: u16 = 256;
/// Maximum number of rows or groups that are read or written concurrently.
const AT_ONCE: usize = 16;

/// The key of a vector: the digest of the text and of the identity of the vectors that can be compared with the vector.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VectorKey(String);

impl VectorKey {
    pub fn new(space: &str, text: &str) -> Self {
        let space = Digest::of(space.as_bytes());
        Self(Digest::of(format!("{}{text}", space.as_str()).as_bytes()).as_str().to_owned())
    }

    /// Returns the digest in hexadecimal notation.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn slot(&self) -> u16 {
        let digits = self.0.get(..4).unwrap_or_default();
        u16::from_str_radix(digits, 16).unwrap_or_default() % VECTOR_SLOTS
    }
}

fn group_of(slot: u16) -> String {
    format!("{}/{:02x}", CachedVector::KIND, slot / GROUP_SLOTS)
}

fn row_of(slot: u16) -> String {
    format!("{slot:04x}")
}

/// Returns the group of the slots that the vectors of a document have used.
fn group_of_document(document: &DocumentId) -> String {
    format!("{}/{document}", CachedVectorSlot::KIND)
}

/// The cached vectors of organizations. Cheap to clone.
#[derive(Debug, Clone)]
pub struct VectorCache(Arc<dyn RowStore>);

impl VectorCache {
    pub fn new(rows: Arc<dyn RowStore>) -> Self {
        Self(rows)
    }

    /// Returns the cached vectors. Costs one read per row: at most one for each key.
    pub async fn get(&self, org: &OrgId, keys: &[VectorKey]) -> Result<BTreeMap<VectorKey, Vec<f32>>> {
        let requested: BTreeSet<&str> = keys.iter().map(VectorKey::as_str).collect();
        let rows = self.rows(org, keys.iter().map(VectorKey::slot).collect()).await?;
        let found = rows.into_iter().filter(|(_, row)| requested.contains(row.digest.as_str()));
        Ok(found.map(|(_, row)| (VectorKey(row.digest), row.vector)).collect())
    }

    /// Stores vectors. `document`: the document whose passages the texts are. None: the texts belong to no document. A write
    /// may be lost if the machine loses power.
    ///
    /// # Errors
    /// `OVERLOADED` while the disk of the store has too little free space.
    pub async fn put(
        &self,
        org: &OrgId,
        document: Option<&DocumentId>,
        vectors: &[(VectorKey, Vec<f32>)],
    ) -> Result<()> {
        self.0.check_space().await?;
        let write = |(key, vector): &(VectorKey, Vec<f32>)| {
            let (slot, digest) = (key.slot(), key.0.clone());
            let row = CachedVector { digest, document: document.cloned(), vector: vector.clone() };
            async move {
                if let Some(document) = &row.document {
                    let (group, used) = (group_of_document(document), encode(&CachedVectorSlot { slot })?);
                    self.0.put(org, &group, &row_of(slot), used).await?;
                }
                self.0.put(org, &group_of(slot), &row_of(slot), encode(&row)?).await
            }
        };
        // Collected, because a stream of borrowed vectors is not general enough for the bounds of a task.
        let writes: Vec<_> = vectors.iter().map(write).collect();
        futures::stream::iter(writes).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Removes the vectors of a document. Idempotent.
    pub async fn remove_document(&self, org: &OrgId, document: &DocumentId) -> Result<()> {
        let group = group_of_document(document);
        let used = self.0.list(org, &group).await?;
        if used.is_empty() {
            return Ok(());
        }
        let slots = used.iter().map(|row| Ok(decode::<CachedVectorSlot>(row)?.slot)).collect::<Result<_>>()?;
        self.remove_slots(org, document, slots).await?;
        self.0.remove_group(org, &group).await
    }

    /// Removes the vectors of a document, also those that its writer has just stored. A clean-up may have removed the list of the
    /// slots before the writer stored the vectors. Idempotent.
    pub async fn remove_written(
        &self,
        org: &OrgId,
        document: &DocumentId,
        vectors: &[(VectorKey, Vec<f32>)],
    ) -> Result<()> {
        self.remove_slots(org, document, vectors.iter().map(|(key, _)| key.slot()).collect()).await?;
        self.remove_document(org, document).await
    }

    /// Empties those of the slots whose vectors belong to a document.
    async fn remove_slots(&self, org: &OrgId, document: &DocumentId, slots: BTreeSet<u16>) -> Result<()> {
        let rows = self.rows(org, slots).await?;
        let of_document = rows.into_iter().filter(|(_, row)| row.document.as_ref() == Some(document));
        let removals: Vec<_> = of_document
            .map(|(slot, _)| async move { self.0.remove(org, &group_of(slot), &row_of(slot)).await })
            .collect();
        futures::stream::iter(removals).buffer_unordered(AT_ONCE).try_collect::<()>().await
    }

    /// Returns the rows of slots, without empty slots.
    async fn rows(&self, org: &OrgId, slots: BTreeSet<u16>) -> Result<Vec<(u16, CachedVector)>> {
        let mut groups: BTreeMap<String, Vec<u16>> = BTreeMap::new();
        for slot in slots {
            groups.entry(group_of(slot)).or_default().push(slot);
        }
        let reads: Vec<_> = groups
            .into_iter()
            .map(|(group, slots)| async move {
                let keys: Vec<String> = slots.iter().map(|slot| row_of(*slot)).collect();
                let rows = self.0.get(org, &group, &keys).await?;
                let rows = slots.into_iter().zip(rows).filter_map(|(slot, row)| Some((slot, row?)));
                rows.map(|(slot, row)| Ok((slot, decode::<CachedVector>(&row)?))).collect::<Result<Vec<_>>>()
            })
            .collect();
        let found: Vec<Vec<_>> = futures::stream::iter(reads).buffer_unordered(AT_ONCE).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_depends_on_the_text_and_the_vector_space() {
        let key = VectorKey::new("own/vectors/512", "text");
        assert_eq!(key, VectorKey::new("own/vectors/512", "text"));
        for other in [VectorKey::new("own/vectors/51", "2text"), VectorKey::new("own/vectors/512", "text ")] {
            assert_ne!(key, other);
        }
        assert!(key.slot() < VECTOR_SLOTS);
    }

    #[test]
    fn a_slot_belongs_to_one_of_few_groups() {
        let groups: BTreeSet<_> = (0..VECTOR_SLOTS).map(group_of).collect();
        assert_eq!(groups.len(), usize::from(VECTOR_SLOTS / GROUP_SLOTS));
    }
}
