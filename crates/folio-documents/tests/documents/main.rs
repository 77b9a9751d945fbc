//! Real files, the real child process, real Tesseract and pdftoppm.

#[cfg(test)]
mod files;
#[cfg(test)]
mod kinds;
#[cfg(test)]
mod malformed;
#[cfg(test)]
mod recognition;
