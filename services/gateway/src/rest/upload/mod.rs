//! Uploads: `multipart/form-data`, and JSON with files in Base64.
//!
//! ```text
//! body ─ limits of transfers ─┬─ multipart parser ─────────────────────┬─ temporary files ─ UploadDocument ─ blob store
//!                             └─ temporary file ─ JSON parser, Base64 ─┘
//! ```
//!
//! A form may contain the file before its name and its tags, and JSON may contain several files that are stored together or not
//! at all. Therefore files are buffered on disk before the operation runs, and memory contains only chunks. The permits of
//! [`Spools`] bound the bytes on disk.

mod body;
mod json;
mod multipart;
mod spool;

use std::collections::BTreeMap;

use folio_operations::documents::Content;

pub(crate) use body::Limits;
pub(crate) use json::JsonUpload;
pub(crate) use multipart::MultipartUpload;
use spool::SpooledFile;
pub(crate) use spool::Spools;

/// Maximum number of files of a request.
const FILES_MAX: usize = 100;
/// Maximum size of the parts of a request that are not files.
const TEXT_BYTES: u64 = 4 * 1024 * 1024;

/// A received file with its description.
#[derive(Debug)]
pub(crate) struct UploadedFile {
    pub(crate) name: String,
    /// The ids of tags, as they were sent.
    pub(crate) tag_ids: Vec<String>,
    pub(crate) metadata: BTreeMap<String, String>,
    file: SpooledFile,
}

impl UploadedFile {
    pub(crate) fn size_bytes(&self) -> u64 {
        self.file.size_bytes()
    }

    /// Returns the bytes of the file, for [`folio_operations::documents::UploadDocument`].
    pub(crate) fn into_content(self) -> Content {
        self.file.into_content()
    }
}
