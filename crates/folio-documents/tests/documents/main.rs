//! Real files, the real child process, real Tesseract and pdftoppm.

mod files;
mod kinds;
mod malformed;
mod recognition;
