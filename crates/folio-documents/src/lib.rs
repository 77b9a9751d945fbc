//! Documents: how bytes come in, become text by page, and are cleaned up after a deletion.
//!
//! - [`Uploader`] takes a file in as a stream, sniffs what it is, and writes the document ([`sniff`] says what is
//!   accepted).
//! - [`Ingestor`] reads the text of uploaded documents in the background. Nothing that a stranger wrote is parsed in this
//!   process: PDF and HTML are read by a child of the same binary ([`worker`]) under limits of memory, time and output,
//!   page images by Tesseract under the same limits. A malformed or huge file costs that file only.
//! - [`Cleaner`] removes the bytes of deleted documents and those that no document refers to, and marks the threads of
//!   deleted documents as ending with them.
//!
//! This crate knows nothing of conversations, models or gRPC; it sees storage through its traits only.

mod active_uploads;
mod cleanup;
mod ingest;
mod isolate;
mod normal;
mod ocr;
mod options;
mod plain;
mod reader;
pub mod sniff;
mod tiff;
mod upload;
mod usage_cache;
pub mod worker;

pub use active_uploads::ActiveUploads;
pub use cleanup::{Cleaner, CleanupHandle, CleanupOptions, Mine, always_mine};
pub use ingest::{IngestHandle, Ingestor, ToRead};
pub use options::{Options, WorkerCommand};
pub use reader::{Reading, TextReader};

pub use upload::{NewUpload, Upload, Uploaded, Uploader};
