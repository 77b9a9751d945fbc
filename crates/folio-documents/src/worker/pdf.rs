//! Reads the pages of a PDF in the child process: text with the boxes of words, links, images and bookmarks.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use folio_resources::{BoundingBox, IMAGES_PER_PAGE, PageArea, WordBoxes};
use hayro_interpret::font::{Glyph, GlyphRun};
use hayro_interpret::hayro_cmap::{BfString, WritingMode};
use hayro_interpret::hayro_syntax::object::Dict;
use hayro_interpret::hayro_syntax::page::Page;
use hayro_interpret::hayro_syntax::{DecryptionError, LoadPdfError, Pdf};
use hayro_interpret::kurbo::{Affine, BezPath, Rect, Vec2};
use hayro_interpret::{
    BlendMode, ClipPath, Context, Device, DrawMode, DrawProps, Image, ImageDrawProps, InterpreterCache,
    InterpreterSettings, SoftMask, TransformExt as _, interpret_page,
};

use super::found::{Budget, Found, FoundImage};
use super::layout::{self, Layout, Point};
use super::pdf_structure::Destinations;
use super::{Line, Output, structured_invoice};

pub(super) const DAMAGED: &str = "the file is damaged: it cannot be read as a PDF";
/// The reason for which no image of a protected PDF can be made.
pub(super) const PASSWORD_NOT_STORED: &str = "the PDF is protected by a password, which Folio does not store";
/// The reason for which a protected PDF that was uploaded without its password has no text.
const LOCKED: &str = "the PDF is protected by a password: delete it and upload it again with its password";
/// Minimum width and height of an image in pixels. Smaller images are lines and symbols.
const PIXELS_MIN: u32 = 16;
/// Size of a character in the space of glyphs.
const GLYPH_UNITS: f64 = 1_000.0;
/// Advance of a glyph whose font has no width for it, in the space of glyphs.
const DEFAULT_ADVANCE: f64 = 500.0;

/// Writes the pages and the bookmarks. If the PDF has fewer than `max_pages` pages and an attached structured invoice, writes the
/// invoice as a further page. Refuses a password for a PDF that opens without one, because pages of a PDF with a password get no OCR.
pub(super) fn read(
    input: Vec<u8>,
    password: Option<&str>,
    max_pages: u32,
    page_chars: usize,
    output: &mut Output,
) -> io::Result<()> {
    let input = Arc::new(input);
    let pdf = match (open(&input, ""), password) {
        (Opened::Pdf(pdf), None) => pdf,
        (Opened::Pdf(_), Some(_)) => return output.locked("is not needed: the PDF opens without one"),
        (Opened::Locked, None) => return output.locked(LOCKED),
        (Opened::Locked, Some(password)) => match open(&input, password) {
            Opened::Pdf(pdf) => pdf,
            Opened::Locked => return output.locked("does not open the PDF"),
            Opened::Damaged => return output.refused(DAMAGED),
        },
        (Opened::Damaged, _) => return output.refused(DAMAGED),
    };
    let Ok(pages) = catch_unwind(AssertUnwindSafe(|| pdf.pages())) else { return output.refused(DAMAGED) };
    let count = u32::try_from(pages.len()).unwrap_or(u32::MAX);
    if count == 0 {
        return output.refused("the file is damaged: it is a PDF without pages");
    }
    if count > max_pages {
        return output.refused(format!("the PDF has {count} pages; at most {max_pages} are accepted"));
    }
    let (cache, mut budget) = (InterpreterCache::new(), Budget::new());
    let destinations = catch_unwind(AssertUnwindSafe(|| Destinations::of(&pdf))).ok();
    for page in pages.iter() {
        // The library may panic on a malformed page.
        let read = catch_unwind(AssertUnwindSafe(|| read_page(&pdf, page, &cache, page_chars)));
        let links = catch_unwind(AssertUnwindSafe(|| {
            destinations.as_ref().map(|destinations| destinations.links(page, size(page)))
        }));
        let mut line = read.ok().flatten().unwrap_or_else(Line::unreadable_page);
        if let Line::Page { found, .. } = &mut line {
            found.links = links.ok().flatten().unwrap_or_default();
            *found = budget.take(std::mem::take(found));
        }
        output.line(&line)?;
    }
    let bookmarks = catch_unwind(AssertUnwindSafe(|| Some(destinations.as_ref()?.bookmarks(&pdf))));
    for (page, bookmarks) in bookmarks.ok().flatten().unwrap_or_default() {
        let Found { bookmarks, .. } = budget.take(Found { bookmarks, ..Found::default() });
        output.line(&Line::Bookmarks { page, bookmarks })?;
    }
    let invoice = || catch_unwind(AssertUnwindSafe(|| structured_invoice::read(&pdf, page_chars)));
    if count < max_pages
        && let Ok(Some((text, is_cut))) = invoice()
    {
        output.page(text, is_cut)?;
    }
    output.line(&Line::End)
}

pub(super) enum Opened {
    Pdf(Box<Pdf>),
    /// The password is missing or wrong.
    Locked,
    Damaged,
}

pub(super) fn open(input: &Arc<Vec<u8>>, password: &str) -> Opened {
    match catch_unwind(|| Pdf::new_with_password(Arc::clone(input), password)) {
        Ok(Ok(pdf)) => Opened::Pdf(Box::new(pdf)),
        Ok(Err(LoadPdfError::Decryption(DecryptionError::PasswordProtected))) => Opened::Locked,
        Ok(Err(_)) | Err(_) => Opened::Damaged,
    }
}

/// Returns a page with the boxes of its words. If most glyphs have an unknown character, the text is empty, so that the page gets OCR.
/// None: the content of the page is missing or damaged.
fn read_page<'a>(pdf: &'a Pdf, page: &Page<'a>, cache: &InterpreterCache<'a>, page_chars: usize) -> Option<Line> {
    if page.raw().contains_key("Contents") && page.page_stream().is_none() {
        return None;
    }
    let (width, height) = size(page);
    let mut reader = PageReader {
        layout: Layout::new(page_chars),
        area: Rect::new(0.0, 0.0, width, height),
        known: 0,
        unknown: 0,
        images: PageImages::default(),
    };
    let transform = page.initial_transform(true).to_kurbo();
    let mut context = Context::new(transform, reader.area, cache, pdf.xref(), InterpreterSettings::default());
    interpret_page(page, &mut context, &mut reader);
    let is_cut = reader.layout.is_full();
    let found = Found { images: reader.images.found, ..Found::default() };
    let (text, boxes, is_cut) = match reader.unknown > reader.known {
        true => (String::new(), WordBoxes::new(width, height, []), false),
        false => {
            let (text, boxes) = reader.layout.finish(width, height);
            (text, boxes, is_cut)
        }
    };
    Some(Line::Page { text: Some(text), boxes, is_cut, first_cell: None, found })
}

/// Returns width and height of a page as it is displayed.
fn size(page: &Page<'_>) -> (f64, f64) {
    let (width, height) = page.render_dimensions();
    (f64::from(width), f64::from(height))
}

/// The images of a page. The number of an image is the position, from 1, of its drawing operation among those of raster images.
#[derive(Default)]
struct PageImages {
    /// Number of raster images that the page has drawn.
    drawn: u32,
    found: Vec<FoundImage>,
}

impl PageImages {
    /// Adds an image that the page draws. Skips stencils, which have a single color. `page`: the visible part of the page.
    fn add(&mut self, image: &Image<'_, '_>, transform: Affine, page: Rect) {
        let Image::Raster(raster) = image else { return };
        self.drawn = self.drawn.saturating_add(1);
        let Some((width, height)) = pixels(raster.stream().dict()) else { return };
        let corners = [(0, 0), (width, 0), (0, height), (width, height)].map(|(x, y)| {
            let corner = transform * hayro_interpret::kurbo::Point::new(f64::from(x), f64::from(y));
            (corner.x, corner.y)
        });
        let area = BoundingBox::around(corners);
        let is_visible = area.left < page.x1 && area.right > page.x0 && area.top < page.y1 && area.bottom > page.y0;
        if is_visible && width.min(height) >= PIXELS_MIN && self.found.len() < IMAGES_PER_PAGE {
            let area = Some(PageArea::new(area, page.width(), page.height()));
            self.found.push(FoundImage { number: self.drawn, width, height, area, description: String::new() });
        }
    }
}

/// Returns width and height of an image in pixels. An inline image has abbreviated keys.
fn pixels(image: &Dict<'_>) -> Option<(u32, u32)> {
    let size = |short: &str, long: &str| image.get::<u32>(short).or_else(|| image.get::<u32>(long));
    Some((size("W", "Width")?, size("H", "Height")?))
}

/// Receives the drawing operations of a page, and collects its text and its images.
struct PageReader {
    layout: Layout,
    /// The visible part of the page.
    area: Rect,
    /// Number of glyphs whose characters are known.
    known: u32,
    /// Number of glyphs whose characters are unknown.
    unknown: u32,
    images: PageImages,
}

impl PageReader {
    fn glyph(&mut self, glyph: &Glyph<'_>, transform: Affine, mode: WritingMode) {
        let origin = transform * hayro_interpret::kurbo::Point::ZERO;
        let vector = |x: f64, y: f64| transform * hayro_interpret::kurbo::Point::new(x, y) - origin;
        let is_vertical = matches!(mode, WritingMode::Vertical);
        let advance = match glyph {
            _ if is_vertical => GLYPH_UNITS,
            Glyph::Outline(glyph) => glyph.advance_width().map_or(DEFAULT_ADVANCE, f64::from),
            Glyph::Type3(glyph) => glyph.advance_width().map_or(DEFAULT_ADVANCE, f64::from),
        };
        let along: Vec2 = if is_vertical { vector(0.0, -advance) } else { vector(advance, 0.0) };
        let unit = if is_vertical { vector(0.0, -1.0) } else { vector(1.0, 0.0) };
        let (length, size) = (unit.hypot(), vector(0.0, GLYPH_UNITS).hypot());
        if !(length.is_normal() && size.is_normal() && self.area.contains(origin + along / 2.0)) {
            return;
        }
        let text = match glyph.as_unicode() {
            Some(BfString::Char(character)) => character.to_string(),
            Some(BfString::String(text)) => text,
            None => {
                self.unknown = self.unknown.saturating_add(1);
                return;
            }
        };
        self.known = self.known.saturating_add(1);
        self.layout.add(&layout::Glyph {
            text: without_ligature(&text).unwrap_or(&text),
            origin: Point { x: origin.x, y: origin.y },
            direction: Point { x: unit.x / length, y: unit.y / length },
            advance: along.hypot(),
            size,
        });
    }
}

/// Returns the letters of a ligature character such as `ﬁ`. None: the text is no ligature.
fn without_ligature(text: &str) -> Option<&'static str> {
    let letters = [("ﬀ", "ff"), ("ﬁ", "fi"), ("ﬂ", "fl"), ("ﬃ", "ffi"), ("ﬄ", "ffl"), ("ﬅ", "st"), ("ﬆ", "st")];
    letters.into_iter().find(|(ligature, _)| *ligature == text).map(|(_, letters)| letters)
}

impl<'a> Device<'a> for PageReader {
    fn draw_glyph_run(&mut self, run: &GlyphRun<'_, 'a>, props: DrawProps<'a>, _: &DrawMode) {
        self.layout.start_run();
        for glyph in run.glyphs() {
            self.glyph(glyph, props.transform * glyph.transform(), run.writing_mode());
        }
    }

    fn draw_path(&mut self, _: &BezPath, _: DrawProps<'a>, _: &DrawMode) {}
    fn draw_rect(&mut self, _: &Rect, _: DrawProps<'a>, _: &DrawMode) {}
    fn draw_image(&mut self, image: Image<'a, '_>, props: ImageDrawProps<'a>) {
        self.images.add(&image, props.transform, self.area);
    }

    fn push_clip_path(&mut self, _: &ClipPath) {}
    fn push_clip_rect(&mut self, _: &Rect) {}
    fn pop_clip(&mut self) {}
    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'a>>, _: BlendMode) {}
    fn pop_transparency_group(&mut self) {}
}
