//! Uploads, ingestion and clean-up with real files, the real child process, Tesseract and pdftoppm.
#![cfg(test)]

mod cleanup;
mod files;
mod fuzz;
mod ingestion;
mod kinds;
mod malformed;
mod recognition;
mod uploads;
