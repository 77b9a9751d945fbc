//! Tests of documents with real files, the real child process, Tesseract and pdftoppm.

#[cfg(test)]
mod cleanup;
#[cfg(test)]
mod files;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod ingestion;
#[cfg(test)]
mod kinds;
#[cfg(test)]
mod malformed;
#[cfg(test)]
mod recognition;
#[cfg(test)]
mod uploads;
