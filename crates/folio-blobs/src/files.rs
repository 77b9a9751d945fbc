//! A blob store in a folder: one file for each blob, below a folder for each organization.
//!
//! A blob is written to a temporary file, synced and renamed; then its folder is synced. After a crash the blob is
//! therefore complete or missing. Temporary files of earlier processes are removed at opening. If several processes
//! share the folder, temporary files that are a day old are removed at opening and by each scan.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use folio_types::{DocumentId, Environment as _, Error, OrgId, Reason, Result, System, Timestamp};
use futures::stream::{self, BoxStream, StreamExt as _};
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{CHUNK_BYTES, UNFINISHED_FOR, up_to_error};
use folio_storage::{BlobReader, BlobStore, BlobWriter, StoredBlob};

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |error| {
        tracing::error!(%error, what, "a blob could not be stored or read");
        Error::unavailable(Reason::StoreUnavailable, format!("{what}: {}", error.kind()))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Only this process.
    SingleProcess,
    /// Several processes, possibly on several machines.
    Shared,
}

pub struct FolderBlobStore {
    root: PathBuf,
    unfinished: PathBuf,
    sharing: Sharing,
}

impl FolderBlobStore {
    /// Creates the folder if it does not exist.
    pub fn open(root: PathBuf, sharing: Sharing) -> Result<Self> {
        let unfinished = root.join("unfinished");
        let open = || -> io::Result<()> {
            std::fs::create_dir_all(&unfinished)?;
            remove_unfinished(&unfinished, sharing)?;
            std::fs::File::open(&root)?.sync_all()
        };
        open().map_err(failed("the folder of the blobs cannot be opened"))?;
        Ok(Self { root, unfinished, sharing })
    }

    fn folder(&self, org: &OrgId) -> PathBuf {
        self.root.join(org.as_str())
    }

    fn path(&self, org: &OrgId, id: &DocumentId) -> PathBuf {
        self.folder(org).join(id.as_str())
    }
}

/// Removes the temporary files of dead processes.
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

#[async_trait]
impl BlobStore for FolderBlobStore {
    async fn create(&self, org: &OrgId, id: &DocumentId) -> Result<Box<dyn BlobWriter>> {
        let path = self.path(org, id);
        let temporary = self.unfinished.join(format!("{:032x}", System.random()));
        let file = File::create(&temporary).await.map_err(failed("a blob cannot be created"))?;
        Ok(Box::new(Writer { file: Some(file), temporary, folder: self.folder(org), path, root: self.root.clone() }))
    }

    async fn open(&self, org: &OrgId, id: &DocumentId) -> Result<Option<Box<dyn BlobReader>>> {
        match File::open(self.path(org, id)).await {
            Ok(file) => Ok(Some(Box::new(Reader { file }))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("a blob cannot be opened")(error)),
        }
    }

    async fn delete(&self, org: &OrgId, id: &DocumentId) -> Result<()> {
        match tokio::fs::remove_file(self.path(org, id)).await {
            Ok(()) => sync_folder(&self.folder(org)).await.map_err(failed("a blob's folder cannot be synced")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed("a blob cannot be removed")(error)),
        }
    }

    async fn delete_all(&self, org: &OrgId) -> Result<()> {
        match tokio::fs::remove_dir_all(self.folder(org)).await {
            Ok(()) => sync_folder(&self.root).await.map_err(failed("the folder of the blobs cannot be synced")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed("an organization's blobs cannot be removed")(error)),
        }
    }

    fn scan(&self) -> BoxStream<'static, Result<StoredBlob>> {
        let root = self.root.clone();
        let (unfinished, sharing) = (self.unfinished.clone(), self.sharing);
        let folders = stream::once(async move {
            if sharing == Sharing::Shared {
                let removed = tokio::task::spawn_blocking(move || remove_unfinished(&unfinished, sharing)).await;
                let removed = removed.map_err(|error| Error::internal(format!("a clean-up panicked: {error}")))?;
                removed.map_err(failed("unfinished blobs cannot be removed"))?;
            }
            folders(&root).await
        })
        .flat_map(|found| match found {
            Ok(folders) => stream::iter(folders.into_iter().map(Ok)).boxed(),
            Err(error) => stream::once(async { Err(error) }).boxed(),
        });
        let blobs = folders.flat_map(move |folder| match folder {
            Ok((org, path)) => {
                let reading = Folder { org, path, open: None };
                stream::unfold(Some(reading), |folder| async { folder?.next().await }).boxed()
            }
            Err(error) => stream::once(async { Err(error) }).boxed(),
        });
        up_to_error(blobs)
    }
}

async fn folders(root: &Path) -> Result<Vec<(OrgId, PathBuf)>> {
    let read = async || {
        let mut entries = tokio::fs::read_dir(root).await?;
        let mut found = Vec::new();
        while let Some(entry) = entries.next_entry().await? {
            // Skips the folder of temporary files.
            if let Some(org) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                found.push((org, entry.path()));
            }
        }
        Ok(found)
    };
    read().await.map_err(failed("the folder of the blobs cannot be read"))
}

/// An organization's folder during a scan.
struct Folder {
    org: OrgId,
    path: PathBuf,
    open: Option<tokio::fs::ReadDir>,
}

impl Folder {
    /// Returns the next blob and the rest of the folder. None: the folder has no further blob. After an error there is
    /// no rest.
    async fn next(mut self) -> Option<(Result<StoredBlob>, Option<Self>)> {
        match self.read().await {
            Ok(found) => found.map(|blob| (Ok(blob), Some(self))),
            Err(error) => Some((Err(failed("an organization's blobs cannot be listed")(error)), None)),
        }
    }

    async fn read(&mut self) -> io::Result<Option<StoredBlob>> {
        let entries = match &mut self.open {
            Some(entries) => entries,
            None => self.open.insert(tokio::fs::read_dir(&self.path).await?),
        };
        while let Some(entry) = entries.next_entry().await? {
            let Some(document) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let modified = match entry.metadata().await.and_then(|data| data.modified()) {
                // The blob was removed after it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                modified => modified?,
            };
            let modified_at = Timestamp::try_from(modified).map_err(io::Error::other)?;
            return Ok(Some(StoredBlob { org: self.org.clone(), document, modified_at }));
        }
        Ok(None)
    }
}

struct Writer {
    /// None: the blob is finished.
    file: Option<File>,
    temporary: PathBuf,
    folder: PathBuf,
    path: PathBuf,
    root: PathBuf,
}

impl Writer {
    async fn publish(&mut self, mut file: File) -> io::Result<()> {
        file.flush().await?;
        file.sync_all().await?;
        drop(file);
        if !tokio::fs::try_exists(&self.folder).await? {
            tokio::fs::create_dir_all(&self.folder).await?;
            sync_folder(&self.root).await?;
        }
        tokio::fs::rename(&self.temporary, &self.path).await?;
        sync_folder(&self.folder).await
    }
}

#[async_trait]
impl BlobWriter for Writer {
    async fn write(&mut self, chunk: Bytes) -> Result<()> {
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
