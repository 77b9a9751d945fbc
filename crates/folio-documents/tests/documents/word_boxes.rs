//! WordBoxes of words, compared with an independent reading (pdftotext) and with the recognition of a rendered page.

use folio_documents::Reading;
use folio_resources::BoundingBox;
use folio_testkit::pdf::Font;
use folio_testkit::pdf_words::{self, PdfWord};

use super::recognition::{render, tool};
use super::*;

/// A word with its rectangle in fractions of the page.
type Word = (String, BoundingBox);

/// Returns the words of each page that pdftotext reads.
fn reference(pdf: &[u8]) -> Vec<Vec<Word>> {
    let word = |PdfWord { text, left, top, right, bottom }| (text, BoundingBox { left, top, right, bottom });
    let pages = pdf_words::words(pdf).unwrap();
    pages.into_iter().map(|words| words.into_iter().map(word).collect()).collect()
}

/// Returns the words of each page with their boxes. Checks that every word has one.
fn words(reading: &Reading) -> Vec<Vec<Word>> {
    assert_eq!(reading.state, TextState::Ready, "{reading:?}");
    let words = reading.pages.iter().map(|page| {
        let texts = page.text.split_whitespace();
        let words: Vec<Word> = texts
            .enumerate()
            .map(|(at, text)| (text.to_owned(), page.boxes.fractions(at).expect("a word has a place")))
            .collect();
        assert_eq!(words.len(), page.boxes.len());
        words
    });
    words.collect()
}

fn centre_is_in(inner: &BoundingBox, outer: &BoundingBox) -> bool {
    let (x, y) = ((inner.left + inner.right) / 2.0, (inner.top + inner.bottom) / 2.0);
    (outer.left..=outer.right).contains(&x) && (outer.top..=outer.bottom).contains(&y)
}

/// Checks that the boxes of at least this part of the words, in percent, are those of the reference.
fn check(found: &[Vec<Word>], expected: &[Vec<Word>], percent: usize) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let is_located = |(text, area): &&Word| {
            let same = expected.iter().filter(|(other, _)| other == text);
            same.into_iter().any(|(_, other)| centre_is_in(area, other) && centre_is_in(other, area))
        };
        let located = found.iter().filter(is_located).count();
        let missed: Vec<&Word> = found.iter().filter(|word| !is_located(word)).take(5).collect();
        assert!(located * 100 >= found.len() * percent, "{located} of {} words; {missed:?}", found.len());
    }
}

#[tokio::test]
async fn the_words_of_a_text_layer_are_where_pdftotext_finds_them() {
    let invoice = sample_invoice();
    check(&words(&read("invoice.pdf", &invoice).await), &reference(&invoice), 95);
    let pages = [Page::of_lines(&["Delivery note 4711", "two  columns (of) text"]), Page::of_lines(&["Second & last"])];
    let file = document(&pages);
    check(&words(&read("note.pdf", &file).await), &reference(&file), 100);
}

#[tokio::test]
async fn the_words_of_two_columns_stay_apart() {
    let (left, right) = (["Street 12", "Quantity 7", "Left end"], ["345 Main", "100 Price", "Right end"]);
    let column = |page: &mut Page, x: f64, lines: &[(usize, &str)]| {
        for (line, text) in lines {
            let y = 700.0 - 20.0 * u32::try_from(*line).map(f64::from).unwrap();
            page.text(x, y, 12.0, Font::Regular, text);
        }
    };
    let numbered = |lines: [&'static str; 3]| lines.into_iter().enumerate().collect::<Vec<_>>();
    let (mut by_column, mut by_line) = (Page::new(), Page::new());
    column(&mut by_column, 72.0, &numbered(left));
    column(&mut by_column, 330.0, &numbered(right));
    for (left, right) in numbered(left).into_iter().zip(numbered(right)) {
        column(&mut by_line, 72.0, &[left]);
        column(&mut by_line, 330.0, &[right]);
    }
    for page in [by_column, by_line] {
        let file = document(&[page]);
        let reading = read("columns.pdf", &file).await;
        check(&words(&reading), &reference(&file), 100);
        let text = text(&reading);
        assert!(left.iter().chain(&right).all(|line| text.contains(line)), "{text}");
        assert!(!text.contains("12 345") && !text.contains("7 100"), "{text}");
    }
}

#[tokio::test]
async fn the_words_of_a_rotated_page_are_where_they_are_seen() {
    for rotation in [0, 90, 180, 270] {
        let page = format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Rotate {rotation} /Contents 4 0 R \
             /Resources << /Font << /F1 5 0 R >> >> >>"
        );
        let file = objects_to_file(&[
            b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
            page.into_bytes(),
            stream("", b"BT /F1 20 Tf 60 700 Td (Total 957.00) Tj ET"),
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_vec(),
        ]);
        let reading = read("rotated.pdf", &file).await;
        let words = words(&reading);
        assert_eq!(text(&reading), "Total 957.00", "{rotation}");
        let BoundingBox { left, top, right, bottom } = words[0][0].1;
        let (x, y) = ((left + right) / 2.0, (top + bottom) / 2.0);
        // The word starts at a tenth of the width and at an eighth of the height of the unrotated page.
        let expected = match rotation {
            0 => (0.14, 0.115),
            90 => (0.885, 0.14),
            180 => (0.86, 0.885),
            _ => (0.115, 0.86),
        };
        assert!((x - expected.0).abs() < 0.02 && (y - expected.1).abs() < 0.02, "{rotation}: {x} {y}");
        let upright = rotation % 180 == 0;
        assert_eq!(right - left > bottom - top, upright, "{rotation}");
    }
}

#[tokio::test]
async fn the_words_of_a_scan_are_where_they_are_printed() {
    tool("tesseract", "tesseract-ocr", &["--version"]);
    let file = document(&[Page::of_lines(&["Delivery note 4711", "Total amount 957.00"])]);
    let reading = read("scan.png", &render(&file, Some("png"))).await;
    check(&words(&reading), &reference(&file), 90);
}
