//! Writes `samples/invoice.pdf`: `cargo run -p folio-testkit --example sample-invoice`.

fn main() -> std::io::Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/invoice.pdf");
    std::fs::write(path, folio_testkit::invoice::sample_invoice())
}
