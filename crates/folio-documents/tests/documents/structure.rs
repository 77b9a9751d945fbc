//! The structure of documents: headings, links, tables and images of real files.

use std::io::{Cursor, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
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

const RELATIONSHIPS: &str = "http://schemas.openxmlformats.org/package/2006/relationships";
const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";

/// Returns a list of one relationship with the id `rId1`.
fn relationship(kind: &str, target: &str) -> Vec<u8> {
    format!(
        r#"<Relationships xmlns="{RELATIONSHIPS}"><Relationship Id="rId1" Type="{OFFICE}/{kind}" Target="{target}"/></Relationships>"#
    )
    .into_bytes()
}

/// Returns an office document of Microsoft with these parts, of which the first one is the main part.
fn package(format: &str, parts: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let types = format!(
        r#"<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/><Override PartName="/{}" ContentType="application/vnd.openxmlformats-officedocument.{format}.main+xml"/></Types>"#,
        parts[0].0
    );
    let root = relationship("officeDocument", parts[0].0);
    let first = [("[Content_Types].xml", types.into_bytes()), ("_rels/.rels", root)];
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in first.iter().chain(parts) {
        zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Returns an image of 4 by 3 pixels.
fn red() -> Vec<u8> {
    let mut bytes = Vec::new();
    let image = image::RgbImage::from_pixel(4, 3, image::Rgb([255, 0, 0]));
    image.write_to(&mut Cursor::new(&mut bytes), image::ImageFormat::Png).unwrap();
    bytes
}

/// Returns a text document with an image in its file, and one elsewhere.
fn docx_with_images() -> Vec<u8> {
    let drawing = |id: u32, text: &str| {
        format!(
            r#"<w:p><w:r><w:drawing><wp:inline><wp:docPr id="{id}" name="P" descr="{text}"/><a:graphic><a:graphicData uri="http://schemas.openxmlformats.org/drawingml/2006/picture"><pic:pic><pic:blipFill><a:blip r:embed="rId{id}"/></pic:blipFill></pic:pic></a:graphicData></a:graphic></wp:inline></w:drawing></w:r></w:p>"#
        )
    };
    let text = |text: &str| format!("<w:p><w:r><w:t>{text}</w:t></w:r></w:p>");
    let body = [text("before"), drawing(1, "A pump"), text("Figure 1: The pump"), drawing(2, "A leak")].concat();
    let document = format!(
        r#"<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:r="{OFFICE}" xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture"><w:body>{body}</w:body></w:document>"#
    );
    let relationships = format!(
        r#"<Relationships xmlns="{RELATIONSHIPS}"><Relationship Id="rId1" Type="{OFFICE}/image" Target="media/image1.png"/><Relationship Id="rId2" Type="{OFFICE}/image" Target="../../secret.png"/></Relationships>"#
    );
    package(
        "wordprocessingml.document",
        &[
            ("word/document.xml", document.into_bytes()),
            ("word/_rels/document.xml.rels", relationships.into_bytes()),
            ("word/media/image1.png", red()),
        ],
    )
}

/// Returns a workbook with an image in its only sheet.
fn xlsx_with_image() -> Vec<u8> {
    const SHEET: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
    let workbook = format!(
        r#"<workbook xmlns="{SHEET}" xmlns:r="{OFFICE}"><sheets><sheet name="Parts" sheetId="1" r:id="rId1"/></sheets></workbook>"#
    );
    let sheet = format!(
        r#"<worksheet xmlns="{SHEET}" xmlns:r="{OFFICE}"><sheetData><row r="1"><c r="A1" t="n"><v>7</v></c></row></sheetData><drawing r:id="rId1"/></worksheet>"#
    );
    let drawing = format!(
        r#"<wsDr xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:r="{OFFICE}"><pic><nvPicPr><cNvPr id="1" name="I" descr="A chart"/></nvPicPr><blipFill><a:blip r:embed="rId1"/></blipFill></pic></wsDr>"#
    );
    package(
        "spreadsheetml.sheet",
        &[
            ("xl/workbook.xml", workbook.into_bytes()),
            ("xl/_rels/workbook.xml.rels", relationship("worksheet", "worksheets/sheet1.xml")),
            ("xl/worksheets/sheet1.xml", sheet.into_bytes()),
            ("xl/worksheets/_rels/sheet1.xml.rels", relationship("drawing", "../drawings/drawing1.xml")),
            ("xl/drawings/drawing1.xml", drawing.into_bytes()),
            ("xl/drawings/_rels/drawing1.xml.rels", relationship("image", "../media/image1.png")),
            ("xl/media/image1.png", red()),
        ],
    )
}

#[tokio::test]
async fn images_of_office_documents_are_listed_and_copied_on_demand() {
    let fixture = Fixture::new();
    let options = options();
    let renderer = PageRenderer::new(fixture.stores(), fixture.environment.clone(), options.clone());
    let uploader = fixture.uploader_within(None, &options);
    let url = format!("data:image/png;base64,{}", STANDARD.encode(red()));
    let html = format!("<!DOCTYPE html><html><body><p>x</p><img alt=\"A page\" src=\"{url}\"></body></html>");
    for (name, content, expected) in [
        ("a.docx", docx_with_images(), vec![(1, 4, 3, "Figure 1: The pump"), (2, 0, 0, "A leak")]),
        ("a.xlsx", xlsx_with_image(), vec![(1, 4, 3, "A chart")]),
        ("a.html", html.into_bytes(), vec![(1, 4, 3, "A page")]),
    ] {
        let pages = structures(&read(name, &content).await);
        let found: Vec<_> = pages[0]
            .images
            .iter()
            .map(|image| (image.number, image.width, image.height, image.caption.as_str()))
            .collect();
        assert_eq!(found, expected, "{name}");
        let stored = fixture.upload(&uploader, name, name, &content).await.unwrap().document;
        let rendition = Rendition::Embedded { page: 1, number: 1 };
        renderer.render(&stored.org, &stored.id, &rendition).await.unwrap();
        let key = BlobKey { blob: rendition.blob(&stored), ..stored.blob_key() };
        let copy = image::load_from_memory(&fixture.bytes(&key).await.unwrap()).unwrap().into_rgb8();
        assert_eq!((copy.dimensions(), copy.get_pixel(3, 2).0), ((4, 3), [255, 0, 0]), "{name}");
        for (page, number) in [(1, 2), (1, 3), (2, 1), (0, 1), (1, 0)] {
            let missing = renderer.render(&stored.org, &stored.id, &Rendition::Embedded { page, number }).await;
            assert_eq!(missing.unwrap_err().reason, Reason::InvalidField, "{name} {page} {number}");
        }
    }
}

#[tokio::test]
async fn a_text_that_is_read_again_has_the_same_structure() {
    let pages: Vec<NewPage> = read("a.pdf", &structured_pdf()).await.pages;
    assert_eq!(read("a.pdf", &structured_pdf()).await.pages, pages);
}
