//! Fuzzing of ingestion with damaged PDF files: each file reaches a final state within its limits, with normalized
//! text. The test reads at least 2,000 files; `cargo xtask fuzz` runs longer.

use std::sync::atomic::{AtomicUsize, Ordering};

use folio_documents::Reading;
use futures::StreamExt as _;

use super::*;

/// Files per iteration. Two of them are read concurrently.
const BATCH: usize = 20;
const ITERATIONS: usize = 100;
/// Byte sequences that are difficult for parsers.
const TOKENS: [&[u8]; 16] = [
    b"0 0 R",
    b"1 0 R",
    b"99999999 0 R",
    b"<<",
    b">>",
    b"[",
    b"]",
    b"(",
    b"/Kids",
    b"/Contents",
    b"/FlateDecode",
    b"-1",
    b"4294967296",
    b"stream",
    b"endobj",
    b"\0",
];

#[test]
fn damaged_pdfs_affect_only_themselves() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let seeds = seeds();
    let (ready, all) = (AtomicUsize::new(0), AtomicUsize::new(0));
    bolero::check!().with_iterations(ITERATIONS).with_max_len(BATCH * 16).with_type::<Vec<u8>>().for_each(|input| {
        runtime.block_on(async {
            let files: Vec<Vec<u8>> = mutation_scripts(input).map(|script| mutate(&seeds, script)).collect();
            let readings = futures::stream::iter(&files).map(|file| check(file)).buffer_unordered(2);
            let states: Vec<TextState> = readings.collect().await;
            all.fetch_add(states.len(), Ordering::Relaxed);
            ready.fetch_add(states.iter().filter(|state| **state == TextState::Ready).count(), Ordering::Relaxed);
        });
    });
    let (ready, all) = (ready.into_inner(), all.into_inner());
    // A test in which all files or none are readable would prove little. The seed determines the fraction.
    assert!(all >= 2_000 && ready * 50 > all && ready * 50 < all * 49, "of {all} damaged files {ready} were readable");
    let unmodified = runtime.block_on(read("invoice.pdf", &sample_invoice()));
    assert_eq!(unmodified.state, TextState::Ready);
}

/// Returns one segment of the input per damaged file. The file number varies the segments of a short input.
fn mutation_scripts(input: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0..BATCH).map(move |at| {
        let mut script = vec![u8::try_from(at % 256).unwrap_or_default()];
        script.extend(input.iter().skip(at * 16).chain(input).take(16));
        script.resize(17, 0);
        script
    })
}

fn seeds() -> Vec<Vec<u8>> {
    let form = stream("/Type /XObject /Subtype /Form /BBox [0 0 9 9]", b"BT /F1 12 Tf (form) Tj ET");
    let cmap = b"/CIDInit /ProcSet findresource begin 1 begincodespacerange <00> <ff> endcodespacerange \
                 1 beginbfchar <41> <0042> endbfchar endcmap";
    let rich = objects_to_file(&[
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [3 0 R 3 0 R] /Count 2 /MediaBox [0 0 595 842] >>".to_vec(),
        b"<< /Type /Page /Parent 2 0 R /Contents [4 0 R 4 0 R] /Resources << /Font << /F1 6 0 R >> /XObject << /X 5 0 R >> >> >>"
            .to_vec(),
        stream("", b"q /X Do Q BT /F1 12 Tf 70 700 Td [(AB) -250 (CD)] TJ T* <4142> Tj ET"),
        form,
        b"<< /Type /Font /Subtype /TrueType /BaseFont /X /FirstChar 65 /LastChar 66 /Widths [500 600] /ToUnicode 7 0 R >>"
            .to_vec(),
        stream("", cmap),
    ]);
    vec![sample_invoice(), document(&[Page::of_lines(&["one"]), Page::of_lines(&["two"])]), rich]
}

/// Damages a file. The first two bytes of the script select the file, and each further group of four bytes is one step.
/// A step damages one object. The file then gets a correct table of its objects, so that parsers reach them. About a
/// quarter of the files is damaged once more as a whole, including that table.
fn mutate(seeds: &[Vec<u8>], script: Vec<u8>) -> Vec<u8> {
    let [salt, choice, steps @ ..] = script.as_slice() else { return Vec::new() };
    let mut objects = objects(&seeds[usize::from(*choice ^ *salt) % seeds.len()]);
    let mut state = u64::from(*salt) + 1;
    for step in steps.chunks(4) {
        for byte in step {
            state = (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        }
        // Longer objects are damaged more often, so that content is damaged and not only structure.
        let mut position = (state >> 24) as usize % objects.iter().map(Vec::len).sum::<usize>().max(1);
        for object in &mut objects {
            if position < object.len() {
                damage(object, state);
                break;
            }
            position -= object.len();
        }
    }
    let mut file = objects_to_file(&objects);
    if salt.is_multiple_of(4) {
        damage(&mut file, state.rotate_left(17));
        // A file without a PDF header is refused earlier, so the first line stays.
        file.splice(..9, b"%PDF-1.4\n".iter().copied());
    }
    file
}

/// Returns the objects of a file that [`objects_to_file`] created.
fn objects(file: &[u8]) -> Vec<Vec<u8>> {
    let find = |from: usize, what: &[u8]| {
        file[from..].windows(what.len()).position(|window| window == what).map(|at| from + at)
    };
    let mut objects = Vec::new();
    let mut from = 0;
    while let (Some(start), Some(end)) = (find(from, b" 0 obj\n"), find(from, b"\nendobj\n")) {
        objects.push(file[start + 7..end].to_vec());
        from = end + 8;
    }
    objects
}

fn damage(file: &mut Vec<u8>, state: u64) {
    if file.len() < 16 {
        return;
    }
    let at = (state >> 8) as usize % file.len();
    let length = ((state >> 40) as usize % 24).min(file.len() - at);
    match state % 7 {
        0 | 1 => file[at] ^= 1 << (state >> 32 & 7),
        2 => file[at] = (state >> 32) as u8,
        3 => drop(file.drain(at..at + length)),
        4 => {
            let copy = file[at..at + length].to_vec();
            let to = (state >> 20) as usize % file.len();
            file.splice(to..to, copy);
        }
        5 => {
            let token = TOKENS[(state >> 48) as usize % TOKENS.len()];
            let end = (at + token.len()).min(file.len());
            file.splice(at..end, token.iter().copied());
        }
        _ => {
            // References, lengths and counts consist of digits.
            if let Some(digit) = file[at..].iter_mut().find(|byte| byte.is_ascii_digit()) {
                *digit = b'0' + (state >> 32) as u8 % 10;
            }
        }
    }
}

async fn check(file: &[u8]) -> TextState {
    let options = Options {
        child_cpu_seconds: 2,
        child_seconds: 20,
        child_memory_bytes: 512 * 1024 * 1024,
        page_chars: 5_000,
        tesseract: "no-such-tesseract".into(),
        ..options()
    };
    let Reading { state, pages, .. } = read_with(options, "damaged.pdf", file).await;
    assert!(state.is_settled());
    assert_eq!(state == TextState::Ready, !pages.is_empty(), "{state:?}");
    for page in pages {
        assert!(page.text.chars().count() < 5_200);
        assert!(!page.text.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "{:?}", page.text);
    }
    state
}
