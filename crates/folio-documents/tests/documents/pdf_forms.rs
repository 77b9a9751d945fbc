//! Renditions of documents as PDF files.

use std::io::Cursor;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use folio_documents::PageRenderer;
use folio_resources::Rendition;
use folio_storage::NewPage;
use folio_testkit::office;
use folio_types::{BlobKey, Error, Reason, Result};
use image::{ImageFormat, Rgb, RgbImage};

use super::recognition::tiff;
use super::*;

struct Forms {
    fixture: Fixture,
    renderer: PageRenderer,
}

impl Forms {
    fn new(options: Options) -> Self {
        let fixture = Fixture::new();
        let renderer = PageRenderer::new(fixture.stores(), fixture.environment.clone(), options);
        Self { fixture, renderer }
    }

    /// Uploads a file, and stores the state and the pages of its text as an ingestion does.
    async fn stored(&self, name: &str, content: &[u8], state: TextState, pages: &[&str]) -> Document {
        let uploader = self.fixture.uploader_within(None, &Options { max_bytes: 8 * 1024 * 1024, ..options() });
        let id = self.fixture.upload(&uploader, name, name, content).await.unwrap().document.id;
        let at = self.fixture.environment.now();
        let pages = (1..).zip(pages).map(|(number, text)| NewPage::of_text(number, *text)).collect();
        let update = IngestUpdate { state, pages, lacks_program: false, at };
        self.fixture.stores().texts.ingest(&self.fixture.principal.org, id.as_str(), update).await.unwrap();
        self.fixture.document(&id).await
    }

    async fn pdf(&self, document: &Document) -> Result<Vec<u8>> {
        self.renderer.render(&document.org, &document.id, &Rendition::Pdf).await?;
        let key = BlobKey { blob: Rendition::Pdf.blob(document), ..document.blob_key() };
        Ok(self.fixture.bytes(&key).await.expect("the PDF rendition is stored"))
    }

    async fn refusal(&self, name: &str, content: &[u8], state: TextState) -> Error {
        let document = self.stored(name, content, state, &[]).await;
        self.pdf(&document).await.unwrap_err()
    }
}

/// Returns the text of each page of a PDF file, as an ingestion extracts it.
async fn texts(file: &[u8]) -> Vec<String> {
    let reading = read("form.pdf", file).await;
    reading.pages.into_iter().map(|page| page.text).collect()
}

fn encoded(format: ImageFormat, (width, height): (u32, u32)) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    RgbImage::from_pixel(width, height, Rgb([250, 40, 40])).write_to(&mut file, format).unwrap();
    file.into_inner()
}

#[tokio::test]
async fn the_form_of_a_text_contains_its_pages() {
    let forms = Forms::new(options());
    let text = forms.stored("a.txt", b"bytes", TextState::Ready, &["First: 12,50 €", "Second"]).await;
    let texts = texts(&forms.pdf(&text).await.unwrap()).await;
    assert_eq!(texts.len(), 2);
    assert!(texts[0].contains("First: 12,50 €") && texts[1].contains("Second"), "{texts:?}");
    // Without LibreOffice, the rendition of an office document also contains the extracted text.
    let docx = office::docx(&["Paragraph"], ["a", "b"]);
    let office = forms.stored("a.docx", &docx, TextState::Ready, &["Paragraph"]).await;
    assert!(self::texts(&forms.pdf(&office).await.unwrap()).await[0].contains("Paragraph"));
}

#[tokio::test]
async fn the_form_of_an_image_has_a_page_for_each_of_its_images() {
    let forms = Forms::new(options());
    let sizes = |file: &[u8]| {
        let file = lopdf::Document::load_mem(file).unwrap();
        let images = file.get_pages().into_values().map(|page| {
            let image = file.get_page_images(page).unwrap().remove(0);
            let pixels = image::load_from_memory(image.content).unwrap().into_rgb8();
            (pixels.dimensions(), pixels.get_pixel(0, 0).0[0] > 200)
        });
        images.collect::<Vec<_>>()
    };
    for (format, name) in [
        (ImageFormat::Png, "a.png"),
        (ImageFormat::Jpeg, "a.jpg"),
        (ImageFormat::Gif, "a.gif"),
        (ImageFormat::Bmp, "a.bmp"),
        (ImageFormat::WebP, "a.webp"),
    ] {
        let image = forms.stored(name, &encoded(format, (60, 30)), TextState::Uploaded, &[]).await;
        assert_eq!(sizes(&forms.pdf(&image).await.unwrap()), [((60, 30), true)], "{name}");
    }
    let pages = tiff(&[(4, 2, vec![255; 8]), (2, 6, vec![0; 12]), (8, 8, vec![255; 64])]);
    let scan = forms.stored("a.tiff", &pages, TextState::Uploaded, &[]).await;
    let expected = [((4, 2), true), ((2, 6), false), ((8, 8), true)];
    assert_eq!(sizes(&forms.pdf(&scan).await.unwrap()), expected);
    // The maximum number of pages of a document bounds its rendition.
    let forms = Forms::new(Options { max_pages: 2, ..options() });
    let scan = forms.stored("b.tiff", &pages, TextState::Uploaded, &[]).await;
    assert_eq!(sizes(&forms.pdf(&scan).await.unwrap()), expected[..2]);
}

#[tokio::test]
async fn a_form_that_cannot_be_made_is_refused() {
    let forms = Forms::new(options());
    let pdf = document(&[Page::of_lines(&["page"])]);
    let no_text = || TextState::NoText("blank".to_owned());
    for (name, content, state, reason) in [
        ("a.pdf", pdf.as_slice(), TextState::Ready, Reason::UnsupportedType),
        ("new.txt", b"text", TextState::Processing, Reason::NoText),
        ("blank.txt", b"   \n", no_text(), Reason::NoText),
        ("header.png", PNG, TextState::Uploaded, Reason::InvalidField),
    ] {
        let error = forms.refusal(name, content, state).await;
        assert_eq!(error.reason, reason, "{name}: {error}");
    }
}

#[tokio::test]
async fn the_form_is_made_again_after_the_text_was_extracted_again() {
    let forms = Forms::new(options());
    let first = forms.stored("a.txt", b"bytes", TextState::Ready, &["old words"]).await;
    assert!(texts(&forms.pdf(&first).await.unwrap()).await[0].contains("old words"));
    let at = forms.fixture.environment.now() + Duration::from_secs(1);
    let pages = vec![NewPage::of_text(1, "new words")];
    let update = IngestUpdate { state: TextState::Ready, pages, lacks_program: false, at };
    forms.fixture.stores().texts.ingest(&first.org, first.id.as_str(), update).await.unwrap();
    let second = forms.fixture.document(&first.id).await;
    assert!(texts(&forms.pdf(&second).await.unwrap()).await[0].contains("new words"));
}

/// Writes a program that replaces LibreOffice. The first run of the program creates the profile, and the second run
/// executes `body`, which may use the folder `$out` and the file `$input`.
fn converter(folder: &Path, body: &str) -> PathBuf {
    let program = folder.join("soffice.bin");
    let text = format!(
        r#"#!/bin/bash
for argument; do
  case "$argument" in -env:UserInstallation=file://*) profile="${{argument#-env:UserInstallation=file://}}" ;; esac
  if [ "$last" = --outdir ]; then out="$argument"; fi
  last="$argument"
done
input="$last"
if ! [ -e "$profile" ]; then : >"$profile"; exit 81; fi
{body}
"#
    );
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    program
}

#[tokio::test]
async fn an_office_document_is_converted_by_a_confined_program() {
    let folder = tempfile::tempdir().unwrap();
    let outside = folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "secret\n").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (secret, written) = (outside.join("secret"), outside.join("written"));
    let body = format!(
        r#"attempt() {{ if "$@" 2>/dev/null; then echo "$1: succeeded"; else echo "$1: refused"; fi; }}
read_input() {{ IFS= read -r line <"$input"; [ -n "$line" ]; }}
read_secret() {{ read -r line <"{secret}"; }}
write() {{ : >"{written}"; }}
connect() {{ : <>/dev/tcp/127.0.0.1/{port}; }}
{{ for attack in read_input read_secret write connect; do attempt "$attack"; done; }} >"$out/document.pdf""#,
        secret = secret.display(),
        written = written.display(),
    );
    let soffice = converter(folder.path(), &body);
    let forms = Forms::new(Options { soffice: Some(soffice), ..options() });
    let rtf = forms.stored("a.rtf", b"{\\rtf1 Hello}", TextState::Ready, &["Hello"]).await;
    let found = String::from_utf8(forms.pdf(&rtf).await.unwrap()).unwrap();
    let expected = "read_input: succeeded\nread_secret: refused\nwrite: refused\nconnect: refused\n";
    assert_eq!(found, expected);
    assert!(!written.exists());
    // A text file needs no program.
    let text = forms.stored("a.txt", b"plain", TextState::Ready, &["plain"]).await;
    assert!(texts(&forms.pdf(&text).await.unwrap()).await[0].contains("plain"));
}

#[tokio::test]
async fn the_form_contains_the_text_if_the_program_fails() {
    for body in ["exit 1", "exit 0", "while :; do :; done"] {
        let folder = tempfile::tempdir().unwrap();
        let soffice = converter(folder.path(), body);
        let forms = Forms::new(Options { soffice: Some(soffice), pdf_seconds: 1, ..options() });
        let rtf = forms.stored("a.rtf", b"{\\rtf1 Hello}", TextState::Ready, &["Hello text"]).await;
        assert!(texts(&forms.pdf(&rtf).await.unwrap()).await[0].contains("Hello text"), "{body}");
    }
}

#[tokio::test]
async fn libreoffice_converts_an_office_document_within_the_confinement() {
    let memory = 1024 * 1024 * 1024;
    let forms = Forms::new(Options { soffice: Some("soffice".into()), child_memory_bytes: memory, ..options() });
    let docx = office::docx(&["Delivery note 4711"], ["left", "right"]);
    // The stored text differs from the file, so that the rendition shows which of them it contains.
    let document = forms.stored("a.docx", &docx, TextState::Ready, &["other text"]).await;
    let texts = texts(&forms.pdf(&document).await.unwrap()).await;
    assert!(texts[0].contains("Delivery note 4711") && !texts[0].contains("other text"), "{texts:?}");
}
