//! The child that reads files as a binary of its own, for tests; `folio` starts itself instead.

fn main() {
    folio_documents::worker::run_if_asked();
}
