//! Images of messages.

use folio_documents::{MODEL_IMAGE_TYPE, Uploader};
use folio_types::message::MessageImage;
use folio_types::{Error, Reason, RequestId, Result, limits};
use image::{ImageFormat, Rgb, RgbImage};

use super::*;

struct Images {
    fixture: Fixture,
    uploader: Uploader,
}

impl Images {
    fn new() -> Self {
        let fixture = Fixture::new();
        let uploader = fixture.uploader_within(None, &options());
        Self { fixture, uploader }
    }

    async fn upload(&self, request: &str, file: &[u8]) -> Result<MessageImage> {
        let request: RequestId = request.parse().unwrap();
        self.uploader.upload_image(&self.fixture.principal, &request, &Bytes::copy_from_slice(file)).await
    }

    async fn refusal(&self, request: &str, file: &[u8]) -> Error {
        self.upload(request, file).await.unwrap_err()
    }

    async fn pixels(&self, image: &MessageImage) -> RgbImage {
        let images = self.fixture.stores().message_images();
        let bytes = images.read(&self.fixture.principal.org, &image.id).await.unwrap().expect("the image is stored");
        assert_eq!(bytes.len() as u64, image.bytes);
        assert_eq!(image::guess_format(&bytes).unwrap(), ImageFormat::Jpeg);
        image::load_from_memory(&bytes).unwrap().into_rgb8()
    }
}

/// Returns a file whose left half is red and whose right half is blue.
fn halves(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
    let pixels =
        RgbImage::from_fn(width, height, |x, _| if x < width / 2 { Rgb([255, 0, 0]) } else { Rgb([0, 0, 255]) });
    let mut file = std::io::Cursor::new(Vec::new());
    pixels.write_to(&mut file, format).unwrap();
    file.into_inner()
}

/// Adds metadata to a JPEG file: the viewer must turn it by 90 degrees clockwise.
fn turned(jpeg: &[u8]) -> Vec<u8> {
    let orientation =
        [b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0".as_slice(), b"a secret place"]
            .concat();
    let length = u16::try_from(orientation.len() + 2).unwrap().to_be_bytes();
    [&jpeg[..2], [0xff, 0xe1].as_slice(), length.as_slice(), orientation.as_slice(), &jpeg[2..]].concat()
}

fn is_red(pixel: &Rgb<u8>) -> bool {
    pixel.0[0] > 200 && pixel.0[2] < 60
}

#[tokio::test]
async fn an_image_for_models_is_small_upright_and_without_metadata() {
    let images = Images::new();
    for (request, format) in [("png", ImageFormat::Png), ("jpeg", ImageFormat::Jpeg), ("webp", ImageFormat::WebP)] {
        let image = images.upload(request, &halves(3_000, 1_000, format)).await.unwrap();
        assert_eq!((image.width, image.height, image.media_type.as_str()), (2_048, 682, MODEL_IMAGE_TYPE), "{request}");
        assert!(image.bytes <= limits::MODEL_IMAGE_BYTES as u64);
        let pixels = images.pixels(&image).await;
        assert_eq!(pixels.dimensions(), (2_048, 682));
        assert!(is_red(pixels.get_pixel(100, 300)) && !is_red(pixels.get_pixel(1_900, 300)), "{request}");
    }
    let image = images.upload("turned", &turned(&halves(64, 32, ImageFormat::Jpeg))).await.unwrap();
    let pixels = images.pixels(&image).await;
    assert_eq!(pixels.dimensions(), (32, 64), "the orientation is applied");
    assert!(is_red(pixels.get_pixel(16, 4)) && !is_red(pixels.get_pixel(16, 60)));
    let stored = images.fixture.stores().message_images().read(&images.fixture.principal.org, &image.id).await.unwrap();
    assert!(!stored.unwrap().windows(8).any(|part| part == b"a secret"), "metadata is not sent to models");
}

#[tokio::test]
async fn a_repeated_upload_returns_its_image() {
    let images = Images::new();
    let file = halves(8, 8, ImageFormat::Png);
    let image = images.upload("r", &file).await.unwrap();
    assert_eq!(images.upload("r", &file).await.unwrap(), image);
    let other = images.refusal("r", &halves(9, 9, ImageFormat::Png)).await;
    assert_eq!(other.reason, Reason::RequestIdConflict);
    let stored = images.fixture.stores().of::<Document>().content_bytes(&images.fixture.principal.org).await.unwrap();
    assert_eq!(stored, image.bytes, "the image counts once");
}

#[tokio::test]
async fn a_file_that_is_no_image_is_refused() {
    let images = Images::new();
    let gif = halves(4, 4, ImageFormat::Gif);
    let png = halves(64, 64, ImageFormat::Png);
    for (name, file) in [
        ("gif", gif.as_slice()),
        ("empty", b"".as_slice()),
        ("text", b"no image".as_slice()),
        ("cut", &png[..png.len() / 2]),
    ] {
        let error = images.refusal(name, file).await;
        assert_eq!(
            (error.reason, error.violations[0].field.as_str()),
            (Reason::InvalidField, "data"),
            "{name}: {error}"
        );
    }
    let error = images.refusal("large", &vec![0; limits::MESSAGE_IMAGE_BYTES + 1]).await;
    assert_eq!(error.reason, Reason::TooLarge);
    let stored = images.fixture.stores().of::<Document>().content_bytes(&images.fixture.principal.org).await.unwrap();
    assert_eq!(stored, 0);
}
