//! Images of pages.

use folio_documents::PageRenderer;
use folio_resources::{DocumentChange, ImageFormat, PageImage, Rendition};
use folio_types::op::{Expected, Write};
use folio_types::{BlobKey, Error, Reason, Result, System, limits};
use image::RgbImage;

use super::malformed::{bomb, million_objects, one_page, recursive_form, work_without_end};
use super::protected::protected;
use super::recognition::{render, tiff};
use super::*;

fn png(page: u32, dpi: u32) -> PageImage {
    PageImage::new(page, dpi, ImageFormat::Png).unwrap()
}

struct Images {
    fixture: Fixture,
    renderer: PageRenderer,
}

impl Images {
    fn new(options: Options) -> Self {
        let fixture = Fixture::new();
        let renderer = PageRenderer::new(fixture.stores(), fixture.environment.clone(), options);
        Self { fixture, renderer }
    }

    async fn stored(&self, name: &str, content: &[u8]) -> Document {
        let options = Options { max_bytes: 64 * 1024 * 1024, ..options() };
        let uploader = self.fixture.uploader_within(None, &options);
        self.fixture.upload(&uploader, name, name, content).await.unwrap().document
    }

    async fn render(&self, document: &Document, image: PageImage) -> Result<RgbImage> {
        self.renderer.render(&document.org, &document.id, &Rendition::Page(image)).await?;
        let bytes = self.fixture.bytes(&key(document, image)).await.expect("the image is stored");
        Ok(image::load_from_memory(&bytes).unwrap().into_rgb8())
    }

    async fn refusal(&self, name: &str, content: &[u8], page: u32) -> Error {
        let document = self.stored(name, content).await;
        self.render(&document, png(page, 100)).await.unwrap_err()
    }

    async fn storage(&self) -> u64 {
        self.fixture.stores().of::<Document>().content_bytes(&self.fixture.principal.org).await.unwrap()
    }
}

fn key(document: &Document, image: PageImage) -> BlobKey {
    BlobKey { blob: image.blob(), ..document.blob_key() }
}

/// Returns the part of the pixels in a rectangle, in fractions of the page, that are dark.
fn darkness(image: &RgbImage, (left, top, right, bottom): (f64, f64, f64, f64)) -> f64 {
    let (width, height) = (f64::from(image.width()), f64::from(image.height()));
    let is_inside = |x: u32, y: u32| {
        let (x, y) = (f64::from(x) / width, f64::from(y) / height);
        (left..right).contains(&x) && (top..bottom).contains(&y)
    };
    let pixels: Vec<bool> = image
        .enumerate_pixels()
        .filter(|(x, y, _)| is_inside(*x, *y))
        .map(|(_, _, pixel)| pixel.0.iter().all(|part| *part < 128))
        .collect();
    let dark = pixels.iter().filter(|is_dark| **is_dark).count();
    #[expect(clippy::cast_precision_loss, reason = "an image has few pixels")]
    let part = dark as f64 / pixels.len().max(1) as f64;
    part
}

#[tokio::test]
async fn the_image_of_a_page_shows_each_word_in_its_box() {
    let images = Images::new(options());
    let pdf =
        document(&[Page::of_lines(&["Delivery note 4711", "Received by Lindqvist"]), Page::of_lines(&["second"])]);
    let stored = images.stored("a.pdf", &pdf).await;
    let image = images.render(&stored, png(1, 100)).await.unwrap();
    assert_eq!((image.width(), image.height()), (826, 1169), "A4 with 100 dpi");
    let reading = read("a.pdf", &pdf).await;
    let boxes = &reading.pages[0].boxes;
    for at in 0..boxes.len() {
        let area = boxes.fractions(at).unwrap();
        let dark = darkness(&image, (area.left, area.top, area.right, area.bottom));
        assert!(dark > 0.05, "word {at}: {dark}");
    }
    assert!(darkness(&image, (0.0, 0.5, 1.0, 1.0)) == 0.0, "the lower half is empty");
    // WebP has the same pixels; another resolution has more of them.
    let webp = images.render(&stored, PageImage::new(1, 100, ImageFormat::WebP).unwrap()).await.unwrap();
    assert!(webp == image);
    let large = images.render(&stored, png(1, 200)).await.unwrap();
    assert_eq!((large.width(), large.height()), (1652, 2338));
    assert!(images.render(&stored, png(2, 100)).await.unwrap() != image);
}

#[tokio::test]
async fn image_files_are_scaled_and_keep_their_orientation() {
    let images = Images::new(options());
    let page = document(&[Page::of_lines(&["Delivery note 4711"])]);
    for format in ["png", "jpeg", "tiff"] {
        let file = render(&page, Some(format));
        let source = image::load_from_memory(&file).unwrap().into_rgb8();
        let stored = images.stored(&format!("scan.{format}"), &file).await;
        let image = images.render(&stored, png(1, 100)).await.unwrap();
        let half = |pixels: u32| f64::from(pixels) / 2.0;
        assert!((half(source.width()) - f64::from(image.width())).abs() <= 1.0, "{format}");
        let whole = (0.0, 0.0, 1.0, 1.0);
        assert!((darkness(&image, whole) - darkness(&source, whole)).abs() < 0.01, "{format}");
    }
    // The second page of a TIFF file.
    let stored = images.stored("two.tiff", &tiff(&[(4, 2, vec![255; 8]), (2, 6, vec![0; 12])])).await;
    let second = images.render(&stored, png(2, 200)).await.unwrap();
    assert_eq!((second.dimensions(), second.get_pixel(0, 0).0), ((2, 6), [0, 0, 0]));
    assert_eq!(images.render(&stored, png(1, 200)).await.unwrap().get_pixel(0, 0).0, [255; 3]);
    let error = images.render(&stored, png(3, 200)).await.unwrap_err();
    assert!(error.message.contains("no page 3"), "{error}");
}

#[tokio::test]
async fn pages_that_cannot_be_rendered_are_refused() {
    let images = Images::new(Options { child_memory_bytes: 400 * 1024 * 1024, ..options() });
    let whole = document(&[Page::of_lines(&["page"])]);
    let cut = &whole[..200];
    let flate = one_page(stream("/Filter /FlateDecode", &bomb(512)), "", &[]);
    let protected = protected(&[Page::of_lines(&["secret"])]);
    for (name, content, page, reason) in [
        ("a.txt", &b"text"[..], 1, Reason::UnsupportedType),
        ("two.pdf", &whole, 2, Reason::InvalidField),
        ("last.pdf", &whole, u32::MAX, Reason::InvalidField),
        ("cut.pdf", cut, 1, Reason::InvalidField),
        ("bomb.pdf", &flate, 1, Reason::InvalidField),
        ("protected.pdf", &protected, 1, Reason::InvalidField),
        ("header.png", PNG, 1, Reason::InvalidField),
    ] {
        let error = images.refusal(name, content, page).await;
        assert_eq!(error.reason, reason, "{name}: {error}");
    }
    // Another file is not affected, and no refused image is stored.
    let stored = images.stored("whole.pdf", &whole).await;
    images.render(&stored, png(1, 50)).await.unwrap();
    let stored: Vec<_> = futures::StreamExt::collect(images.fixture.stores().blobs.scan()).await;
    assert_eq!(stored.len(), 7 + 2, "{stored:?}");
}

#[tokio::test]
async fn rendering_without_end_is_stopped() {
    let images = Images::new(Options { page_image_seconds: 1, ..options() });
    let is_running = async || (images.renderer.running() == 1).then_some(());
    let running = wait_for("a counted image", SOON, is_running);
    let endless = work_without_end();
    let (error, ()) = tokio::join!(images.refusal("long.pdf", &endless, 1), running);
    assert_eq!(images.renderer.running(), 0);
    assert_eq!(error.reason, Reason::InvalidField, "{error}");
    assert!(error.message.contains("time") || error.message.contains("longer"), "{error}");
}

#[tokio::test]
async fn recursive_forms_and_a_million_objects_affect_only_their_own_images() {
    let images = Images::new(Options { page_image_seconds: 10, ..options() });
    let [operators, objects] = million_objects();
    for (name, file) in [("self.pdf", recursive_form()), ("operators.pdf", operators), ("objects.pdf", objects)] {
        let hostile = images.stored(name, &file).await;
        if let Err(error) = images.render(&hostile, png(1, 50)).await {
            assert_eq!(error.reason, Reason::InvalidField, "{name}: {error}");
        }
        assert_eq!(images.renderer.running(), 0, "{name}");
        let whole = images.stored(&format!("whole-{name}"), &document(&[Page::of_lines(&["page"])])).await;
        images.render(&whole, png(1, 50)).await.unwrap();
    }
}

#[tokio::test]
async fn a_huge_page_has_at_most_4096_pixels() {
    let page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 14400 7200] >>";
    let objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
        page.into(),
    ];
    let images = Images::new(options());
    let stored = images.stored("huge.pdf", &objects_to_file(&objects)).await;
    assert_eq!(images.render(&stored, png(1, 200)).await.unwrap().dimensions(), (4_096, 2_048));
}

#[tokio::test]
async fn images_count_as_storage_until_they_expire_or_their_document_is_deleted() {
    let images = Images::new(options());
    let pdf = document(&[Page::of_lines(&["page"])]);
    let [first, second] = [images.stored("1.pdf", &pdf).await, images.stored("2.pdf", &pdf).await];
    assert_eq!(images.storage().await, 0);
    images.render(&first, png(1, 100)).await.unwrap();
    let one = images.storage().await;
    assert_eq!(one, images.fixture.bytes(&key(&first, png(1, 100))).await.unwrap().len() as u64);
    images.render(&first, png(1, 100)).await.unwrap();
    assert_eq!(images.storage().await, one, "an image that exists is not rendered again");
    images.render(&second, png(1, 100)).await.unwrap();
    assert_eq!(images.storage().await, 2 * one);

    let (cleaner, handle) = images.fixture.cleaner();
    let write = {
        let (org, key) = (images.fixture.principal.org.clone(), "delete".parse().unwrap());
        let expected = Expected::Version(first.version);
        Write::by_platform(org, key, images.fixture.environment.now(), expected, DocumentChange::Delete)
    };
    images.fixture.stores().of::<Document>().decide(&first.id, write).await.unwrap();
    handle.sweep_soon();
    let is_removed = async || images.fixture.bytes(&key(&first, png(1, 100))).await.is_none().then_some(());
    wait_for("the images of a deleted document are removed", SOON, is_removed).await;
    assert_eq!(images.storage().await, one);
    assert!(images.render(&first, png(1, 100)).await.is_err_and(|error| error.reason == Reason::NotFound));

    // The blob store has the clock of the machine.
    let behind = System.now().duration_since(images.fixture.environment.now());
    images.fixture.environment.advance(Duration::try_from(behind).unwrap() + 2 * limits::DAY);
    handle.sweep_soon();
    let is_expired = async || (images.storage().await == 0).then_some(());
    wait_for("an old image expires", SOON, is_expired).await;
    assert!(images.fixture.bytes(&second.blob_key()).await.is_some(), "the file is kept");
    cleaner.stop(SOON).await;
}
