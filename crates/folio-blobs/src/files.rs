//! A blob store in a folder: one file for each blob, below a folder for each organization and document.
//!
//! A blob is written to a temporary file, synced and renamed; then its folders are synced. After a crash the blob is
//! therefore complete or missing. If a single process uses the folder, opening the store removes all temporary files. If
//! several processes share the folder, opening the store and each scan remove temporary files that are over a day old.

use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use folio_types::{BlobId, BlobKey, DocumentId, Environment as _, Error, OrgId, Reason, Result, System, Timestamp};
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryFutureExt as _, TryStreamExt as _};
use tokio::fs::{DirEntry, File, ReadDir};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{CHUNK_BYTES, DiskReserve, UNFINISHED_FOR, up_to_error};
use folio_storage::{BlobReader, BlobStore, BlobWriter, StoredBlob};

/// Maximum number of retries if the folder of a new blob is removed concurrently.
const PUBLISH_RETRIES: u32 = 8;

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |error| {
        tracing::error!(%error, what, "a blob could not be stored or read");
        Error::unavailable(Reason::StoreUnavailable, format!("{what}: {}", error.kind()))
    }
}

/// The processes that use the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// One process at a time: temporary files that exist when it opens the store belong to dead processes.
    SingleProcess,
    /// Several processes, possibly on several machines.
    Shared,
}

pub struct FolderBlobStore {
    root: PathBuf,
    unfinished: PathBuf,
    sharing: Sharing,
    reserve: DiskReserve,
}

impl FolderBlobStore {
    /// Opens the store, and creates the folder if it does not exist. Writes are refused while the disk has less free space
    /// than `reserve`.
    pub fn open(root: PathBuf, sharing: Sharing, reserve: DiskReserve) -> Result<Self> {
        let unfinished = root.join("unfinished");
        let open = || -> io::Result<()> {
            std::fs::create_dir_all(&unfinished)?;
            remove_unfinished(&unfinished, sharing)?;
            std::fs::File::open(&root)?.sync_all()
        };
        open().map_err(failed("the folder of the blobs cannot be opened"))?;
        Ok(Self { root, unfinished, sharing, reserve })
    }

    fn folder(&self, org: &OrgId) -> PathBuf {
        self.root.join(org.as_str())
    }

    fn path(&self, key: &BlobKey) -> PathBuf {
        self.folder(&key.org).join(key.document.as_str()).join(key.blob.as_str())
    }
}

/// Removes the temporary files of dead processes. In a shared folder, these are the files older than [`UNFINISHED_FOR`].
fn remove_unfinished(folder: &Path, sharing: Sharing) -> io::Result<()> {
    let ignore_missing = |result: io::Result<()>| match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let is_old = || {
            let modified = entry.metadata().and_then(|data| data.modified()).ok();
            let age = modified.and_then(|modified| SystemTime::now().duration_since(modified).ok());
            age.is_some_and(|age| age > UNFINISHED_FOR)
        };
        if sharing == Sharing::SingleProcess || is_old() {
            ignore_missing(std::fs::remove_file(entry.path()))?;
        }
    }
    Ok(())
}

async fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path).await?.sync_all().await
}

/// Syncs the folder that contained a removed path. A path that did not exist is no error.
async fn removed(result: io::Result<()>, path: &Path) -> io::Result<()> {
    let synced = match (result, path.parent()) {
        (Ok(()), Some(folder)) => sync_folder(folder).await,
        (result, _) => result,
    };
    synced.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

#[async_trait]
impl BlobStore for FolderBlobStore {
    async fn create(&self, key: &BlobKey) -> Result<Box<dyn BlobWriter>> {
        self.reserve.check()?;
        let path = self.path(key);
        let temporary = self.unfinished.join(format!("{:032x}", System.random()));
        let file = File::create(&temporary).await.map_err(failed("a blob cannot be created"))?;
        let (root, reserve) = (self.root.clone(), self.reserve.clone());
        Ok(Box::new(Writer { file: Some(file), temporary, path, root, reserve }))
    }

    async fn open(&self, key: &BlobKey) -> Result<Option<Box<dyn BlobReader>>> {
        match File::open(self.path(key)).await {
            Ok(file) => Ok(Some(Box::new(Reader { file }))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("a blob cannot be opened")(error)),
        }
    }

    async fn delete(&self, key: &BlobKey) -> Result<()> {
        let path = self.path(key);
        removed(tokio::fs::remove_file(&path).await, &path).await.map_err(failed("a blob cannot be removed"))?;
        // The folder of a document without blobs is removed. A writer creates it again.
        let Some(folder) = path.parent() else { return Ok(()) };
        let emptied = match tokio::fs::remove_dir(folder).await {
            Err(error) if matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists) => {
                Ok(())
            }
            emptied => removed(emptied, folder).await,
        };
        emptied.map_err(failed("a blob's folder cannot be removed"))
    }

    async fn delete_document(&self, org: &OrgId, id: &DocumentId) -> Result<()> {
        let folder = self.folder(org).join(id.as_str());
        let result = tokio::fs::remove_dir_all(&folder).await;
        removed(result, &folder).await.map_err(failed("a document's blobs cannot be removed"))
    }

    async fn delete_all(&self, org: &OrgId) -> Result<()> {
        let folder = self.folder(org);
        let result = tokio::fs::remove_dir_all(&folder).await;
        removed(result, &folder).await.map_err(failed("an organization's blobs cannot be removed"))
    }

    fn scan(&self) -> BoxStream<'static, Result<StoredBlob>> {
        let root = self.root.clone();
        let (unfinished, sharing) = (self.unfinished.clone(), self.sharing);
        let cleaned = stream::once(async move {
            if sharing == Sharing::Shared {
                let removed = tokio::task::spawn_blocking(move || remove_unfinished(&unfinished, sharing)).await;
                let removed = removed.map_err(|error| Error::internal(format!("a clean-up panicked: {error}")))?;
                removed.map_err(failed("unfinished blobs cannot be removed"))?;
            }
            Ok(())
        });
        let cleaned = cleaned.filter_map(|cleaned: Result<()>| async { cleaned.err().map(Err) });
        let organizations = entries::<OrgId>(root);
        let documents = organizations.flat_map(|found| {
            nested(found, |(org, path)| {
                entries::<DocumentId>(path).map_ok(move |(document, path)| ((org.clone(), document), path)).boxed()
            })
        });
        let blobs = documents.flat_map(|found| {
            nested(found, |((org, document), path)| {
                entries::<BlobId>(path)
                    .try_filter_map(move |(blob, path)| {
                        stored(BlobKey { org: org.clone(), document: document.clone(), blob }, path)
                    })
                    .boxed()
            })
        });
        up_to_error(cleaned.chain(blobs.map_err(|error| failed("the folder of the blobs cannot be read")(error))))
    }
}

type Entries<T> = BoxStream<'static, io::Result<(T, PathBuf)>>;

/// Returns the entries of a folder whose names are ids, with their paths. A missing folder has no entries, because it may
/// have been removed after it was listed. The folder is read as the stream is consumed.
fn entries<Id: FromStr + Send + 'static>(folder: PathBuf) -> Entries<Id> {
    let opened = async move {
        match tokio::fs::read_dir(folder).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    };
    let listed = opened.map_ok(|folder| {
        stream::try_unfold(folder, |folder| async move {
            let Some(mut folder): Option<ReadDir> = folder else { return Ok(None) };
            let next = folder.next_entry().await?;
            Ok(next.map(|entry| (entry, Some(folder))))
        })
    });
    // Skips names that are no ids, such as the folder of temporary files.
    let named = |entry: DirEntry| async move {
        Ok(entry.file_name().to_str().and_then(|name| name.parse().ok()).map(|id| (id, entry.path())))
    };
    listed.try_flatten_stream().try_filter_map(named).boxed()
}

/// Returns the entries that `list` finds in a folder, or the error with which the list of folders ended.
fn nested<T, U: Send + 'static>(
    found: io::Result<T>,
    list: impl FnOnce(T) -> BoxStream<'static, io::Result<U>>,
) -> BoxStream<'static, io::Result<U>> {
    found.map_or_else(|error| stream::once(async { Err(error) }).boxed(), list)
}

/// Returns a listed blob with its time. None: the blob was removed after it was listed.
async fn stored(key: BlobKey, path: PathBuf) -> io::Result<Option<StoredBlob>> {
    let modified = match tokio::fs::metadata(path).await.and_then(|data| data.modified()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        modified => modified?,
    };
    let modified_at = Timestamp::try_from(modified).map_err(io::Error::other)?;
    Ok(Some(StoredBlob { key, modified_at }))
}

struct Writer {
    /// None: the blob is finished.
    file: Option<File>,
    temporary: PathBuf,
    path: PathBuf,
    root: PathBuf,
    reserve: DiskReserve,
}

impl Writer {
    async fn publish(&mut self, mut file: File) -> io::Result<()> {
        file.flush().await?;
        file.sync_all().await?;
        drop(file);
        let Some(folder) = self.path.parent() else { return Err(io::ErrorKind::InvalidInput.into()) };
        let mut attempts = 0;
        loop {
            tokio::fs::create_dir_all(folder).await?;
            match tokio::fs::rename(&self.temporary, &self.path).await {
                // A deletion of the last other blob of the document removed the folder after it was created.
                Err(error) if error.kind() == io::ErrorKind::NotFound && attempts < PUBLISH_RETRIES => attempts += 1,
                renamed => break renamed?,
            }
        }
        for folder in folder.ancestors().take_while(|folder| folder.starts_with(&self.root)) {
            sync_folder(folder).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl BlobWriter for Writer {
    async fn write(&mut self, chunk: Bytes) -> Result<()> {
        self.reserve.check()?;
        match &mut self.file {
            Some(file) => file.write_all(&chunk).await.map_err(failed("a blob cannot be written")),
            None => Err(Error::internal("a blob was written after it was finished")),
        }
    }

    async fn finish(mut self: Box<Self>) -> Result<()> {
        let Some(file) = self.file.take() else {
            return Err(Error::internal("a blob was finished twice"));
        };
        let published = self.publish(file).await;
        if published.is_err() {
            let _ = tokio::fs::remove_file(&self.temporary).await;
        }
        published.map_err(failed("a blob cannot be finished"))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // Makes one blocking system call, because Rust has no asynchronous drop.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

struct Reader {
    file: File,
}

#[async_trait]
impl BlobReader for Reader {
    async fn read(&mut self) -> Result<Option<Bytes>> {
        let mut chunk = BytesMut::with_capacity(CHUNK_BYTES);
        while chunk.len() < CHUNK_BYTES {
            let missing = (CHUNK_BYTES - chunk.len()) as u64;
            let mut bounded = (&mut self.file).take(missing);
            if bounded.read_buf(&mut chunk).await.map_err(failed("a blob cannot be read"))? == 0 {
                break;
            }
        }
        Ok(if chunk.is_empty() { None } else { Some(chunk.freeze()) })
    }
}
