//! folio
fn main() {}
