//! The child process of `folio-documents` as a binary, for tests. `folio` starts itself instead.

fn main() {
    folio_documents::worker::run_if_child();
}
