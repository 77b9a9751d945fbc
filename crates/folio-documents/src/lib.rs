//! Documents: uploads, text extraction by page, and clean-up after deletions.
//!
//! - [`Uploader`] receives a file as a stream, detects its type, and writes the document ([`sniff`] lists the accepted
//!   types).
//! - [`Uploader::split`] makes documents of the parts of a PDF, which [`propose_split`] detects.
//! - [`Ingestor`] reads the text of uploaded documents in the background. The parent process parses no file of a user,
//!   except the directory of a TIFF: a confined child of the same binary ([`worker`]) reads PDF, office documents, mail
//!   and text under limits of memory, time and output, and Tesseract reads page images under the same limits. A malformed
//!   or huge file affects only itself. The attachments of mails and the members of archives become documents.
//! - [`PageRenderer`] makes renditions of documents (images of pages, PDF files) in such a child, and stores them in the blob
//!   store.
//! - [`Cleaner`] removes the bytes of deleted documents and orphaned bytes, and marks the threads of deleted documents
//!   as expiring.
//!
//! This crate must not know conversations, models or gRPC. It uses storage only through its traits.

mod active_uploads;
mod cleanup;
mod ingest;
mod intake;
mod isolate;
mod machine;
mod memory;
mod model_image;
mod normal;
mod ocr;
mod options;
mod page_renderer;
mod part_upload;
mod pdf_form;
mod plain;
mod reader;
mod recognized;
pub mod sniff;
mod split;
mod split_proposal;
mod structure;
mod tiff;
mod unpacked;
mod upload;
mod usage_cache;
pub mod worker;

pub use active_uploads::ActiveUploads;
pub use cleanup::{Cleaner, CleanupHandle, CleanupOptions, IsSweeper, always_sweeper};
pub use ingest::{IngestHandle, IngestLoad, Ingestor};
pub use machine::check_machine;
pub use memory::MemoryPart;
pub use model_image::{MODEL_IMAGE_TYPE, ModelImage};
pub use options::{Isolation, Options};
pub use page_renderer::PageRenderer;
pub use reader::{Reading, TextReader};
pub use split::{PageBookmark, SplitPart, check_split_parts, default_name};
pub use split_proposal::{PageHint, ProposedPart, SplitReason, propose_split};

pub use upload::{NewUpload, Upload, Uploaded, Uploader};
