//! A binary that only reads files as a child process, for tests. `folio` starts itself instead.

fn main() {
    folio_documents::worker::run_if_asked();
}
