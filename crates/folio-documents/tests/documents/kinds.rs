//! Reading of well-formed files.

use folio_testkit::invoice::{FACTS, ITEMS, SUMS};

use super::*;

#[test]
fn the_sample_in_the_repository_equals_the_generators_output() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/invoice.pdf");
    let stored = std::fs::read(path).unwrap();
    assert!(stored == sample_invoice(), "write it again: cargo run -p folio-testkit --example sample-invoice");
}

#[tokio::test]
async fn labels_and_values_of_the_sample_share_a_line() {
    let reading = read("invoice.pdf", &sample_invoice()).await;
    assert_eq!(reading.state, TextState::Ready);
    assert_eq!(reading.pages.len(), 1);
    let text = text(&reading);
    for (label, value) in FACTS.iter().chain(&SUMS) {
        let has = |line: &str| line.split_once(':').is_some_and(|(l, v)| l.trim() == *label && v.trim() == *value);
        assert!(text.lines().any(has), "{label}: {value} in\n{text}");
    }
    for item in ITEMS {
        let columns = |line: &str| line.split("  ").map(str::trim).filter(|c| !c.is_empty()).eq(item);
        assert!(text.lines().any(columns), "{item:?} in\n{text}");
    }
    for found in ["Lindqvist & Partners AB", "IBAN:  DE89 3704 0044 0532 0130 00"] {
        assert!(text.contains(found), "{found} in\n{text}");
    }
}

#[tokio::test]
async fn a_pdf_is_read_page_by_page() {
    let pages: Vec<Page> = (1..=12).map(|n| Page::of_lines(&[&format!("This is page {n}"), "Zürich (CH)"])).collect();
    let reading = read("twelve.pdf", &document(&pages)).await;
    assert_eq!(reading.state, TextState::Ready);
    for (at, page) in reading.pages.iter().enumerate() {
        assert_eq!(
            (page.number as usize, page.text.as_str()),
            (at + 1, &*format!("This is page {}\nZürich (CH)", at + 1))
        );
    }
    assert_eq!(reading.pages.len(), 12);
}

#[tokio::test]
async fn too_many_pages_are_refused() {
    let pages: Vec<Page> = (0..4).map(|_| Page::of_lines(&["page"])).collect();
    let reading = read_with(Options { max_pages: 3, ..options() }, "four.pdf", &document(&pages)).await;
    assert_eq!(reading.state, TextState::Failed("the PDF has 4 pages; at most 3 are accepted".to_owned()));
    let reading = read_with(Options { max_pages: 3, ..options() }, "four.txt", b"1\x0c2\x0c3\x0c4").await;
    assert_eq!(reading.state, TextState::Failed("the file has 4 pages; at most 3 are accepted".to_owned()));
}

#[tokio::test]
async fn a_text_is_decoded_by_the_child_process_under_its_limits() {
    let without_child = Options { worker: Some("/bin/false".into()), ..options() };
    let reading = read_with(without_child, "a.txt", b"some text").await;
    assert!(matches!(&reading.state, TextState::Failed(reason) if reason.contains("exit status 1")), "{reading:?}");
    // Each form feed begins a page.
    let bomb = b"a\x0c".repeat(16 * 1024 * 1024);
    let small = Options { child_memory_bytes: 256 * 1024 * 1024, ..options() };
    let reading = read_with(small, "bomb.txt", &bomb).await;
    assert!(matches!(&reading.state, TextState::Failed(reason) if reason.contains("memory")), "{reading:?}");
    // The same limit suffices for a text of the maximum size.
    let whole = "Zürich (CH)\n".repeat(4 * 1024 * 1024);
    let small = Options { child_memory_bytes: 256 * 1024 * 1024, ..options() };
    let reading = read_with(small, "large.txt", whole.as_bytes()).await;
    assert_eq!(reading.state, TextState::Ready);
    assert!(text(&reading).ends_with("[… cut here: the document has more than 8000000 characters]"));
}

#[tokio::test]
async fn text_files_keep_their_characters() {
    for (name, content, expected) in [
        ("a.txt", "Grüße\0 aus Köln\r\n".replace('\0', "").into_bytes(), "Grüße aus Köln"),
        ("a.md", b"# Title\n\n* one\n".to_vec(), "# Title\n\n* one"),
        ("a.csv", b"name,amount\nA,1\n".to_vec(), "name,amount\nA,1"),
        ("a.txt", b"Gr\xfc\xdfe f\xfcr 5 \x80".to_vec(), "Grüße für 5 €"),
        ("a.txt", b"\xfe\xff\0H\0i".to_vec(), "Hi"),
    ] {
        let reading = read(name, &content).await;
        assert_eq!((reading.state.clone(), text(&reading).as_str()), (TextState::Ready, expected), "{name}");
    }
}

#[tokio::test]
async fn html_becomes_text_without_markup_or_scripts() {
    let page = "<!DOCTYPE html><html><head><title>T</title><style>p{color:red}</style><script>alert('no')</script></head>\
                <body><h1>Offer 17</h1><p>For <b>Lindqvist</b> &amp; Partners &euro;&nbsp;5</p>\
                <table><tr><td>Total</td><td>957.00</td></tr></table></body></html>";
    let reading = read("offer.html", page.as_bytes()).await;
    let text = text(&reading);
    assert_eq!(reading.state, TextState::Ready);
    assert!(text.contains("Offer 17") && text.contains("**Lindqvist** & Partners € 5"), "{text}");
    assert!(text.lines().any(|line| line.contains("Total") && line.contains("957.00")), "{text}");
    assert!(!text.contains("alert") && !text.contains("color") && !text.contains('<'), "{text}");
}

#[tokio::test]
async fn long_text_is_cut_visibly() {
    let options = || Options { document_chars: 10_000, page_chars: 3_000, ..options() };
    let long = "All work and no play. ".repeat(2_000);
    let reading = read_with(options(), "long.txt", long.as_bytes()).await;
    let read = text(&reading);
    assert!(read.chars().count() < 10_500 && read.contains("[… cut here:"), "{}", read.len());
    assert!(reading.pages.iter().all(|page| page.gap == Some(TextGap::Cut)), "{reading:?}");
    let page = Page::of_lines(&vec!["All work and no play makes Jack a dull boy, says the story."; 60]);
    let short = Options { page_chars: 1_500, ..options() };
    let reading = read_with(short, "long.pdf", &document(&[page])).await;
    assert_eq!(reading.state, TextState::Ready);
    assert!(text(&reading).contains("[… cut here:"), "{}", text(&reading).len());
    assert_eq!(reading.pages[0].gap, Some(TextGap::Cut));
}

#[tokio::test]
async fn long_files_without_pages_of_their_own_become_ready() {
    let row = "4711;Lindqvist & Partners AB;957.00\n";
    let csv = row.repeat(10 * 1024 * 1024 / row.len());
    let reading = read("long.csv", csv.as_bytes()).await;
    assert_eq!(reading.state, TextState::Ready);
    assert!(reading.pages.len() <= options().max_pages as usize, "{}", reading.pages.len());
    let (last, complete) = reading.pages.split_last().unwrap();
    assert!(last.text.ends_with("[… cut here: the document has more than 8000000 characters]"), "{}", last.text);
    assert!(last.gap == Some(TextGap::Cut) && complete.iter().all(|page| page.gap.is_none()), "{:?}", last.gap);

    let few = || Options { max_pages: 3, document_chars: 40_000, ..options() };
    let html = format!("<html><body>{}</body></html>", "<p>All work and no play.</p>".repeat(4_000));
    let reading = read_with(few(), "long.html", html.as_bytes()).await;
    assert_eq!(reading.state, TextState::Ready);
    assert!(reading.pages.len() <= 3, "{}", reading.pages.len());
    assert!(text(&reading).ends_with("[… cut here: the document has more than 40000 characters]"));
}

#[tokio::test]
async fn a_malformed_office_document_has_no_text_and_a_reason() {
    let mut docx = b"PK\x03\x04\x14\0\x06\0\x08\0\0\0!\0\0\0\0\0\0\0\0\0\0\0\0\0\x13\0\0\0[Content_Types].xml".to_vec();
    docx.extend([0; 64]);
    let reading = read("a.docx", &docx).await;
    assert!(matches!(&reading.state, TextState::Failed(reason) if reason.contains("damaged")), "{reading:?}");
}

/// Returns a PDF of one page with an attached file of this name.
fn with_attachment(name: &str, xml: &str) -> Vec<u8> {
    let text = |text: &str| text.as_bytes().to_vec();
    let names = "<< /Type /Catalog /Pages 2 0 R /Names << /EmbeddedFiles << /Kids [8 0 R] >> >> >>";
    let page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>";
    objects_to_file(&[
        text(names),
        text("<< /Type /Pages /Kids [3 0 R] /Count 1 >>"),
        text(page),
        stream("", b"BT /F1 14 Tf 72 700 Td (Total: 1.00) Tj ET"),
        text("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"),
        text(&format!("<< /Type /Filespec /F ({name}) /UF ({name}) /EF << /F 7 0 R >> >>")),
        stream("/Type /EmbeddedFile", xml.as_bytes()),
        // A kid that is its own child must not be followed forever.
        text(&format!("<< /Names [({name}) 6 0 R] /Kids [8 0 R] >>")),
    ])
}

#[tokio::test]
async fn a_structured_invoice_is_a_further_page_that_names_its_attachment() {
    let xml = "<Invoice><ExchangedDocument><ID>RE-7</ID></ExchangedDocument></Invoice>";
    let file = with_attachment("Factur-X.xml", xml);
    let reading = read("invoice.pdf", &file).await;
    let pages: Vec<&str> = reading.pages.iter().map(|page| page.text.as_str()).collect();
    assert_eq!(pages.len(), 2, "{reading:?}");
    assert_eq!(pages[0], "Total: 1.00");
    assert!(pages[1].starts_with("Structured invoice data of the attachment factur-x.xml."), "{}", pages[1]);
    assert!(pages[1].ends_with("\n\nInvoice Number: RE-7"), "{}", pages[1]);
    let short = read_with(Options { page_chars: 60, ..options() }, "invoice.pdf", &file).await;
    assert!(short.pages[1].text.contains("cut here"), "{}", short.pages[1].text);
    assert_eq!((short.pages[1].gap, reading.pages[1].gap), (Some(TextGap::Cut), None));
    let bounded = read_with(Options { max_pages: 1, ..options() }, "invoice.pdf", &file).await;
    assert_eq!((bounded.state, bounded.pages.len()), (TextState::Ready, 1));
}

#[tokio::test]
async fn other_attachments_are_ignored() {
    let reading = read("invoice.pdf", &with_attachment("notes.xml", "<a><b>1</b></a>")).await;
    assert_eq!((reading.state, reading.pages.len()), (TextState::Ready, 1));
}

#[tokio::test]
async fn a_structured_invoice_that_cannot_be_read_leaves_the_text_incomplete() {
    let bomb = "<!DOCTYPE a [<!ENTITY b 'bbbb'>]><a><c>&b;</c></a>";
    let large = format!("<a><b>{}</b></a>", "1".repeat(256 * 1024));
    for xml in ["<a><b>1</a>", bomb, "", large.as_str()] {
        let reading = read("invoice.pdf", &with_attachment("factur-x.xml", xml)).await;
        assert_eq!((reading.state, reading.pages.len()), (TextState::Ready, 2), "{xml:.40}");
        let (first, last) = (&reading.pages[0], &reading.pages[1]);
        assert_eq!((first.text.as_str(), first.gap, last.gap), ("Total: 1.00", None, Some(TextGap::Cut)), "{xml:.40}");
        assert!(last.text.contains("factur-x.xml was dropped"), "{}", last.text);
    }
}
