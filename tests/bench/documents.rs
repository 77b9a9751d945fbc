//! Reading of documents, images of pages, and the search for extracted values, on one embedded store.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use folio_documents::{NewUpload, Options, PageRenderer, Reading, TextReader, Uploader, sniff};
use folio_resources::{Document, ImageFormat, PageImage, Rendition, TextState};
use folio_storage::{IngestUpdate, Stores};
use folio_storage_embedded::EmbeddedStore;
use folio_testkit::{office, pdf, scan};
use folio_types::{BlobKey, OrgId, Principal, Role, System, UserId};
use serde_json::{Value, json};

use crate::format::Percentiles;

/// Number of pages of the text PDF and the workbook.
pub(crate) const PAGES: usize = 100;
/// Number of pages of the scan.
const SCANNED: usize = 5;
/// Number of lines of a page, and of items of the extraction for each page.
const LINES: usize = 30;

/// Reads and renders documents of `pages` pages.
pub(crate) async fn measure(pages: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = EmbeddedStore::open(folio_storage_embedded::Options::at(folder.path().join("data")))?;
    let program = std::env::current_exe()?.with_file_name("folio");
    let fixture = Fixture {
        stores: store.stores(),
        principal: Principal::new(OrgId::derive(&["bench"]), UserId::derive(&["bench"]), Role::Member),
        options: Options { worker: Some(program), scratch: Some(folder.path().to_owned()), ..Options::default() },
        folder: folder.path().to_owned(),
    };
    let text = text_pdf(pages);
    let scanned = scan::pdf_of_jpeg(&scan::render(&text_pdf(1), Some("jpeg"))?, SCANNED);
    let mut rates = BTreeMap::new();
    for (name, file, pages) in
        [("text.pdf", &text, pages), ("scan.pdf", &scanned, SCANNED), ("book.xlsx", &book(pages), pages)]
    {
        let begun = Instant::now();
        let reading = fixture.read(name, file).await?;
        let rate = pages as f64 / begun.elapsed().as_secs_f64();
        ensure!(reading.pages.len() == pages, "{name}: {} pages of {pages}", reading.pages.len());
        let boxes: u64 = reading.pages.iter().map(|page| page.boxes.bytes()).sum();
        let text: usize = reading.pages.iter().map(|page| page.text.len()).sum();
        let (boxes, text) = (boxes / pages as u64, text / pages);
        eprintln!("{name:<12}{rate:>10.1} pages/s, {text:>6} bytes of text and {boxes:>6} bytes of boxes a page");
        rates.insert(name, json!({ "pages_per_second": rate, "text_bytes": text, "box_bytes": boxes }));
    }
    let document = fixture.store("text.pdf", &text).await?;
    let images = json!({
        "png": fixture.render(&document, pages, ImageFormat::Png).await?,
        "webp": fixture.render(&document, pages, ImageFormat::WebP).await?,
    });
    let mut citations = Vec::new();
    for (what, data) in [("one page", data(1)), ("all pages", data(pages))] {
        let begun = Instant::now();
        let stores = &fixture.stores;
        let found =
            folio_tools::extraction::cite(stores, &fixture.principal.org, &document, &data, &BTreeMap::new()).await?;
        let took = begun.elapsed();
        ensure!(found.inferred == 0, "{} values were not found", found.inferred);
        eprintln!("values of {what}: {} found in {took:.1?}", found.located);
        citations.push(json!({ "values": found.located, "milliseconds": took.as_secs_f64() * 1e3 }));
    }
    println!("{}", json!({ "reading": rates, "images": images, "citations": citations }));
    Ok(())
}

/// The values of a line: name, quantity and amount.
fn item(page: usize, line: usize) -> (String, usize, String) {
    (format!("Article {page}-{line}"), line + 1, format!("{}.{:02}", 10 * line + page, line))
}

fn text_pdf(pages: usize) -> Vec<u8> {
    let line = |page: usize, line: usize| {
        let (name, quantity, amount) = item(page, line);
        format!("{name} of recycled paper, quantity {quantity}, {amount} EUR")
    };
    let page = |page: usize| {
        let lines: Vec<String> = (0..LINES).map(|number| line(page, number)).collect();
        pdf::Page::of_lines(&lines.iter().map(String::as_str).collect::<Vec<_>>())
    };
    pdf::document(&(0..pages).map(page).collect::<Vec<_>>())
}

fn book(sheets: usize) -> Vec<u8> {
    let cells = |page: usize| {
        let cell = move |line: usize| {
            let (name, _, amount) = item(page, line);
            [(format!("A{}", line + 1), "inlineStr", name), (format!("B{}", line + 1), "n", amount)]
        };
        (0..LINES).flat_map(cell).collect::<Vec<_>>()
    };
    let contents: Vec<(String, Vec<_>)> = (0..sheets).map(|page| (format!("Sheet {page}"), cells(page))).collect();
    let borrowed: Vec<(&str, Vec<office::Cell<'_>>)> = contents
        .iter()
        .map(|(name, cells)| {
            (name.as_str(), cells.iter().map(|(at, kind, value)| (at.as_str(), *kind, value.as_str())).collect())
        })
        .collect();
    let sheets: Vec<(&str, &[office::Cell<'_>])> =
        borrowed.iter().map(|(name, cells)| (*name, cells.as_slice())).collect();
    office::xlsx(&sheets)
}

/// The data of an extraction from the first pages.
fn data(pages: usize) -> Value {
    let items = (0..pages).flat_map(|page| (0..LINES).map(move |line| item(page, line)));
    let row = |(name, quantity, amount): (String, usize, String)| json!({ "name": name, "quantity": quantity, "amount": amount.parse::<f64>().unwrap_or_default() });
    json!({ "items": items.map(row).collect::<Vec<_>>() })
}

struct Fixture {
    stores: Stores,
    principal: Principal,
    options: Options,
    folder: PathBuf,
}

impl Fixture {
    async fn read(&self, name: &str, file: &[u8]) -> Result<Reading> {
        let path = self.folder.join(name);
        std::fs::write(&path, file)?;
        let media_type = sniff::sniff(name, file.get(..sniff::SNIFF_BYTES).unwrap_or(file))?;
        let reading = TextReader::new(self.options.clone()).read(media_type, &path, &self.folder).await?;
        ensure!(reading.state == TextState::Ready, "{name}: {:?}", reading.state);
        Ok(reading)
    }

    /// Stores a document with its text.
    async fn store(&self, name: &str, file: &[u8]) -> Result<Document> {
        let uploader = Uploader::new(self.stores.clone(), Arc::new(System), None, &self.options);
        let mut upload = uploader.begin(&self.principal, NewUpload::new(name.parse()?, name)).await?;
        upload.write(Bytes::copy_from_slice(file)).await?;
        let document = upload.finish().await?.document;
        let Reading { state, pages, lacks_program } = self.read(name, file).await?;
        let update = IngestUpdate { state, pages, lacks_program, at: jiff::Timestamp::now() };
        self.stores.texts.ingest(&document.org, document.id.as_str(), update).await?;
        let stored = self.stores.of::<Document>().get(&document.org, &document.id).await?;
        stored.context("the document was stored")
    }

    /// Renders each page with 100 dots per inch.
    async fn render(&self, document: &Document, pages: usize, format: ImageFormat) -> Result<Value> {
        let renderer = PageRenderer::new(self.stores.clone(), Arc::new(System), self.options.clone());
        let (mut times, mut bytes) = (Vec::<Duration>::new(), 0);
        for page in 1..=pages {
            let image = PageImage::new(u32::try_from(page)?, 100, format)?;
            let begun = Instant::now();
            renderer.render(&document.org, &document.id, &Rendition::Page(image)).await?;
            times.push(begun.elapsed());
            let key = BlobKey { blob: image.blob(), ..document.blob_key() };
            let mut blob = self.stores.blobs.open(&key).await?.context("the image is stored")?;
            while let Some(chunk) = blob.read().await? {
                bytes += chunk.len();
            }
        }
        let Percentiles { p50, p99 } = Percentiles::of(times);
        let kib = bytes / pages / 1024;
        eprintln!("{}: p50 {p50:.1?}, p99 {p99:.1?}, {kib} KiB an image", format.media_type());
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        Ok(json!({ "p50_ms": milliseconds(p50), "p99_ms": milliseconds(p99), "kib": kib }))
    }
}
