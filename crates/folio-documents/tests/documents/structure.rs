//! The structure of documents: headings, links, tables and images of real files.

use folio_documents::{PageRenderer, Reading};
use folio_resources::{Heading, LinkTarget, PageStructure, Rendition};
use folio_storage::NewPage;
use folio_testkit::pdf::Font;
use folio_types::{BlobKey, Reason};

use super::protected::protected;
use super::*;

/// A square of 2 times 2 pixels, of which each is drawn 16 times: red and white above blue and white.
fn picture() -> Vec<u8> {
    let (red, blue, white) = ([255, 0, 0], [0, 0, 255], [255, 255, 255]);
    let row = |left: [u8; 3], right: [u8; 3]| [[left; 16].concat(), [right; 16].concat()].concat();
    [row(red, white).repeat(16), row(blue, white).repeat(16)].concat()
}

/// Returns a PDF of two pages with bookmarks, links and an image. `first`: the objects of the catalog's outline.
fn with_structure() -> Vec<u8> {
    let page = |contents: u32, rest: &str| {
        format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {contents} 0 R \
             /Resources << /Font << /F1 7 0 R >> /XObject << /Im 8 0 R >> >> {rest} >>"
        )
        .into_bytes()
    };
    let links = "/Annots [ << /Type /Annot /Subtype /Link /Rect [60 690 200 725] /A << /S /URI /URI (https://example.com/a) >> >> \
                 << /Subtype /Link /Rect [60 640 200 670] /Dest (fees) >> << /Subtype /Text /Rect [0 0 9 9] >> \
                 << /Subtype /Link /Rect [0 0 9 9] /A << /S /GoToR /F (other.pdf) >> >> ]";
    let first = b"BT /F1 20 Tf 60 700 Td (Scope) Tj 0 -50 Td (see fees) Tj ET q 200 0 0 100 60 400 cm /Im Do Q \
                  BT /F1 10 Tf 60 385 Td (Figure 1: Colours) Tj ET";
    let second = b"BT /F1 10 Tf 60 700 Td (Text of the scope) Tj 0 -200 Td (Fees) Tj 0 -20 Td (are low) Tj ET";
    objects_to_file(&[
        b"<< /Type /Catalog /Pages 2 0 R /Outlines 9 0 R /Names << /Dests << /Names [(fees) [4 0 R /XYZ 60 510 0]] >> >> >>"
            .to_vec(),
        b"<< /Type /Pages /Kids [3 0 R 4 0 R] /Count 2 >>".to_vec(),
        page(5, links),
        page(6, ""),
        stream("", first),
        stream("", second),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_vec(),
        stream("/Type /XObject /Subtype /Image /Width 32 /Height 32 /ColorSpace /DeviceRGB /BitsPerComponent 8", &picture()),
        b"<< /Type /Outlines /First 10 0 R /Last 12 0 R /Count 3 >>".to_vec(),
        b"<< /Title (Scope) /Parent 9 0 R /Next 12 0 R /First 11 0 R /Dest [3 0 R /Fit] >>".to_vec(),
        // The next bookmark of this one is the first: a cycle.
        b"<< /Title (A figure) /Parent 10 0 R /Next 10 0 R /A << /S /GoTo /D [3 0 R /XYZ 60 500 0] >> >>".to_vec(),
        b"<< /Title <FEFF00460065006500730020> /Parent 9 0 R /Dest (fees) >>".to_vec(),
    ])
}

fn structures(reading: &Reading) -> Vec<PageStructure> {
    assert_eq!(reading.state, TextState::Ready, "{reading:?}");
    reading.pages.iter().map(|page| page.structure.clone()).collect()
}

fn heading(level: u8, title: &str, word: u32) -> Heading {
    Heading { level, title: title.to_owned(), word }
}

#[tokio::test]
async fn a_pdf_has_its_bookmarks_links_and_images() {
    let pages = structures(&read("a.pdf", &with_structure()).await);
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
    let stored = fixture.upload(&uploader, "a.pdf", "a.pdf", &with_structure()).await.unwrap().document;
    let rendition = Rendition::Embedded { page: 1, number: 1 };
    renderer.render(&stored.org, &stored.id, &rendition).await.unwrap();
    let key = BlobKey { blob: rendition.blob(&stored), ..stored.blob_key() };
    let image = image::load_from_memory(&fixture.bytes(&key).await.unwrap()).unwrap().into_rgb8();
    assert_eq!(image.dimensions(), (32, 32));
    let corners = [(0, 0), (31, 0), (0, 31)].map(|(x, y)| image.get_pixel(x, y).0);
    assert_eq!(corners, [[255, 0, 0], [255, 255, 255], [0, 0, 255]]);
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
    let pages: Vec<NewPage> = read("a.pdf", &with_structure()).await.pages;
    assert_eq!(read("a.pdf", &with_structure()).await.pages, pages);
}
