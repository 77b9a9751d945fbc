//! Blobs that several nodes share: in an S3 bucket, or in a folder that all of them have.
//!
//! Where: `s3://BUCKET[/PREFIX]`, or the path of a folder. A blob is the object `PREFIX/blobs/ORGANIZATION/DOCUMENT`. It is there
//! whole or not at all: a small one is one request, a large one is sent in parts that the bucket puts together at its end.
//! The upload of a large one is noted as `PREFIX/unfinished/ORGANIZATION/DOCUMENT/UPLOAD` while it goes on, so that what a dead
//! process left is found by [`BlobStore::scan`] and aborted after a day. S3 itself would keep such parts, unseen, for ever.

pub mod files;
mod s3;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;

use folio_types::{Error, Reason, Result};

pub use self::s3::S3Options;
use folio_storage::BlobStore;

/// Opens the blobs at a place: `s3://BUCKET[/PREFIX]`, or a folder that every node has.
///
/// # Errors
/// `INVALID_FIELD`: the place is none. `STORE_UNAVAILABLE`: the folder cannot be made, or the settings of the bucket are
/// not complete. Whether the bucket answers is not asked.
pub fn blobs_at(place: &str, options: &S3Options) -> Result<Arc<dyn BlobStore>> {
    if let Some(bucket) = place.strip_prefix("s3://") {
        let (bucket, prefix) = bucket.split_once('/').unwrap_or((bucket, ""));
        return Ok(Arc::new(s3::Bucket::open(bucket, prefix, options)?));
    }
    if place.is_empty() || place.contains("://") {
        let message = format!("blobs are kept at s3://BUCKET[/PREFIX] or in a folder, not at {place:?}");
        return Err(Error::invalid(Reason::InvalidField, message));
    }
    shared_folder(PathBuf::from(place))
}

/// The blobs of a folder that several processes share.
fn shared_folder(path: PathBuf) -> Result<Arc<dyn BlobStore>> {
    std::fs::create_dir_all(&path).map_err(|error| {
        let path = path.display();
        Error::unavailable(Reason::StoreUnavailable, format!("the folder of the blobs {path} cannot be made: {error}"))
    })?;
    Ok(Arc::new(files::Blobs::open(path, files::Sharing::Many)?))
}
