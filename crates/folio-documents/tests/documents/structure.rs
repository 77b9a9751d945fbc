//! The structure of documents: headings, links, tables and images of real files.

use folio_documents::{PageRenderer, Reading};
use folio_resources::{Heading, LinkTarget, PageStructure, Rendition};
use folio_storage::NewPage;
use folio_testkit::pdf::Font;
use folio_testkit::structured_pdf::structured_pdf;
use folio_types::{BlobKey, Reason};

use super::protected::protected;
use super::*;

fn structures(reading: &Reading) -> Vec<PageStructure> {
    assert_eq!(reading.state, TextState::Ready, "{reading:?}");
    reading.pages.iter().map(|page| page.structure.clone()).collect()
}

fn heading(level: u8, title: &str, word: u32) -> Heading {
    Heading { level, title: title.to_owned(), word }
}

#[tokio::test]
async fn a_pdf_has_its_bookmarks_links_and_images() {
    let pages = structures(&read("a.pdf", &structured_pdf()).await);
    assert_eq!(pages[0].headings, [heading(1, "Scope", 0), heading(2, "A figure", 3)]);
    assert_eq!(pages[1].headings, [heading(1, "Fees", 4)]);
    let links: Vec<_> = pages[0].links.iter().map(|link| (link.anchor.as_str(), link.target.clone())).collect();
    let expected = [
        ("Scope", LinkTarget::Url("https://example.com/a".to_owned())),
        ("see fees", LinkTarget::Page(2)),
        ("", LinkTarget::Url("other.pdf".to_owned())),
    ];
    assert_eq!(links, expected);
    let [image] = pages[0].images.as_slice() else { panic!("{pages:?}") };
    assert_eq!((image.number, image.width, image.height, image.caption.as_str()), (1, 32, 32, "Figure 1: Colours"));
    let area = image.area.unwrap().fractions();
    for (found, expected) in [(area.left, 0.1), (area.top, 0.375), (area.right, 0.4333), (area.bottom, 0.5)] {
        assert!((found - expected).abs() < 1e-3, "{area:?}");
    }
}

#[tokio::test]
async fn a_pdf_without_bookmarks_has_headings_by_their_size() {
    let mut page = Page::new();
    page.text(72.0, 760.0, 24.0, Font::Regular, "Master Agreement");
    let mut y = 720.0;
    for (size, text) in
        [(16.0, "Scope"), (10.0, "The parties agree on the terms below."), (10.0, "They are fair."), (16.0, "Fees")]
    {
        page.text(72.0, y, size, Font::Bold, text);
        y -= 30.0;
    }
    for row in [["Item", "Count", "Price"], ["Screws", "7", "1.50"], ["Work", "2", "80.00"]] {
        for (cell, x) in row.into_iter().zip([72.0, 220.0, 360.0]) {
            page.text(x, y, 10.0, Font::Regular, cell);
        }
        y -= 15.0;
    }
    let pages = structures(&read("a.pdf", &document(&[page])).await);
    let found: Vec<_> = pages[0].headings.iter().map(|found| (found.level, found.title.as_str())).collect();
    assert_eq!(found, [(1, "Master Agreement"), (2, "Scope"), (2, "Fees")]);
    assert_eq!(pages[0].tables.len(), 1, "{pages:?}");
    let expected = [["Item", "Count", "Price"], ["Screws", "7", "1.50"], ["Work", "2", "80.00"]];
    assert_eq!(pages[0].tables[0].rows, expected);
}

#[tokio::test]
async fn html_has_its_headings_links_and_tables() {
    let page = "<!DOCTYPE html><html><body><h1>Offer</h1><p>See <a href=\"https://example.com/terms\">the terms</a>.</p>\
                <h2>Prices</h2><table><tr><th>Item</th><th>Price</th></tr><tr><td>Work</td><td>80.00</td></tr></table>\
                </body></html>";
    let pages = structures(&read("offer.html", page.as_bytes()).await);
    let found: Vec<_> = pages[0].headings.iter().map(|found| (found.level, found.title.as_str())).collect();
    assert_eq!(found, [(1, "Offer"), (2, "Prices")]);
    let links: Vec<_> = pages[0].links.iter().map(|link| (link.anchor.as_str(), link.target.clone())).collect();
    assert_eq!(links, [("the terms", LinkTarget::Url("https://example.com/terms".to_owned()))]);
    assert_eq!(pages[0].tables[0].rows, [["Item", "Price"], ["Work", "80.00"]]);
}

#[tokio::test]
async fn a_hostile_outline_costs_only_its_own_bookmarks() {
    // Destinations that refer to each other, and a page that does not exist.
    let file = objects_to_file(&[
        b"<< /Type /Catalog /Pages 2 0 R /Outlines 5 0 R /Dests << /a (b) /b (a) >> >>".to_vec(),
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Annots 3 0 R \
          /Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>"
            .to_vec(),
        stream("", b"BT /F1 20 Tf 60 700 Td (Total 957.00) Tj ET"),
        b"<< /First 6 0 R >>".to_vec(),
        b"<< /Title (x) /Dest (a) /Next 7 0 R /First 6 0 R >>".to_vec(),
        b"<< /Title (y) /Dest [99 0 R /XYZ 0 0 0] /Next 6 0 R /First 5 0 R >>".to_vec(),
    ]);
    let reading = read("a.pdf", &file).await;
    assert_eq!(text(&reading), "Total 957.00");
    assert_eq!(structures(&reading), [PageStructure::default()]);
}

#[tokio::test]
async fn an_embedded_image_is_copied_on_demand() {
    let fixture = Fixture::new();
    let options = options();
    let renderer = PageRenderer::new(fixture.stores(), fixture.environment.clone(), options.clone());
    let uploader = fixture.uploader_within(None, &options);
    let stored = fixture.upload(&uploader, "a.pdf", "a.pdf", &structured_pdf()).await.unwrap().document;
    let rendition = Rendition::Embedded { page: 1, number: 1 };
    renderer.render(&stored.org, &stored.id, &rendition).await.unwrap();
    let key = BlobKey { blob: rendition.blob(&stored), ..stored.blob_key() };
    let image = image::load_from_memory(&fixture.bytes(&key).await.unwrap()).unwrap().into_rgb8();
    assert_eq!(image.dimensions(), (32, 32));
    let corners = [(0, 0), (31, 0), (0, 31)].map(|(x, y)| image.get_pixel(x, y).0);
    assert_eq!(corners, [[255, 0, 0], [255, 255, 255], [0, 0, 255]]);
    let for_model = renderer.embedded_for_model(&stored.org, &stored.id, (1, 1)).await.unwrap();
    assert_eq!((for_model.width, for_model.height), (32, 32));
    assert_eq!(image::guess_format(&for_model.bytes).unwrap(), image::ImageFormat::Jpeg);
    for (page, number) in [(1, 2), (2, 1), (3, 1), (0, 1)] {
        let missing =
            renderer.render(&stored.org, &stored.id, &Rendition::Embedded { page, number }).await.unwrap_err();
        assert_eq!((missing.reason, missing.violations[0].field.as_str()), (Reason::InvalidField, "image_id"));
    }
    for (name, content, reason) in [
        ("locked.pdf", protected(&[Page::of_lines(&["secret"])]), Reason::InvalidField),
        ("a.txt", b"text".to_vec(), Reason::UnsupportedType),
    ] {
        let other = fixture.upload(&uploader, name, name, &content).await.unwrap().document;
        let refused = renderer.render(&other.org, &other.id, &rendition).await.unwrap_err();
        assert_eq!(refused.reason, reason, "{name}");
    }
}

#[tokio::test]
async fn a_text_that_is_read_again_has_the_same_structure() {
    let pages: Vec<NewPage> = read("a.pdf", &structured_pdf()).await.pages;
    assert_eq!(read("a.pdf", &structured_pdf()).await.pages, pages);
}
