//! Uploads, ingestion and clean-up with real files, the real child process, Tesseract and pdftoppm.
#![cfg(test)]

mod cleanup;
mod files;
mod fuzz;
mod ingestion;
mod intake;
mod isolation;
mod kinds;
mod malformed;
mod message_images;
mod office;
mod page_images;
mod pdf_forms;
mod protected;
mod recognition;
mod splits;
mod structure;
mod uploads;
mod word_boxes;

use std::time::Duration;

use bytes::Bytes;
use folio_documents::{Options, TextReader};
use folio_resources::{Document, TextState};
use folio_storage::IngestUpdate;
use folio_storage::value::TextGap;
use folio_testkit::invoice::sample_invoice;
use folio_testkit::pdf::{Page, document, objects_to_file, stream};
use folio_testkit::wait_for;
use folio_types::{Digest, DocumentId, Environment as _, OrgId};

use files::{Fixture, PNG, SLOW, SOON, new_upload, options, read, read_with, recognizer, script, text};
