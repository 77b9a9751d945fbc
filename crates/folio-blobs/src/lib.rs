//! Blobs that several nodes share: in an S3 bucket, or in a folder that all nodes mount.
//!
//! The address is `s3://BUCKET[/PREFIX]` or the path of a folder. In a bucket, a blob is the object
//! `PREFIX/blobs/ORGANIZATION/DOCUMENT/BLOB`. Writes are atomic: a small blob is one request; a large blob is a multipart
//! upload. An upload is recorded as `PREFIX/unfinished/ORGANIZATION/DOCUMENT/BLOB/UPLOAD` while it is in progress, so that
//! [`BlobStore::scan`] finds the uploads of dead processes and aborts them after a day. S3 itself would keep their
//! parts indefinitely without listing them.

mod disk_reserve;
pub mod files;
mod s3;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use folio_types::{Error, Reason, Result};

pub use self::disk_reserve::DiskReserve;
pub use self::s3::S3Options;
use folio_storage::{BlobStore, StoredBlob};
use futures::StreamExt as _;
use futures::stream::{BoxStream, Stream};

/// Maximum size of a chunk that is read, in bytes.
// proto: DownloadDocumentResponse.chunk "at most {} KiB"
// proto: GetPageImageResponse.chunk "at most {} KiB"
// proto: GetDocumentImageResponse.chunk "at most {} KiB"
const CHUNK_BYTES: usize = 256 * 1024;
/// Age from which an unfinished upload or a temporary file in a shared folder belongs to a dead process.
const UNFINISHED_FOR: Duration = Duration::from_secs(24 * 3600);

/// Ends a stream after its first error.
fn up_to_error(
    blobs: impl Stream<Item = Result<StoredBlob>> + Send + 'static,
) -> BoxStream<'static, Result<StoredBlob>> {
    let until_error = blobs.scan(false, |ended, item| {
        let item = (!*ended).then_some(item);
        *ended = matches!(item, Some(Err(_)));
        std::future::ready(item)
    });
    until_error.boxed()
}

/// Opens the blob store at an address: `s3://BUCKET[/PREFIX]`, or a folder that all nodes mount.
///
/// # Errors
/// `INVALID_FIELD` if the address is malformed. `STORE_UNAVAILABLE` if the folder cannot be created or the settings of
/// the bucket are incomplete. The bucket is not contacted.
pub fn blobs_at(address: &str, options: &S3Options) -> Result<Arc<dyn BlobStore>> {
    if let Some(bucket) = address.strip_prefix("s3://") {
        let (bucket, prefix) = bucket.split_once('/').unwrap_or((bucket, ""));
        return Ok(Arc::new(s3::S3BlobStore::open(bucket, prefix, options)?));
    }
    if address.is_empty() || address.contains("://") {
        let message = format!("invalid address of the blobs {address:?}: expected s3://BUCKET[/PREFIX] or a folder");
        return Err(Error::invalid(Reason::InvalidField, message));
    }
    shared_folder(PathBuf::from(address))
}

fn shared_folder(path: PathBuf) -> Result<Arc<dyn BlobStore>> {
    std::fs::create_dir_all(&path).map_err(|error| {
        let path = path.display();
        Error::unavailable(
            Reason::StoreUnavailable,
            format!("the folder of the blobs {path} cannot be created: {error}"),
        )
    })?;
    Ok(Arc::new(files::FolderBlobStore::open(path, files::Sharing::Shared, DiskReserve::none())?))
}
