//! Extracts images that are embedded in documents, in the child process.

use std::io;
use std::sync::Arc;

use folio_resources::ImageFormat;
use hayro_interpret::font::GlyphRun;
use hayro_interpret::hayro_syntax::page::Page;
use hayro_interpret::kurbo::{BezPath, Rect};
use hayro_interpret::{
    BlendMode, ClipPath, Context, Device, DrawMode, DrawProps, Image, ImageData, ImageDrawProps, InterpreterCache,
    InterpreterSettings, LumaData, RasterImage, SoftMask, TransformExt as _, interpret_page,
};
use image::imageops::{self, FilterType};
use image::{DynamicImage, GrayImage, RgbImage, RgbaImage};

use super::image::{DAMAGED, encode, on_white, within};
use super::pdf::{self, Opened};
use super::{Line, OfficeSource, Output, caught, office};

/// Maximum width and height of the written image in pixels. A larger image is scaled down.
// proto: DocumentService.GetDocumentImage "at most {} pixels"
pub(super) const MAX_PIXELS: u32 = 4_096;

/// Writes an image of a PDF: [`Line::Image`] and the image as PNG, or [`Line::Refused`]. `page` and `number` count from 1.
pub(super) fn write(input: Vec<u8>, page: u32, number: u32, output: &mut Output) -> io::Result<()> {
    write_found(|| find(input, page, number), output)
}

/// Writes an image of an office document, HTML file or mail in the format of [`write`].
pub(super) fn write_of_office(
    input: Vec<u8>,
    source: &OfficeSource,
    page: u32,
    number: u32,
    output: &mut Output,
) -> io::Result<()> {
    write_found(|| office::image(input, source, page, number), output)
}

fn write_found(find: impl FnOnce() -> Result<RgbImage, String>, output: &mut Output) -> io::Result<()> {
    output.image(caught(DAMAGED, || Ok((Line::Image, encode(&find()?, ImageFormat::Png)?))))
}

fn find(input: Vec<u8>, page: u32, number: u32) -> Result<RgbImage, String> {
    let pdf = match pdf::open(&Arc::new(input), "") {
        Opened::Pdf(pdf) => pdf,
        Opened::Locked => return Err(pdf::PASSWORD_NOT_STORED.to_owned()),
        Opened::Damaged => return Err(pdf::DAMAGED.to_owned()),
    };
    let pages = pdf.pages();
    let missing = || missing(page, number);
    let found = (page as usize).checked_sub(1).and_then(|at| pages.get(at)).ok_or_else(missing)?;
    let mut finder = Finder { drawn: 0, number, found: None };
    interpret(&pdf, found, &mut finder);
    finder.found.ok_or_else(missing)?
}

pub(super) fn missing(page: u32, number: u32) -> String {
    format!("the file has no image {number} on page {page}")
}

fn interpret<'a>(pdf: &'a hayro_interpret::hayro_syntax::Pdf, page: &Page<'a>, device: &mut Finder) {
    let (width, height) = page.render_dimensions();
    let area = Rect::new(0.0, 0.0, f64::from(width), f64::from(height));
    let cache = InterpreterCache::new();
    let transform = page.initial_transform(true).to_kurbo();
    let mut context = Context::new(transform, area, &cache, pdf.xref(), InterpreterSettings::default());
    interpret_page(page, &mut context, device);
}

/// Receives the drawing operations of a page, and decodes the image with a number.
struct Finder {
    /// Number of raster images that the page has drawn. [`super::pdf`] numbers the images of a page in the same way.
    drawn: u32,
    number: u32,
    /// The image, or the reason for which it cannot be decoded. None: the page has not drawn the image.
    found: Option<Result<RgbImage, String>>,
}

impl<'a> Device<'a> for Finder {
    fn draw_image(&mut self, image: Image<'a, '_>, _: ImageDrawProps<'a>) {
        let Image::Raster(raster) = image else { return };
        self.drawn = self.drawn.saturating_add(1);
        if self.drawn == self.number {
            self.found = Some(decode(&raster).ok_or_else(|| "the image cannot be decoded".to_owned()));
        }
    }

    fn draw_glyph_run(&mut self, _: &GlyphRun<'_, 'a>, _: DrawProps<'a>, _: &DrawMode) {}
    fn draw_path(&mut self, _: &BezPath, _: DrawProps<'a>, _: &DrawMode) {}
    fn draw_rect(&mut self, _: &Rect, _: DrawProps<'a>, _: &DrawMode) {}
    fn push_clip_path(&mut self, _: &ClipPath) {}
    fn push_clip_rect(&mut self, _: &Rect) {}
    fn pop_clip(&mut self) {}
    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'a>>, _: BlendMode) {}
    fn pop_transparency_group(&mut self) {}
}

fn decode(raster: &RasterImage<'_>) -> Option<RgbImage> {
    let mut decoded = None;
    raster.with_rgba(|data, alpha| decoded = pixels(data, alpha), Some((MAX_PIXELS, MAX_PIXELS)));
    decoded.map(|image| within(image, MAX_PIXELS))
}

/// Returns the pixels of an image on a white background.
fn pixels(data: ImageData, alpha: Option<LumaData>) -> Option<RgbImage> {
    let image = match data {
        ImageData::Rgb(data) => RgbImage::from_raw(data.width, data.height, data.data)?,
        ImageData::Luma(data) => {
            DynamicImage::ImageLuma8(GrayImage::from_raw(data.width, data.height, data.data)?).into_rgb8()
        }
    };
    let Some(alpha) = alpha else { return Some(image) };
    let (width, height) = image.dimensions();
    let mask = GrayImage::from_raw(alpha.width, alpha.height, alpha.data)?;
    let mask = match mask.dimensions() == (width, height) {
        true => mask,
        false => imageops::resize(&mask, width, height, FilterType::Triangle),
    };
    let mut blended = RgbaImage::new(width, height);
    for ((pixel, color), alpha) in blended.pixels_mut().zip(image.pixels()).zip(mask.pixels()) {
        let ([red, green, blue], [alpha]) = (color.0, alpha.0);
        pixel.0 = [red, green, blue, alpha];
    }
    Some(on_white(DynamicImage::ImageRgba8(blended)))
}
