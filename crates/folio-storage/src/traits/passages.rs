//! Passages of documents, as rows of a [`RowStore`].
//!
//! A document has at most one live generation of passages, which its head names.
//!
//! | step of a write | purpose |
//! |---|---|
//! | row of the generation | after a crash, the passages of the generation are found and removed |
//! | passages, in groups of 500 | bounded partitions |
//! | row of the generation again | a removal that met the writes has removed the row, but not the later passages |
//! | bucket of the head | a list of the heads reads the buckets in use only |
//! | head, conditional on the head before it | the generation becomes live; of two concurrent writes the later generation wins |
//! | removal of earlier generations | |
//!
//! Each step may be repeated. A write that was interrupted before its head leaves a generation that the next write of the
//! document removes.

use std::collections::BTreeMap;
use std::sync::Arc;

use folio_types::{Digest, DocumentId, Error, JobId, OrgId, Reason, Result};
use futures::{StreamExt as _, TryStreamExt as _};

use super::{ConditionalRow, RowStore};
use crate::UnreadableRecords;
use crate::value::{
    LastIngestion, PassageBucket, PassageGeneration, PassageHead, ServingSpace, Stored as _, StoredPassage, decode,
    encode,
};

/// Maximum number of passages of a document.
pub const DOCUMENT_PASSAGES_MAX: u32 = 20_000;
/// Maximum number of passages that one [`PassageStore::read`] returns.
pub const READ_PASSAGES_MAX: usize = 1_000;
/// Maximum number of heads that one [`PassageStore::heads`] returns.
pub const LISTED_HEADS_MAX: usize = 1_000;
/// Maximum size in bytes of the text of a passage, and of its padding.
const TEXT_BYTES: usize = 128 * 1024;
/// Number of passages in a group of rows.
const GROUP_PASSAGES: u32 = 500;
/// Maximum number of rows or groups that are read or written concurrently.
const AT_ONCE: usize = 16;
/// Maximum attempts of a conditional write that meets other writes.
const ATTEMPTS: usize = 8;
/// The key of the only row of a group.
const ONLY: &str = "only";

/// The result of a write of passages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassagesWritten {
    /// The generation is live.
    Live,
    /// The document has a later generation. Nothing of the write remains.
    Superseded,
}

/// Passages of organizations. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PassageStore(Arc<dyn RowStore>, UnreadableRecords);

/// Returns the bucket of a document's head: the first two digits of the digest of its id.
fn bucket_of(document: &DocumentId) -> u8 {
    let digest = Digest::of(document.as_str().as_bytes());
    digest.as_str().get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()).unwrap_or_default()
}

fn group_of_heads(bucket: u8) -> String {
    format!("{}/{bucket:02x}", PassageHead::KIND)
}

fn group_of_ingestions(bucket: u8) -> String {
    format!("{}/{bucket:02x}", LastIngestion::KIND)
}

fn group_of_generations(document: &DocumentId) -> String {
    format!("{}/{document}", PassageGeneration::KIND)
}

fn group_of_passages(document: &DocumentId, generation: u64, group: u32) -> String {
    format!("{}/{document}/{generation:016x}/{group:04}", StoredPassage::KIND)
}

fn row_of(number: u32) -> String {
    format!("{number:08}")
}

fn row_of_generation(generation: u64) -> String {
    format!("{generation:016x}")
}

/// Checks the bounds of passages before any of them is written.
fn check(head: &PassageHead, passages: &[StoredPassage]) -> Result<()> {
    if head.passages > DOCUMENT_PASSAGES_MAX {
        let problem = format!("are {}; a document has at most {DOCUMENT_PASSAGES_MAX}", head.passages);
        return Err(Error::invalid_field("passages", problem).with_reason(Reason::TooLarge));
    }
    if let Some(large) = passages.iter().find(|passage| passage.text.len().max(passage.padding.len()) > TEXT_BYTES) {
        let problem = format!("have more than {TEXT_BYTES} bytes of text or padding in number {}", large.number);
        return Err(Error::invalid_field("passages", problem).with_reason(Reason::TooLarge));
    }
    let is_complete = (0..head.passages).eq(passages.iter().map(|passage| passage.number));
    if is_complete { Ok(()) } else { Err(Error::internal("the numbers of passages have gaps")) }
}

fn too_many_writes(document: &DocumentId) -> Error {
    let message = format!("too many concurrent writes of the passages of {document}; retry");
    Error::version_conflict(message)
}

impl PassageStore {
    pub fn new(rows: Arc<dyn RowStore>, unreadable: UnreadableRecords) -> Self {
        Self(rows, unreadable)
    }

    /// Returns the live generation of a document. None: the document has no passages.
    pub async fn head(&self, org: &OrgId, document: &DocumentId) -> Result<Option<PassageHead>> {
        Ok(self.heads_of(org, std::slice::from_ref(document)).await?.pop().flatten())
    }

    /// Returns the live generations of documents, in the order of `documents`.
    pub async fn heads_of(&self, org: &OrgId, documents: &[DocumentId]) -> Result<Vec<Option<PassageHead>>> {
        let mut buckets: BTreeMap<u8, Vec<String>> = BTreeMap::new();
        for document in documents {
            buckets.entry(bucket_of(document)).or_default().push(document.to_string());
        }
        let reads: Vec<_> = buckets
            .into_iter()
            .map(|(bucket, keys)| async move { self.0.get(org, &group_of_heads(bucket), &keys).await })
            .collect();
        let rows: Vec<Vec<Option<Vec<u8>>>> =
            futures::stream::iter(reads).buffer_unordered(AT_ONCE).try_collect().await?;
        let heads = rows.into_iter().flatten().flatten().map(|row| {
            let head: PassageHead = decode(&row)?;
            Ok((head.document.clone(), head))
        });
        let heads = heads.collect::<Result<BTreeMap<DocumentId, PassageHead>>>()?;
        Ok(documents.iter().map(|document| heads.get(document).cloned()).collect())
    }

    /// Returns the largest number of the stored generations of a document, also of those that are not live: writes in progress,
    /// and writes that were interrupted before their head. None: the document has no generation.
    pub async fn newest_generation(&self, org: &OrgId, document: &DocumentId) -> Result<Option<u64>> {
        let rows = self.0.list(org, &group_of_generations(document)).await?;
        let numbers = rows.iter().map(|row| Ok(decode::<PassageGeneration>(row)?.generation));
        Ok(numbers.collect::<Result<Vec<u64>>>()?.into_iter().max())
    }

    /// Makes a generation of passages live, unless the document has a later one, and removes all earlier generations.
    /// Idempotent. `passages`: all passages of the document, in order.
    ///
    /// # Errors
    /// `TOO_LARGE` beyond the bounds. `VERSION_CONFLICT` if too many writes of the document meet. `OVERLOADED` while the disk of the
    /// store has too little free space.
    pub async fn write(&self, org: &OrgId, head: &PassageHead, passages: &[StoredPassage]) -> Result<PassagesWritten> {
        check(head, passages)?;
        if !passages.is_empty() {
            self.0.check_space().await?;
        }
        let PassageHead { document, generation, .. } = head;
        let stored = PassageGeneration { generation: *generation, passages: head.passages };
        let (group, key) = (group_of_generations(document), row_of_generation(*generation));
        let row = encode(&stored)?;
        self.0.put(org, &group, &key, row.clone()).await?;
        // Collected, because a stream of borrowed passages is not general enough for the bounds of a task. A passage is encoded
        // when its write begins.
        let writes: Vec<_> = passages
            .iter()
            .map(|passage| async move {
                let group = group_of_passages(document, *generation, passage.number / GROUP_PASSAGES);
                self.0.put(org, &group, &row_of(passage.number), encode(passage)?).await
            })
            .collect();
        futures::stream::iter(writes).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        self.0.put(org, &group, &key, row).await?;
        let written = self.set_head(org, head).await?;
        if written == PassagesWritten::Superseded {
            self.remove_generation(org, document, stored).await?;
        }
        self.remove_former(org, document).await?;
        Ok(written)
    }

    async fn set_head(&self, org: &OrgId, head: &PassageHead) -> Result<PassagesWritten> {
        let (bucket, after) = (bucket_of(&head.document), encode(head)?);
        let row = encode(&PassageBucket { bucket })?;
        self.0.put(org, PassageBucket::KIND, &format!("{bucket:02x}"), row).await?;
        let (group, key) = (group_of_heads(bucket), head.document.to_string());
        for _ in 0..ATTEMPTS {
            let before = self.0.get(org, &group, std::slice::from_ref(&key)).await?.pop().flatten();
            if before.as_ref() == Some(&after) {
                return Ok(PassagesWritten::Live);
            }
            let live = before.as_deref().map(decode::<PassageHead>).transpose()?;
            if live.is_some_and(|live| live.generation > head.generation) {
                return Ok(PassagesWritten::Superseded);
            }
            let (group, key, after) = (group.clone(), key.clone(), after.clone());
            if self.0.compare_and_set(org, ConditionalRow { group, key, before, after, guard: None }).await? {
                return Ok(PassagesWritten::Live);
            }
        }
        Err(too_many_writes(&head.document))
    }

    /// Returns passages of a generation, in the order of `numbers`, without those that do not exist. The result is empty if the
    /// generation was removed.
    ///
    /// # Errors
    /// `TOO_LARGE` for more than [`READ_PASSAGES_MAX`] numbers.
    pub async fn read(
        &self,
        org: &OrgId,
        document: &DocumentId,
        generation: u64,
        numbers: &[u32],
    ) -> Result<Vec<StoredPassage>> {
        if numbers.len() > READ_PASSAGES_MAX {
            let problem = format!("are {}; at most {READ_PASSAGES_MAX} passages are read at a time", numbers.len());
            return Err(Error::invalid_field("numbers", problem).with_reason(Reason::TooLarge));
        }
        let mut groups: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for number in numbers {
            groups.entry(number / GROUP_PASSAGES).or_default().push(row_of(*number));
        }
        let reads: Vec<_> = groups
            .into_iter()
            .map(|(group, keys)| async move {
                self.0.get(org, &group_of_passages(document, generation, group), &keys).await
            })
            .collect();
        let rows: Vec<Vec<Option<Vec<u8>>>> =
            futures::stream::iter(reads).buffer_unordered(AT_ONCE).try_collect().await?;
        let passages = rows.into_iter().flatten().flatten().map(|row| {
            let passage: StoredPassage = decode(&row)?;
            Ok((passage.number, passage))
        });
        let passages = passages.collect::<Result<BTreeMap<u32, StoredPassage>>>()?;
        Ok(numbers.iter().filter_map(|number| passages.get(number).cloned()).collect())
    }

    /// Returns heads in a fixed order, from that after `after` on, at most `limit`. The result is empty only at the end.
    ///
    /// # Errors
    /// `INVALID_FIELD` for a limit of 0 or beyond [`LISTED_HEADS_MAX`].
    pub async fn heads(&self, org: &OrgId, after: Option<&DocumentId>, limit: usize) -> Result<Vec<PassageHead>> {
        if !(1..=LISTED_HEADS_MAX).contains(&limit) {
            return Err(Error::invalid_field("limit", format!("is {limit}; the limit is 1 to {LISTED_HEADS_MAX}")));
        }
        let first = after.map(bucket_of);
        let mut found = Vec::new();
        for bucket in self.buckets(org).await? {
            if first.is_some_and(|first| bucket < first) {
                continue;
            }
            let after = after.filter(|_| first == Some(bucket));
            let heads = self.heads_in(org, bucket).await?;
            found.extend(heads.into_iter().filter(|head| after.is_none_or(|after| head.document > *after)));
            if found.len() >= limit {
                break;
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Returns the buckets of heads that contain or contained one, in order. Empty: the organization never had passages.
    pub async fn buckets(&self, org: &OrgId) -> Result<Vec<u8>> {
        let rows = self.0.list(org, PassageBucket::KIND).await?;
        rows.iter().map(|row| Ok(decode::<PassageBucket>(row)?.bucket)).collect()
    }

    /// Returns the heads in a bucket, in the order of their documents. Skips unreadable ones.
    pub async fn heads_in(&self, org: &OrgId, bucket: u8) -> Result<Vec<PassageHead>> {
        let mut heads = Vec::new();
        for row in self.0.list(org, &group_of_heads(bucket)).await? {
            let head = decode::<PassageHead>(&row);
            heads.extend(self.1.skip(format_args!("passages in bucket {bucket:02x} of {org}"), head)?);
        }
        Ok(heads)
    }

    /// Returns the newest job that ingests a document. None: no job was created for it.
    pub async fn last_ingestion(&self, org: &OrgId, document: &DocumentId) -> Result<Option<LastIngestion>> {
        let group = group_of_ingestions(bucket_of(document));
        let row = self.0.get(org, &group, &[document.to_string()]).await?.pop().flatten();
        row.as_deref().map(decode).transpose()
    }

    /// Records the job that ingests documents, which the caller then creates. The items of the job are the documents, in order.
    pub async fn set_last_ingestion(&self, org: &OrgId, job: &JobId, documents: &[DocumentId]) -> Result<()> {
        // Collected, because a stream of borrowed documents is not general enough for the bounds of a task.
        let writes: Vec<_> = (1..)
            .zip(documents)
            .map(|(item, document)| async move {
                let row = encode(&LastIngestion { job: job.clone(), item })?;
                self.0.put(org, &group_of_ingestions(bucket_of(document)), document.as_str(), row).await
            })
            .collect();
        futures::stream::iter(writes).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Removes all passages of a deleted document, and the record of its newest job. Idempotent. The caller removes them again
    /// once no process writes passages of the document.
    pub async fn remove(&self, org: &OrgId, document: &DocumentId) -> Result<()> {
        self.0.remove(org, &group_of_ingestions(bucket_of(document)), document.as_str()).await?;
        self.remove_passages(org, document).await
    }

    /// Removes all passages of a document, first the head. Idempotent. The record of its newest job remains.
    ///
    /// # Errors
    /// `VERSION_CONFLICT` if too many writes of the document meet.
    pub async fn remove_passages(&self, org: &OrgId, document: &DocumentId) -> Result<()> {
        self.remove_head(org, document).await?;
        self.remove_former(org, document).await
    }

    async fn remove_head(&self, org: &OrgId, document: &DocumentId) -> Result<()> {
        let (group, key) = (group_of_heads(bucket_of(document)), document.to_string());
        for _ in 0..ATTEMPTS {
            let stored = self.0.get(org, &group, std::slice::from_ref(&key)).await?.pop().flatten();
            let Some(before) = stored else { return Ok(()) };
            if self.0.compare_and_remove(org, &group, &key, before).await? {
                return Ok(());
            }
        }
        Err(too_many_writes(document))
    }

    /// Removes all passages of a document, also those of a generation that the caller has just written: a removal that met the write
    /// may have removed the row that names the generation. Idempotent.
    pub async fn remove_written(&self, org: &OrgId, head: &PassageHead) -> Result<()> {
        self.remove(org, &head.document).await?;
        let PassageHead { document, generation, passages, .. } = head;
        let written = PassageGeneration { generation: *generation, passages: *passages };
        self.remove_generation(org, document, written).await
    }

    /// Removes the generations of a document before the live one, also those of interrupted writes. A later generation may be in
    /// progress and remains. Without a live generation, all are removed.
    pub async fn remove_former(&self, org: &OrgId, document: &DocumentId) -> Result<()> {
        let group = group_of_generations(document);
        let live = self.head(org, document).await?.map(|head| head.generation);
        for row in self.0.list(org, &group).await? {
            let stored: PassageGeneration = decode(&row)?;
            if live.is_none_or(|live| stored.generation < live) {
                self.remove_generation(org, document, stored).await?;
            }
        }
        Ok(())
    }

    /// Removes the passages of a generation, and then its row.
    async fn remove_generation(&self, org: &OrgId, document: &DocumentId, stored: PassageGeneration) -> Result<()> {
        let PassageGeneration { generation, passages } = stored;
        for part in 0..passages.div_ceil(GROUP_PASSAGES) {
            self.0.remove_group(org, &group_of_passages(document, generation, part)).await?;
        }
        self.0.remove(org, &group_of_generations(document), &row_of_generation(generation)).await
    }

    /// Returns the vector space in which searches of an organization are made. None: no passage has a vector.
    pub async fn serving_space(&self, org: &OrgId) -> Result<Option<ServingSpace>> {
        let row = self.0.get(org, ServingSpace::KIND, &[ONLY.to_owned()]).await?.pop().flatten();
        row.as_deref().map(decode).transpose()
    }

    /// Replaces the vector space in which searches are made. Returns false if it is not `before`.
    pub async fn set_serving_space(
        &self,
        org: &OrgId,
        before: Option<&ServingSpace>,
        after: &ServingSpace,
    ) -> Result<bool> {
        let row = ConditionalRow {
            group: ServingSpace::KIND.to_owned(),
            key: ONLY.to_owned(),
            before: before.map(encode).transpose()?,
            after: encode(after)?,
            guard: None,
        };
        self.0.compare_and_set(org, row).await
    }
}

#[cfg(test)]
mod tests {
    use folio_types::Timestamp;
    use futures::executor::block_on;

    use super::super::rows::memory::MemoryRows;
    use super::*;

    fn head(passages: u32) -> PassageHead {
        let document = DocumentId::derive(&["a"]);
        let (text_generation, created_at) = (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
        PassageHead { document, generation: 1, passages, space: None, text_generation, created_at }
    }

    fn passage(number: u32) -> StoredPassage {
        StoredPassage::of_text(number, "a")
    }

    #[test]
    fn passages_out_of_bounds_or_with_gaps_are_refused() {
        assert!(check(&head(0), &[]).is_ok());
        assert!(check(&head(2), &[passage(0), passage(1)]).is_ok());
        assert!(check(&head(2), &[passage(0)]).is_err());
        assert!(check(&head(2), &[passage(0), passage(2)]).is_err());
        assert!(check(&head(1), &[passage(1)]).is_err());
        assert!(check(&head(DOCUMENT_PASSAGES_MAX + 1), &[]).is_err());
        let long = "a".repeat(TEXT_BYTES + 1);
        assert!(check(&head(1), &[StoredPassage { text: long.clone(), ..passage(0) }]).is_err());
        assert!(check(&head(1), &[StoredPassage { padding: long, ..passage(0) }]).is_err());
    }

    #[test]
    fn rows_sort_by_number_and_generation() {
        assert!(row_of(9) < row_of(10) && row_of_generation(0xff) < row_of_generation(0x100));
        const { assert!(DOCUMENT_PASSAGES_MAX < 100_000_000) };
    }
    /// Returns the rows of an organization in which `other` runs while a first generation of two passages is written: after
    /// the first passage was stored, and before the second one.
    fn interrupted<F>(other: impl FnOnce(PassageStore) -> F) -> (Arc<MemoryRows>, PassageStore)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let rows = Arc::new(MemoryRows::default());
        let store = PassageStore::new(rows.clone(), UnreadableRecords::default());
        let second = format!("{}/{}", group_of_passages(&head(2).document, 1, 0), row_of(1));
        rows.before(&second, other(store.clone()));
        (rows, store)
    }

    fn org() -> OrgId {
        OrgId::derive(&["o"])
    }

    #[test]
    fn an_unreadable_head_hides_no_other_document_in_lists() {
        let (rows, unreadable) = (Arc::new(MemoryRows::default()), UnreadableRecords::default());
        let store = PassageStore::new(rows.clone(), unreadable.clone());
        block_on(async {
            store.write(&org(), &head(1), &[passage(0)]).await.unwrap();
            let bucket = bucket_of(&head(1).document);
            rows.put(&org(), &group_of_heads(bucket), "0", b"damaged".to_vec()).await.unwrap();
            for _ in 0..2 {
                assert_eq!(store.heads(&org(), None, 10).await.unwrap(), [head(1)]);
            }
        });
        assert_eq!(unreadable.count(), 1);
    }

    /// Returns true if no row of the passages of the first generation exists, and no row that names it.
    fn is_removed(rows: &MemoryRows) -> bool {
        let (document, generation) = (head(2).document, row_of_generation(1));
        let passages = group_of_passages(&document, 1, 0);
        let named = format!("{}/{generation}", group_of_generations(&document));
        rows.names().iter().all(|name| !name.starts_with(&passages) && *name != named)
    }

    #[test]
    fn a_write_that_meets_a_later_one_leaves_nothing() {
        let (rows, store) = interrupted(|store| async move {
            let later = PassageHead { generation: 2, ..head(1) };
            assert_eq!(store.write(&org(), &later, &[passage(0)]).await.unwrap(), PassagesWritten::Live);
        });
        let written = block_on(store.write(&org(), &head(2), &[passage(0), passage(1)])).unwrap();
        assert_eq!(written, PassagesWritten::Superseded);
        assert!(is_removed(&rows), "{:?}", rows.names());
        let live = block_on(store.head(&org(), &head(2).document)).unwrap();
        assert_eq!(live.map(|live| live.generation), Some(2));
    }

    #[test]
    fn passages_of_a_write_that_meets_a_removal_are_removed_later() {
        let removal = |store: PassageStore| async move { store.remove(&org(), &head(2).document).await.unwrap() };
        for is_writer in [false, true] {
            let (rows, store) = interrupted(removal);
            let written = block_on(store.write(&org(), &head(2), &[passage(0), passage(1)])).unwrap();
            assert_eq!(written, PassagesWritten::Live);
            assert!(!is_removed(&rows));
            block_on(async {
                match is_writer {
                    true => store.remove_written(&org(), &head(2)).await,
                    false => store.remove(&org(), &head(2).document).await,
                }
            })
            .unwrap();
            assert!(is_removed(&rows), "{is_writer}: {:?}", rows.names());
        }
    }
}
