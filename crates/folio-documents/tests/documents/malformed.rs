//! Reading of malformed files. Each must affect only itself.

use super::*;

const CATALOG: &[u8] = b"<< /Type /Catalog /Pages 2 0 R >>";
const PAGES: &[u8] = b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>";
const FONT: &[u8] = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>";

/// Returns a file of one page with this content and the `further` objects, numbered from 6. Object 5 is a font.
pub(crate) fn one_page(content: Vec<u8>, resources: &str, further: &[Vec<u8>]) -> Vec<u8> {
    let page = format!(
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> {resources} >> >>"
    );
    let mut objects = vec![CATALOG.to_vec(), PAGES.to_vec(), page.into_bytes(), content, FONT.to_vec()];
    objects.extend_from_slice(further);
    objects_to_file(&objects)
}

/// Returns an HTML file whose nesting overflows the child's stack.
pub(crate) fn deep_html() -> Vec<u8> {
    format!("<html>{}", "<div><table><tr><td>".repeat(200_000)).into_bytes()
}

/// Returns the reason of a failed reading, and checks that another file is still readable.
async fn failure(name: &str, content: &[u8]) -> String {
    let reading = read(name, content).await;
    assert!(reading.pages.is_empty());
    let TextState::Failed(reason) = reading.state else { panic!("{name}: {:?}", reading.state) };
    assert_eq!(read("invoice.pdf", &sample_invoice()).await.state, TextState::Ready);
    reason
}

#[tokio::test]
async fn a_truncated_pdf_fails() {
    let whole = sample_invoice();
    for file in [&whole[..600], b"%PDF-1.7\n"] {
        let reason = failure("cut.pdf", file).await;
        assert!(reason.contains("damaged"), "{reason}");
    }
}

/// Returns a file whose page draws a form that draws itself.
pub(crate) fn recursive_form() -> Vec<u8> {
    let form = stream(
        "/Type /XObject /Subtype /Form /BBox [0 0 10 10] /Resources << /XObject << /X 6 0 R >> >>",
        b"/X Do BT /F1 12 Tf (form) Tj ET",
    );
    let content = stream("", b"/X Do BT /F1 12 Tf 70 700 Td (page) Tj ET");
    one_page(content, "/XObject << /X 6 0 R >>", &[form])
}

#[tokio::test]
async fn a_form_that_draws_itself_is_drawn_a_limited_number_of_times() {
    let reading = read("self.pdf", &recursive_form()).await;
    assert!(text(&reading).contains("page"), "{reading:?}");
}

#[tokio::test]
async fn a_cyclic_page_tree_ends() {
    let pages = b"<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 9 >>".to_vec();
    failure("circle.pdf", &objects_to_file(&[CATALOG.to_vec(), pages])).await;
    // A search for inherited attributes along the parents would not end.
    let pages = b"<< /Type /Pages /Kids [3 0 R] /Count 1 /Parent 2 0 R >>".to_vec();
    let page = b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>".to_vec();
    let content = stream("", b"BT /F1 12 Tf 70 700 Td (page) Tj ET");
    let reading = read("parents.pdf", &objects_to_file(&[CATALOG.to_vec(), pages, page, content, FONT.to_vec()])).await;
    assert_eq!(text(&reading), "page");
}

#[tokio::test]
async fn a_flate_bomb_is_stopped_by_the_memory_limit() {
    let file = one_page(stream("/Filter /FlateDecode", &bomb(512)), "", &[]);
    assert!(file.len() < 4_000_000, "{}", file.len());
    let small = Options { child_memory_bytes: 400 * 1024 * 1024, ..options() };
    let reading = read_with(small, "bomb.pdf", &file).await;
    let TextState::Failed(reason) = &reading.state else { panic!("{:?}", reading.state) };
    assert!(reason.contains("memory"), "{reason}");
    assert_eq!(read("invoice.pdf", &sample_invoice()).await.state, TextState::Ready);
}

/// Returns compressed blanks of this size: one blank, then the code "258 bytes as the previous one" repeatedly.
pub(crate) fn bomb(mebibytes: usize) -> Vec<u8> {
    let mut bits = Bits::default();
    // The header of the last block, with the fixed code. Each code is written from its highest bit.
    bits.push(&[1, 1, 0]);
    bits.push(&[0, 1, 0, 1, 0, 0, 0, 0]);
    let mut file = vec![0x78, 0x9c];
    for _ in 0..mebibytes * 1024 * 1024 / 258 {
        bits.push(&[1, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0]);
    }
    bits.push(&[0; 16]);
    file.extend(bits.bytes);
    file
}

#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    used: u32,
}

impl Bits {
    fn push(&mut self, bits: &[u8]) {
        for bit in bits {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            *self.bytes.last_mut().unwrap() |= bit << (self.used % 8);
            self.used += 1;
        }
    }
}

/// Returns a file whose page cannot be drawn to its end: each of 30 forms draws the next one 30 times.
pub(crate) fn work_without_end() -> Vec<u8> {
    let depth = 30;
    let forms: Vec<Vec<u8>> = (0..depth)
        .map(|at| {
            let resources = format!("/Resources << /XObject << /X {} 0 R >> >>", at + 7);
            let entries = format!("/Type /XObject /Subtype /Form /BBox [0 0 10 10] {resources}");
            stream(&entries, if at + 1 < depth { "/X Do ".repeat(30) } else { "q Q".to_owned() }.as_bytes())
        })
        .collect();
    one_page(stream("", b"/X Do"), "/XObject << /X 6 0 R >>", &forms)
}

#[tokio::test]
async fn work_without_end_is_stopped_by_the_processor_limit() {
    let short = Options { child_cpu_seconds: 1, ..options() };
    let reading = read_with(short, "long.pdf", &work_without_end()).await;
    let TextState::Failed(reason) = &reading.state else { panic!("{:?}", reading.state) };
    assert!(reason.contains("processor time"), "{reason}");
}

#[tokio::test]
async fn work_without_end_is_stopped_by_the_wall_clock_limit() {
    let short = Options { child_seconds: 1, child_cpu_seconds: 60, ..options() };
    let reading = read_with(short, "long.pdf", &work_without_end()).await;
    assert_eq!(reading.state, TextState::Failed("reading the file took longer than 1 s".to_owned()));
}

/// Returns a file whose page prints a million texts, and one with a million objects.
pub(crate) fn million_objects() -> [Vec<u8>; 2] {
    let page = b"BT /F1 12 Tf 70 700 Td (page) Tj ET ".to_vec();
    let operators = [page.clone(), b"BT /F1 12 Tf 70 700 Td (x) Tj ET ".repeat(1_000_000)].concat();
    let objects = vec![b"null".to_vec(); 1_000_000];
    [one_page(stream("", &operators), "", &[]), one_page(stream("", &page), "", &objects)]
}

#[tokio::test]
async fn a_page_of_a_million_objects_affects_only_itself() {
    for file in million_objects() {
        let short = Options { child_cpu_seconds: 20, ..options() };
        let reading = read_with(short, "million.pdf", &file).await;
        match &reading.state {
            TextState::Ready => assert!(text(&reading).starts_with("page"), "{}", text(&reading).len()),
            TextState::Failed(reason) => {
                assert!(["time", "longer", "memory"].iter().any(|limit| reason.contains(limit)), "{reason}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(read("invoice.pdf", &sample_invoice()).await.state, TextState::Ready);
    }
}

#[tokio::test]
async fn html_nested_without_end_ends_the_child_only() {
    failure("deep.html", &deep_html()).await;
}
