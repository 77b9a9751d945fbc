//! OCR with Tesseract and pdftoppm.

use std::path::{Path, PathBuf};
use std::process::Command;

use folio_testkit::scan;

use super::*;

/// Runs a required tool. The failure names its package.
pub(crate) fn tool(program: &str, package: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status();
    let status = status.unwrap_or_else(|error| panic!("{program} ({error}): install the package {package}"));
    assert!(status.success(), "{program} {arguments:?}");
}

fn page() -> Vec<u8> {
    document(&[Page::of_lines(&["Delivery note 4711", "Received by Lindqvist"])])
}

/// Renders a PDF of one page as an image of this format, or as gray pixels (PGM).
pub(crate) fn render(pdf: &[u8], format: Option<&str>) -> Vec<u8> {
    scan::render(pdf, format).unwrap()
}

/// Returns a PDF that contains only an image of [`page`] on each page, and no text layer.
fn scanned(pages: usize) -> Vec<u8> {
    scan::pdf_of_jpeg(&render(&page(), Some("jpeg")), pages)
}

#[tokio::test]
async fn images_are_recognized() {
    tool("tesseract", "tesseract-ocr", &["--version"]);
    for format in ["png", "jpeg", "tiff"] {
        let reading = read("scan", &render(&page(), Some(format))).await;
        assert_eq!(reading.state, TextState::Ready, "{format}");
        let text = text(&reading);
        assert!(text.contains("Delivery note 4711") && text.contains("Lindqvist"), "{format}: {text}");
    }
}

/// Returns a TIFF file of gray images: width, height, and one byte per pixel.
pub(crate) fn tiff(images: &[(u32, u32, Vec<u8>)]) -> Vec<u8> {
    let mut file = b"II*\0\0\0\0\0".to_vec();
    // Position of the offset of the next directory.
    let mut link = 4;
    for (width, height, points) in images {
        let data = u32::try_from(file.len()).unwrap();
        file.extend(points);
        file.resize(file.len().next_multiple_of(2), 0);
        let directory = u32::try_from(file.len()).unwrap();
        file[link..link + 4].copy_from_slice(&directory.to_le_bytes());
        // Width, height, bits, no compression, black is 0, data offset, samples, rows, bytes.
        let tags = [256, 257, 258, 259, 262, 273, 277, 278, 279];
        let values = [*width, *height, 8, 1, 1, data, 1, *height, width * height];
        let entries = tags.into_iter().zip(values);
        file.extend(u16::try_from(tags.len()).unwrap().to_le_bytes());
        for (tag, value) in entries {
            file.extend(u16::to_le_bytes(tag));
            file.extend(4_u16.to_le_bytes());
            file.extend(1_u32.to_le_bytes());
            file.extend(value.to_le_bytes());
        }
        link = file.len();
        file.extend([0; 4]);
    }
    file
}

/// Renders a line of text as gray pixels: width, height, and one byte per pixel.
fn page_image(line: &str) -> (u32, u32, Vec<u8>) {
    let pgm = render(&document(&[Page::of_lines(&[line])]), None);
    let mut header = pgm.splitn(4, |byte| byte.is_ascii_whitespace());
    let mut number = || std::str::from_utf8(header.next().unwrap()).unwrap().parse::<u32>();
    assert!(number().is_err(), "P5");
    let (width, height) = (number().unwrap(), number().unwrap());
    let points = pgm[pgm.len() - (width * height) as usize..].to_vec();
    (width, height, points)
}

#[tokio::test]
async fn a_tiff_is_recognized_page_by_page() {
    tool("tesseract", "tesseract-ocr", &["--version"]);
    let file = tiff(&[page_image("Delivery note 4711"), page_image("Second page 0815")]);
    let reading = read("fax.tif", &file).await;
    assert_eq!(reading.state, TextState::Ready);
    let texts: Vec<&str> = reading.pages.iter().map(|page| page.text.as_str()).collect();
    assert_eq!(texts, ["Delivery note 4711", "Second page 0815"]);
}

#[tokio::test]
async fn pages_without_a_text_layer_are_recognized() {
    tool("tesseract", "tesseract-ocr", &["--version"]);
    let reading = read_with(Options { ocr_pages: 2, ..options() }, "scan.pdf", &scanned(3)).await;
    assert_eq!(reading.state, TextState::Ready);
    let texts: Vec<&str> = reading.pages.iter().map(|page| page.text.as_str()).collect();
    assert!(texts[0].contains("Delivery note 4711") && texts[1].contains("Delivery note 4711"), "{texts:?}");
    assert!(texts[2].starts_with("[Not recognized: the document has more than 2 pages"), "{texts:?}");
    let gaps: Vec<_> = reading.pages.iter().map(|page| page.gap).collect();
    assert_eq!(gaps, [None, None, Some(TextGap::Missing)]);
}

#[tokio::test]
async fn the_state_names_the_missing_package() {
    let without = |tesseract: &str, pdftoppm: &str| Options {
        tesseract: PathBuf::from(tesseract),
        pdftoppm: PathBuf::from(pdftoppm),
        ..options()
    };
    let png = render(&page(), Some("png"));
    let reading = read_with(without("no-such-tesseract", "pdftoppm"), "scan.png", &png).await;
    assert!(matches!(&reading.state, TextState::NoText(reason) if reason.contains("tesseract-ocr")), "{reading:?}");
    for options in [without("no-such-tesseract", "pdftoppm"), without("tesseract", "/no/such/pdftoppm")] {
        let reading = read_with(options, "scan.pdf", &scanned(1)).await;
        let TextState::NoText(reason) = &reading.state else { panic!("{reading:?}") };
        assert!(reason.contains("no text layer") && reason.contains("install"), "{reason}");
    }
    let mixed = document(&[Page::of_lines(&["Delivery note 4711"]), Page::of_lines(&[""])]);
    let reading = read_with(without("no-such-tesseract", "pdftoppm"), "mixed.pdf", &mixed).await;
    let gaps: Vec<_> = reading.pages.iter().map(|page| page.gap).collect();
    assert_eq!(gaps, [None, Some(TextGap::Missing)], "the second page may be an image");
}

#[tokio::test]
async fn a_language_that_is_not_installed_is_reported() {
    tool("tesseract", "tesseract-ocr", &["--version"]);
    let options = Options { ocr_languages: "eng+tlh_frak".to_owned(), ..options() };
    let reading = read_with(options, "scan.png", &render(&page(), Some("png"))).await;
    let TextState::NoText(reason) = &reading.state else { panic!("{reading:?}") };
    assert!(reason.contains("language tlh_frak") && reason.contains("tesseract-ocr-tlh-frak"), "{reason}");
    assert!(reading.lacks_program, "the file is read once the language is installed");
}

#[tokio::test]
async fn an_image_without_text_has_no_text() {
    let blank = document(&[Page::new()]);
    let reading = read("blank.pdf", &blank).await;
    assert_eq!(reading.state, TextState::NoText("the file contains no text".to_owned()));
}

#[tokio::test]
async fn a_broken_image_fails() {
    let reading = read("a.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\xff\xff\0\0\xff\xff\x08\0\0\0\0").await;
    let TextState::Failed(reason) = &reading.state else { panic!("{reading:?}") };
    assert!(reason.contains("exit status 1: "), "the reason contains Tesseract's error: {reason}");
    let reading = read("a.tiff", b"II*\0\x08\0\0\0\xff\xff\0\0\0\0").await;
    assert!(matches!(reading.state, TextState::Failed(_)), "{reading:?}");
}

fn fake_tesseract(folder: &Path, body: &str) -> Options {
    let program = folder.join("tesseract");
    recognizer(&program, body);
    Options { tesseract: program, ocr_page_seconds: 20, ..options() }
}

#[tokio::test]
async fn a_child_gets_limits_and_no_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let names: String = ('A'..='Z').chain('a'..='z').chain(['_']).map(|letter| format!(" ${{!{letter}*}}")).collect();
    let exported =
        format!(r#"for name in{names}; do if [[ "${{!name@a}}" == *x* ]]; then say "export $name="; fi; done"#);
    let limits = "row; ulimit -v; row; ulimit -t; row; ulimit -c";
    let options = fake_tesseract(folder.path(), &format!("{exported}; {limits}"));
    let (memory_kib, seconds) = (options.child_memory_bytes / 1024, options.ocr_page_seconds);
    let reading = read_with(options, "a.png", PNG).await;
    let seen = text(&reading);
    let variables: Vec<&str> = seen.lines().filter_map(|line| line.strip_prefix("export ")).collect();
    assert!(!variables.is_empty(), "{seen}");
    for variable in variables {
        let name = variable.split('=').next().unwrap();
        assert!(
            ["HOME", "MIMALLOC_DISALLOW_ARENA_ALLOC", "OMP_THREAD_LIMIT", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_"]
                .contains(&name),
            "{variable}"
        );
    }
    assert!(seen.ends_with(&format!("{memory_kib}\n{seconds}\n0")), "{seen}");
    assert!(std::env::var_os("PATH").is_some(), "this process has an environment to hide");
}

/// Returns the processes whose working directory is this folder.
fn processes_in(folder: &Path) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter(|entry| std::fs::read_link(entry.path().join("cwd")).is_ok_and(|found| found == folder)).count()
}

#[tokio::test]
async fn a_hanging_child_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let reader = TextReader::new(Options { ocr_page_seconds: 2, ..fake_tesseract(folder.path(), SLOW) });
    let scratch = folder.path().join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let file = scratch.join("document");
    std::fs::write(&file, PNG).unwrap();
    let started = || async { (processes_in(&scratch) > 0).then_some(()) };
    let (reading, ()) =
        tokio::join!(reader.read("image/png", &file, &scratch), wait_for("the child to start", SOON, started));
    assert_eq!(reading.unwrap().state, TextState::Failed("reading the file took longer than 3 s".to_owned()));
    let ended = || async { (processes_in(&scratch) == 0).then_some(()) };
    wait_for("the child to end", SOON, ended).await;
}

#[tokio::test]
async fn a_killed_child_costs_its_file_only_after_two_attempts() {
    let folder = tempfile::tempdir().unwrap();
    // The program replaces the child process, so that the confinement does not refuse its file.
    let (worker, attempts) = (folder.path().join("worker"), folder.path().join("attempts"));
    script(&worker, &format!("echo attempt >>{}; kill -9 $$", attempts.display()));
    let reading = read_with(Options { worker: Some(worker), ..options() }, "invoice.pdf", &sample_invoice()).await;
    assert!(matches!(&reading.state, TextState::Failed(reason) if reason.contains("memory")), "{reading:?}");
    assert_eq!(std::fs::read_to_string(attempts).unwrap(), "attempt\nattempt\n");
}

#[tokio::test]
async fn a_file_of_many_pages_fails_after_two_killed_attempts() {
    let blank = |_| (8, 8, vec![255; 64]);
    for (name, content) in [("scan.pdf", scanned(4)), ("fax.tif", tiff(&[0; 4].map(blank)))] {
        let folder = tempfile::tempdir().unwrap();
        let (worker, started) = (folder.path().join("worker"), folder.path().join("started"));
        // The confined program cannot write, so that a wrapper of the child process records the tasks.
        let child = env!("CARGO_BIN_EXE_folio-read-file");
        script(&worker, &format!(r#"echo "$2" >>{}; exec {child} "$@""#, started.display()));
        // The program lists its languages and is killed at each page.
        let killed = fake_tesseract(folder.path(), r#"case "$1" in --list-langs) ;; *) kill -9 $$ ;; esac"#);
        let reading = read_with(Options { worker: Some(worker), ..killed }, name, &content).await;
        let TextState::Failed(reason) = &reading.state else { panic!("{name}: {reading:?}") };
        assert!(reason.contains("killed 2 times") && reason.contains("memory"), "{name}: {reason}");
        let started = std::fs::read_to_string(started).unwrap();
        let attempts = started.lines().filter(|task| task.contains("stdout")).count();
        assert_eq!(attempts, 2, "{name}: {started}");
    }
}

#[tokio::test]
async fn endless_output_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let options = fake_tesseract(folder.path(), "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done");
    let reading = read_with(Options { ocr_page_seconds: 2, ..options }, "a.png", PNG).await;
    assert!(matches!(&reading.state, TextState::Failed(_)), "{reading:?}");
}

#[tokio::test]
async fn pages_after_the_time_of_a_document_are_marked() {
    let folder = tempfile::tempdir().unwrap();
    let slow = fake_tesseract(folder.path(), "while ((SECONDS < 2)); do :; done; say recognized");
    let slow = Options { ocr_document_seconds: 1, ..slow };
    let reading = read_with(slow, "scan.pdf", &scanned(3)).await;
    assert_eq!(reading.state, TextState::Ready);
    let texts: Vec<&str> = reading.pages.iter().map(|page| page.text.as_str()).collect();
    let mark = "[Not recognized: the previous pages took longer than 1 s.]";
    assert_eq!(texts, ["recognized", mark, mark]);
}
