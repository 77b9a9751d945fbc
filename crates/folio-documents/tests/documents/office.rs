//! Text extraction from office documents and mail.

use folio_resources::{CellPosition, cell_at, words};
use folio_testkit::office::{docx, ods, odt, pptx, xlsx};

use super::*;

async fn page_texts(name: &str, content: &[u8]) -> Vec<String> {
    let reading = read(name, content).await;
    assert_eq!(reading.state, TextState::Ready, "{name}");
    assert!(reading.pages.iter().all(|page| page.boxes.is_empty()), "{name}");
    reading.pages.into_iter().map(|page| page.text).collect()
}

#[tokio::test]
async fn a_text_document_keeps_its_characters_and_tables() {
    let pages =
        page_texts("a.docx", &docx(&["Invoice #17 of A_B*C &amp; Partners", "1. first"], ["Total", "957.00"])).await;
    let [page] = &pages[..] else { panic!("{pages:?}") };
    assert!(page.contains("Invoice #17 of A_B*C & Partners") && page.contains("1. first"), "{page}");
    assert!(page.lines().any(|line| line.contains("Total") && line.contains("957.00")), "{page}");
    assert_eq!(page_texts("a.odt", &odt("The fee is 12,000.00 SEK.")).await, ["The fee is 12,000.00 SEK."]);
    let rtf = br"{\rtf1\ansi\ansicpg1252 Hello \b World\b0\par Total: 12.50 gr\'fc\'dfe\par}";
    let pages = page_texts("a.rtf", rtf).await;
    assert!(pages[0].contains("Hello") && pages[0].contains("Total: 12.50 grüße"), "{pages:?}");
}

#[tokio::test]
async fn a_workbook_has_a_page_for_each_sheet() {
    let invoices: &[_] = &[
        ("A1", "inlineStr", "Number"),
        ("B1", "inlineStr", "Amount"),
        ("A2", "inlineStr", "INV-1"),
        ("B2", "n", "1234.5"),
    ];
    let pages = page_texts("a.xlsx", &xlsx(&[("Invoices", invoices), ("Notes", &[("C5", "b", "1")])])).await;
    let [first, second] = &pages[..] else { panic!("{pages:?}") };
    assert!(first.contains("Invoices") && first.contains("INV-1") && first.contains("1234.5"), "{first}");
    assert!(second.contains("Notes") && second.to_ascii_lowercase().contains("true"), "{second}");
}

/// Returns the cell of the first occurrence of a word in a page.
fn cell_of(page: &folio_storage::NewPage, word: &str) -> Option<String> {
    let (range, _) = words(&page.text).find(|(_, found)| *found == word).unwrap_or_else(|| panic!("{word}: {page:?}"));
    Some(cell_at(&page.text[..range.start], page.first_cell?)?.to_string())
}

#[tokio::test]
async fn the_words_of_a_sheet_have_their_cells() {
    let invoices: &[_] = &[
        ("B3", "inlineStr", "Number"),
        ("D3", "inlineStr", "Net | gross"),
        ("B4", "inlineStr", "INV-1"),
        ("D4", "n", "1234.5"),
        ("B7", "inlineStr", "Two\nlines"),
        ("C7", "n", "957"),
    ];
    let reading = read("a.xlsx", &xlsx(&[("Invoices", invoices), ("Notes", &[("AB1200", "inlineStr", "last")])])).await;
    assert_eq!(reading.state, TextState::Ready);
    let [first, second] = &reading.pages[..] else { panic!("{reading:?}") };
    assert!(first.text.contains("Two lines") && first.text.contains("1234.5"), "{first:?}");
    for (word, cell) in [
        ("Number", Some("B3")),
        ("gross", Some("D3")),
        ("INV-1", Some("B4")),
        ("1234.5", Some("D4")),
        ("lines", Some("B7")),
        ("957", Some("C7")),
        ("Invoices", None),
    ] {
        assert_eq!(cell_of(first, word).as_deref(), cell, "{word}: {}", first.text);
    }
    assert_eq!(cell_of(second, "last").as_deref(), Some("AB1200"));

    let sheet = ods("Accounts", (4, 2), &[&["Name", "Total"], &["Lindqvist", "957.5"]]);
    let reading = read("a.ods", &sheet).await;
    assert_eq!(reading.state, TextState::Ready);
    assert_eq!(reading.pages[0].first_cell, Some(CellPosition { row: 4, column: 2 }), "{reading:?}");
    assert_eq!(cell_of(&reading.pages[0], "957.5").as_deref(), Some("D6"));
}

#[tokio::test]
async fn a_cut_sheet_keeps_the_cells_of_its_remaining_words() {
    let cells: &[_] = &[("C5", "n", "4711"), ("C6", "n", "4712"), ("C7", "n", "4713")];
    let whole = read("a.xlsx", &xlsx(&[("S", cells)])).await.pages.remove(0);
    let page_chars = whole.text.find("4713").unwrap();
    let cut = read_with(Options { page_chars, ..options() }, "a.xlsx", &xlsx(&[("S", cells)])).await.pages.remove(0);
    assert_eq!(cut.gap, Some(TextGap::Cut), "{cut:?}");
    assert_eq!(cell_of(&cut, "4712").as_deref(), Some("C6"));
    assert_eq!(cell_of(&cut, "cut"), None, "the note about the cut is in no cell");
}

#[tokio::test]
async fn texts_without_sheets_and_sparse_sheets_have_no_cells() {
    let document = read("a.docx", &docx(&["text"], ["Total", "957.00"])).await;
    assert_eq!(document.pages[0].first_cell, None);
    let far = xlsx(&[("Far", &[("B2", "n", "4711"), ("XFD1048576", "n", "4712")])]);
    let reading = read("far.xlsx", &far).await;
    assert!(reading.pages.iter().all(|page| page.first_cell.is_none()), "{reading:?}");
}

#[tokio::test]
async fn a_presentation_has_a_page_for_each_slide() {
    let pages = page_texts("a.pptx", &pptx(&["Offer 17", "Total 957.00"])).await;
    let [first, second] = &pages[..] else { panic!("{pages:?}") };
    assert!(first.contains("Offer 17") && second.contains("Total 957.00"), "{pages:?}");
}

#[tokio::test]
async fn a_mail_has_its_header_its_text_and_its_attachments() {
    let mail = "From: =?utf-8?q?Anna_S=C3=B6der?= <a@example.org>\r\nTo: b@example.org\r\nSubject: =?utf-8?q?Rechnung_M=C3=A4rz?=\r\n\
                Date: Mon, 02 Nov 2026 10:00:00 +0100\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"b\"\r\n\r\n\
                --b\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n\
                the total is 12.50=20=E2=82=AC\r\n--b\r\nContent-Type: text/plain\r\nContent-Disposition: attachment; filename=\"list.txt\"\r\n\r\n\
                item 4711\r\n--b--\r\n";
    let text = page_texts("a.eml", mail.as_bytes()).await.join("\n");
    for part in ["Anna Söder", "Rechnung März", "the total is 12.50 €", "list.txt"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[tokio::test]
async fn damaged_and_huge_office_files_affect_only_themselves() {
    let whole = docx(&["text"], ["a", "b"]);
    let bomb = docx(&["0".repeat(300 * 1024 * 1024).as_str()], ["a", "b"]);
    assert!(bomb.len() < 1024 * 1024, "{}", bomb.len());
    let (many, cells): (Vec<_>, &[_]) = ((0..4).map(|number| number.to_string()).collect(), &[("A1", "n", "1")]);
    let sheets: Vec<(&str, &[_])> = many.iter().map(|name| (name.as_str(), cells)).collect();
    for (name, content, reason) in [
        ("cut.docx", &whole[..whole.len() / 2], "damaged"),
        ("bomb.docx", &bomb, "limit"),
        ("sheets.xlsx", &xlsx(&sheets), "at most 3 are accepted"),
    ] {
        let reading = read_with(Options { max_pages: 3, ..options() }, name, content).await;
        let TextState::Failed(found) = &reading.state else { panic!("{name}: {reading:?}") };
        assert!(found.contains(reason), "{name}: {found}");
    }
    let far = xlsx(&[("Far", &[("A1", "n", "1"), ("XFD1048576", "n", "2")])]);
    let reading = read("far.xlsx", &far).await;
    assert!(reading.state == TextState::Ready || matches!(reading.state, TextState::Failed(_)), "{reading:?}");
}
