//! Images that users upload for messages: their bytes as blobs, and their threads as rows of a [`RowStore`].
//!
//! | row | group | written |
//! |---|---|---|
//! | the image, its user, its threads | `message_image/OWNER` | under the condition that the row is unchanged |
//! | an image of a thread | `thread_image/THREAD` | without a condition, before the thread becomes one of the image |
//!
//! An image is stored once for all threads that contain it: a fork adds a thread to the image. The image is removed with its last thread.
//! The removal first marks the row, under the condition that no thread was added meanwhile, so that an image is never removed while a fork
//! adds a thread. An image without a thread was uploaded and not sent: the search for orphaned bytes removes it after a day.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use folio_types::limits::{IMAGE_THREADS_MAX, MODEL_IMAGE_BYTES};
use folio_types::message::MessageImage;
use folio_types::{
    BlobId, BlobKey, Digest, DocumentId, Error, MessageImageId, OrgId, Reason, Result, ThreadId, Timestamp,
    UnknownFields, UserId,
};

use super::{BlobStore, ConditionalRow, ResourceExecutor, RowStore, ThreadStore};
use crate::value::{MessageImageRow, Stored as _, ThreadImage, decode, encode};

/// Maximum attempts of a change that meets other changes.
const ATTEMPTS: usize = 32;
/// Key of the only row of an image.
const ROW: &str = "image";

/// Returns the id under which the blob store stores an image, instead of that of a document.
fn owner(image: &MessageImageId) -> DocumentId {
    DocumentId::derive(&["message image", image.as_str()])
}

/// Returns the blob of an image among those of its owner. No document has a blob with this id.
fn blob() -> BlobId {
    BlobId::derive(&["message image"])
}

fn blob_key(org: &OrgId, owner: DocumentId) -> BlobKey {
    BlobKey { org: org.clone(), document: owner, blob: blob() }
}

fn group_of(owner: &DocumentId) -> String {
    format!("{}/{owner}", MessageImageRow::KIND)
}

fn group_of_thread(thread: &ThreadId) -> String {
    format!("{}/{thread}", ThreadImage::KIND)
}

/// The images of the messages of organizations. Cheap to clone.
#[derive(Clone)]
pub struct MessageImageStore {
    pub(super) rows: Arc<dyn RowStore>,
    pub(super) blobs: Arc<dyn BlobStore>,
    pub(super) resources: Arc<dyn ResourceExecutor>,
    pub(super) threads: Arc<dyn ThreadStore>,
}

impl std::fmt::Debug for MessageImageStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MessageImageStore")
    }
}

impl MessageImageStore {
    /// Returns an image. None: it does not exist, or is being removed.
    pub async fn get(&self, org: &OrgId, image: &MessageImageId) -> Result<Option<MessageImageRow>> {
        let found = self.row(org, &owner(image)).await?.map(|(_, row)| row);
        Ok(found.filter(|row| !row.is_removed))
    }

    /// Stores an uploaded image. Its size is stored first, so that no image is missing in the sum, and its row last, so that an image with
    /// a row has bytes. An image with the same id is kept.
    pub async fn store(
        &self,
        org: &OrgId,
        user: &UserId,
        image: &MessageImage,
        (digest, bytes): (Digest, Bytes),
        now: Timestamp,
    ) -> Result<()> {
        let owner = owner(&image.id);
        self.resources.set_image_bytes(org, owner.as_str(), image.bytes, now).await?;
        let mut writer = self.blobs.create(&blob_key(org, owner.clone())).await?;
        writer.write(bytes).await?;
        writer.finish().await?;
        let row = MessageImageRow {
            image: image.clone(),
            digest,
            user: user.clone(),
            threads: BTreeSet::new(),
            is_removed: false,
            unknown: UnknownFields::default(),
        };
        let (group, key, after) = (group_of(&owner), ROW.to_owned(), encode(&row)?);
        self.rows.compare_and_set(org, ConditionalRow { group, key, before: None, after, guard: None }).await.map(drop)
    }

    /// Returns the bytes of an image. None: they are not stored.
    pub async fn read(&self, org: &OrgId, image: &MessageImageId) -> Result<Option<Bytes>> {
        let Some(mut blob) = self.blobs.open(&blob_key(org, owner(image))).await? else { return Ok(None) };
        let mut bytes = BytesMut::new();
        while let Some(chunk) = blob.read().await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MODEL_IMAGE_BYTES {
                let message = format!("the image {image} has more than {MODEL_IMAGE_BYTES} bytes");
                return Err(Error::stored_format(message));
            }
        }
        Ok(Some(bytes.freeze()))
    }

    /// Adds a thread to an image. Idempotent. Returns false if the image does not exist or is being removed.
    ///
    /// # Errors
    /// `TOO_LARGE` if the image is in the maximum number of threads.
    pub async fn add_thread(&self, org: &OrgId, image: &MessageImageId, thread: &ThreadId) -> Result<bool> {
        // Before the condition, so that the removal of the thread finds the image.
        let in_thread = encode(&ThreadImage { image: image.clone() })?;
        self.rows.put(org, &group_of_thread(thread), image.as_str(), in_thread).await?;
        let owner = owner(image);
        let added = self.change(org, &owner, |row| {
            if row.is_removed {
                return Ok(false);
            }
            if row.threads.len() >= IMAGE_THREADS_MAX && !row.threads.contains(thread) {
                let message = format!("the image {image} is in {IMAGE_THREADS_MAX} threads, which is the maximum");
                return Err(Error::precondition(Reason::TooLarge, message));
            }
            row.threads.insert(thread.clone());
            Ok(true)
        });
        Ok(added.await?.unwrap_or(false))
    }

    /// Removes a deleted thread from its images, and the images that are in no other thread. Idempotent.
    pub async fn remove_thread(&self, org: &OrgId, thread: &ThreadId, now: Timestamp) -> Result<()> {
        let group = group_of_thread(thread);
        let images = self.rows.list(org, &group).await?;
        if images.is_empty() {
            return Ok(());
        }
        for row in &images {
            let ThreadImage { image } = decode(row)?;
            let owner = owner(&image);
            let is_unused = self.change(org, &owner, |row| {
                let was_in = row.threads.remove(thread);
                row.is_removed |= was_in && row.threads.is_empty();
                Ok(row.is_removed)
            });
            if is_unused.await? == Some(true) {
                self.erase(org, owner, now).await?;
            }
        }
        self.rows.remove_group(org, &group).await
    }

    /// Removes the image of an old blob if no live thread contains the image: it was never sent, or its upload or removal was
    /// incomplete. Returns whether the image was removed. None: the blob is no image of messages.
    pub async fn remove_orphan(&self, key: &BlobKey, now: Timestamp) -> Result<Option<bool>> {
        if key.blob != blob() {
            return Ok(None);
        }
        let (org, owner) = (&key.org, &key.document);
        if let Some((before, mut row)) = self.row(org, owner).await?.filter(|(_, row)| !row.is_removed) {
            for thread in &row.threads {
                if self.threads.header(org, thread).await?.is_some() {
                    return Ok(Some(false));
                }
            }
            row.is_removed = true;
            // A thread that was added meanwhile keeps the image.
            let (group, key, after) = (group_of(owner), ROW.to_owned(), encode(&row)?);
            let write = ConditionalRow { group, key, before: Some(before), after, guard: None };
            if !self.rows.compare_and_set(org, write).await? {
                return Ok(Some(false));
            }
        }
        self.erase(org, owner.clone(), now).await?;
        Ok(Some(true))
    }

    /// Erases an image whose row states that it is removed. The row is erased first: bytes without a row are found by the search for
    /// orphaned bytes.
    async fn erase(&self, org: &OrgId, owner: DocumentId, now: Timestamp) -> Result<()> {
        self.rows.remove_group(org, &group_of(&owner)).await?;
        self.resources.set_image_bytes(org, owner.as_str(), 0, now).await?;
        self.blobs.delete(&blob_key(org, owner)).await
    }

    /// Returns the row of an image with its stored value.
    async fn row(&self, org: &OrgId, owner: &DocumentId) -> Result<Option<(Vec<u8>, MessageImageRow)>> {
        let stored = self.rows.get(org, &group_of(owner), &[ROW.to_owned()]).await?.pop().flatten();
        stored.map(|stored| decode(&stored).map(|row| (stored, row))).transpose()
    }

    /// Changes the row of an image, under the condition that it is unchanged since it was read. `change` is repeated if another process
    /// changed the row meanwhile. None: there is no row.
    ///
    /// # Errors
    /// Those of `change`, after which nothing is stored; `VERSION_CONFLICT` after too many concurrent changes.
    async fn change(
        &self,
        org: &OrgId,
        owner: &DocumentId,
        change: impl Fn(&mut MessageImageRow) -> Result<bool> + Send + Sync,
    ) -> Result<Option<bool>> {
        for _ in 0..ATTEMPTS {
            let Some((stored, before)) = self.row(org, owner).await? else { return Ok(None) };
            let mut row = before.clone();
            let changed = change(&mut row)?;
            if row == before {
                return Ok(Some(changed));
            }
            let (group, key, after) = (group_of(owner), ROW.to_owned(), encode(&row)?);
            let write = ConditionalRow { group, key, before: Some(stored), after, guard: None };
            if self.rows.compare_and_set(org, write).await? {
                return Ok(Some(changed));
            }
        }
        let message = "too many concurrent changes of the threads of an image; retry";
        Err(Error::version_conflict(message))
    }
}
