//! Images of pages, in the child process.

use std::io::{self, Cursor};
use std::sync::Arc;

use folio_resources::{ImageFormat, MAX_DPI, PageImage};
use hayro::hayro_interpret::InterpreterSettings;
use hayro::vello_cpu::color::palette::css::WHITE;
use hayro::{PixmapSettings, RenderCache, RenderSettings};
use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder as _, ImageReader, Limits, Rgb, RgbImage};

use super::pdf::{self, Opened};
use super::{Line, Output, caught};
use crate::pdf_form::PdfWriter;
use crate::tiff;

/// Number of units of a PDF per inch.
const POINTS: f32 = 72.0;
/// Quality of the images of a PDF rendition, from 1 to 100.
const JPEG_QUALITY: u8 = 85;
/// Qualities of the image for a model: the first one whose image is within the maximum number of bytes.
const MODEL_QUALITIES: [u8; 4] = [JPEG_QUALITY, 70, 50, 30];
/// The reason for users if a library panics.
pub(super) const DAMAGED: &str = "the image is damaged";
/// Maximum width and height of an image file in pixels.
const SOURCE_PIXELS: u32 = 65_500;

/// Writes [`Line::Image`] and the bytes of the image, or [`Line::Refused`].
pub(super) fn render(input: Vec<u8>, is_pdf: bool, image: &PageImage, output: &mut Output) -> io::Result<()> {
    output.image(caught("the page is damaged", || {
        let pixels = if is_pdf { pdf_page(input, image)? } else { picture(input, image)? };
        Ok((Line::Image, encode(&pixels, image.format())?))
    }))
}

/// Writes [`Line::Image`] and a PDF file with the pages of an image file, or [`Line::Refused`] if the first page cannot be decoded.
/// Pages beyond `max_pages` are omitted.
///
/// # Errors
/// A later page cannot be decoded.
pub(super) fn write_pdf(mut input: Vec<u8>, max_pages: u32, output: &mut Output) -> io::Result<()> {
    let mut next = match jpeg(&input) {
        Ok(first) => Some(first),
        Err(reason) => return output.refused(reason),
    };
    output.line(&Line::Image)?;
    let mut pdf = PdfWriter::new(&mut output.out)?;
    let mut pages = 0;
    while let Some((bytes, size)) = next {
        pdf.add_jpeg(&bytes, size)?;
        pages += 1;
        // The second page, counted from the page that was written, becomes the first one.
        let has_next = pages < max_pages && tiff::select_page(&mut input, 2);
        next = if has_next { Some(jpeg(&input).map_err(io::Error::other)?) } else { None };
    }
    pdf.finish().map(drop)
}

/// Writes [`Line::ModelImage`] and the image of a PNG, JPEG or WebP file as JPEG, or [`Line::Refused`]. The image is upright and
/// scaled down to `max_pixels` in each direction.
pub(super) fn write_for_model(input: Vec<u8>, max_pixels: u32, max_bytes: u64, output: &mut Output) -> io::Result<()> {
    output.image(caught(DAMAGED, || {
        let pixels = within(on_white(upright(input)?), max_pixels);
        let (width, height) = pixels.dimensions();
        Ok((Line::ModelImage { width, height }, jpeg_within(&pixels, max_bytes)?))
    }))
}

/// Decodes an image file, and applies the orientation in its metadata.
fn upright(input: Vec<u8>) -> Result<DynamicImage, String> {
    let mut reader = ImageReader::new(Cursor::new(input)).with_guessed_format().map_err(|error| error.to_string())?;
    let format = reader.format();
    if !matches!(format, Some(image::ImageFormat::Png | image::ImageFormat::Jpeg | image::ImageFormat::WebP)) {
        return Err("unsupported image format: expected PNG, JPEG or WebP".to_owned());
    }
    reader.limits(source_limits());
    let failed = |error: image::ImageError| format!("the image cannot be decoded: {error}");
    let mut decoder = reader.into_decoder().map_err(failed)?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut image = DynamicImage::from_decoder(decoder).map_err(failed)?;
    image.apply_orientation(orientation);
    Ok(image)
}

fn jpeg_within(pixels: &RgbImage, max_bytes: u64) -> Result<Vec<u8>, String> {
    for quality in MODEL_QUALITIES {
        let mut bytes = Vec::new();
        let encoder = JpegEncoder::new_with_quality(&mut bytes, quality);
        pixels.write_with_encoder(encoder).map_err(|error| error.to_string())?;
        if bytes.len() as u64 <= max_bytes {
            return Ok(bytes);
        }
    }
    Err(format!("the image has more than {max_bytes} bytes in each quality"))
}

/// Scales an image down to `max_pixels` in each direction.
pub(super) fn within(image: RgbImage, max_pixels: u32) -> RgbImage {
    let longest = image.width().max(image.height());
    if longest <= max_pixels {
        return image;
    }
    let scaled = |size: u32| {
        let size = u64::from(size) * u64::from(max_pixels) / u64::from(longest);
        u32::try_from(size).unwrap_or(max_pixels).max(1)
    };
    image::imageops::resize(&image, scaled(image.width()), scaled(image.height()), FilterType::Triangle)
}

pub(super) fn source_limits() -> Limits {
    let mut limits = Limits::default();
    (limits.max_image_width, limits.max_image_height) = (Some(SOURCE_PIXELS), Some(SOURCE_PIXELS));
    limits
}

/// Returns the first page of an image file as a JPEG image, with its size in pixels.
fn jpeg(input: &[u8]) -> Result<(Vec<u8>, (u32, u32)), String> {
    caught(DAMAGED, || {
        let first = PageImage::new(1, MAX_DPI, ImageFormat::Png).map_err(|error| error.message)?;
        let pixels = picture(input.to_vec(), &first)?;
        let mut bytes = Vec::new();
        let encoder = JpegEncoder::new_with_quality(&mut bytes, JPEG_QUALITY);
        pixels.write_with_encoder(encoder).map_err(|error| error.to_string())?;
        Ok((bytes, (pixels.width(), pixels.height())))
    })
}

fn pdf_page(input: Vec<u8>, image: &PageImage) -> Result<RgbImage, String> {
    let pdf = match pdf::open(&Arc::new(input), "") {
        Opened::Pdf(pdf) => pdf,
        Opened::Locked => return Err(pdf::PASSWORD_NOT_STORED.to_owned()),
        Opened::Damaged => return Err(pdf::DAMAGED.to_owned()),
    };
    let pages = pdf.pages();
    let page = pages.get(image.page() as usize - 1).ok_or_else(|| missing(image, pages.len()))?;
    let scale = image.scale(POINTS, page.render_dimensions());
    let size = PixmapSettings { x_scale: scale, y_scale: scale, bg_color: WHITE };
    let (cache, settings) = (RenderCache::new(), InterpreterSettings::default());
    let pixmap = hayro::render(page, &cache, &settings, &RenderSettings::default(), &size);
    let (width, height) = (u32::from(pixmap.width()), u32::from(pixmap.height()));
    // The background is opaque, so that no pixel is premultiplied.
    let bytes = pixmap.data().iter().flat_map(|pixel| [pixel.r, pixel.g, pixel.b]).collect();
    RgbImage::from_raw(width, height, bytes).ok_or_else(|| "the page has no size".to_owned())
}

fn missing(image: &PageImage, pages: usize) -> String {
    format!("the file has {pages} pages, and no page {}", image.page())
}

fn picture(mut input: Vec<u8>, image: &PageImage) -> Result<RgbImage, String> {
    if image.page() > 1 && !tiff::select_page(&mut input, image.page()) {
        return Err(format!("the file has no page {}", image.page()));
    }
    let mut reader = ImageReader::new(Cursor::new(input)).with_guessed_format().map_err(|error| error.to_string())?;
    reader.limits(source_limits());
    let source = reader.decode().map_err(|error| format!("the image cannot be decoded: {error}"))?;
    // The boxes of words refer to the stored pixels, so that the orientation in the metadata is not applied.
    #[expect(clippy::cast_precision_loss, reason = "an image has at most 65,500 pixels in a direction")]
    let (width, height) = (source.width() as f32, source.height() as f32);
    #[expect(clippy::cast_precision_loss, reason = "the number is small")]
    let scale = image.scale(MAX_DPI as f32, (width, height));
    let scaled = |size: f32| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the result has at most 4,096 pixels"
        )]
        let pixels = (size * scale).round() as u32;
        pixels.max(1)
    };
    let source = on_white(source);
    Ok(match scale < 1.0 {
        true => image::imageops::resize(&source, scaled(width), scaled(height), FilterType::Triangle),
        false => source,
    })
}

pub(super) fn on_white(source: DynamicImage) -> RgbImage {
    if !source.color().has_alpha() {
        return source.into_rgb8();
    }
    let source = source.into_rgba8();
    RgbImage::from_fn(source.width(), source.height(), |x, y| {
        let [red, green, blue, alpha] = source.get_pixel(x, y).0.map(u16::from);
        let blend = |part: u16| u8::try_from((part * alpha + 255 * (255 - alpha)) / 255).unwrap_or(u8::MAX);
        Rgb([blend(red), blend(green), blend(blue)])
    })
}

pub(super) fn encode(pixels: &RgbImage, format: ImageFormat) -> Result<Vec<u8>, String> {
    let format = match format {
        ImageFormat::Png => image::ImageFormat::Png,
        ImageFormat::WebP => image::ImageFormat::WebP,
    };
    let mut bytes = Vec::new();
    pixels.write_to(&mut Cursor::new(&mut bytes), format).map_err(|error| error.to_string())?;
    Ok(bytes)
}
