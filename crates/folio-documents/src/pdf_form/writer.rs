//! Writes a PDF 1.4 file from the first object to the last, so that a page is in memory only while it is written.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::layout::{Font, Run, lines, runs, windows_1252};

/// Size of a page with text in points: A4.
const PAGE: (f32, f32) = (595.0, 842.0);
const MARGIN: f32 = 54.0;
const FONT_SIZE: f32 = 9.0;
/// Width of a column. A character of Courier has 0.6 of the size.
const COLUMN: f32 = 0.6 * FONT_SIZE;
const LINE: f32 = 11.0;
/// Number of lines of a page.
const LINES: usize = 66;
/// Maximum number of pages. Text beyond is cut, and a mark states this.
pub(super) const PAGES_MAX: usize = 10_000;
/// The resolution at which an image is assumed to be scanned, in pixels per inch.
const IMAGE_DPI: f32 = 200.0;
const POINTS: f32 = 72.0;

const CATALOG: usize = 1;
const PAGES: usize = 2;
const FONTS: &str = "<< /F1 3 0 R /F2 4 0 R /F3 7 0 R >>";

/// A PDF file that is being written.
pub(crate) struct PdfWriter<W> {
    out: W,
    /// Number of bytes that were written.
    position: usize,
    /// Positions of the objects, whose numbers start at 1. 0: not written yet.
    positions: Vec<usize>,
    /// Numbers of the objects of the pages.
    pages: Vec<usize>,
}

impl<W: Write> PdfWriter<W> {
    pub(crate) fn new(out: W) -> io::Result<Self> {
        // The catalog and the pages are written last.
        let mut pdf = Self { out, position: 0, positions: vec![0; PAGES], pages: Vec::new() };
        pdf.write(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")?;
        pdf.object("<< /Type /Font /Subtype /Type1 /BaseFont /Courier /Encoding /WinAnsiEncoding >>")?;
        pdf.cjk_font("STSong-Light", "UniGB-UTF16-H", "GB1")?;
        pdf.cjk_font("HYSMyeongJo-Medium", "UniKS-UTF16-H", "Korea1")?;
        Ok(pdf)
    }

    /// Writes the three objects of a font of an Asian collection, which the file does not contain.
    fn cjk_font(&mut self, name: &str, encoding: &str, collection: &str) -> io::Result<()> {
        let number = self.positions.len() + 1;
        self.object(&format!(
            "<< /Type /Font /Subtype /Type0 /BaseFont /{name}-{encoding} /Encoding /{encoding} /DescendantFonts \
             [{} 0 R] >>",
            number + 1
        ))?;
        self.object(&format!(
            "<< /Type /Font /Subtype /CIDFontType0 /BaseFont /{name} /CIDSystemInfo << /Registry (Adobe) /Ordering \
             ({collection}) /Supplement 2 >> /DW 1000 /FontDescriptor {} 0 R >>",
            number + 2
        ))?;
        self.object(&format!(
            "<< /Type /FontDescriptor /FontName /{name} /Flags 4 /FontBBox [0 -200 1000 900] /ItalicAngle 0 /Ascent 880 \
             /Descent -120 /CapHeight 880 /StemV 80 >>"
        ))
    }

    /// Adds pages with a text. Returns false if the file has its maximum number of pages, so that text was cut.
    pub(crate) fn add_text(&mut self, text: &str) -> io::Result<bool> {
        let lines = lines(text);
        let pages: Vec<&[String]> =
            if lines.is_empty() { vec![lines.as_slice()] } else { lines.chunks(LINES).collect() };
        for page in pages {
            if self.pages.len() + 1 >= PAGES_MAX {
                let mark = format!("[... cut here: the PDF has more than {PAGES_MAX} pages]");
                self.add_lines(&[mark])?;
                return Ok(false);
            }
            self.add_lines(page)?;
        }
        Ok(true)
    }

    fn add_lines(&mut self, lines: &[String]) -> io::Result<()> {
        let mut content = String::new();
        let mut y = PAGE.1 - MARGIN - FONT_SIZE;
        for line in lines {
            for run in runs(line) {
                add_run(&mut content, &run, y);
            }
            y -= LINE;
        }
        let resources = format!("/Font {FONTS}");
        self.page(PAGE, &resources, content.as_bytes())
    }

    /// Adds a page with a JPEG image with three components, which fills it.
    pub(crate) fn add_jpeg(&mut self, jpeg: &[u8], (width, height): (u32, u32)) -> io::Result<()> {
        let entries = format!(
            "/Type /XObject /Subtype /Image /Width {width} /Height {height} /ColorSpace /DeviceRGB /BitsPerComponent 8 \
             /Filter /DCTDecode"
        );
        let image = self.stream(&entries, jpeg)?;
        #[expect(clippy::cast_precision_loss, reason = "an image has at most 4,096 pixels in a direction")]
        let points = |pixels: u32| pixels as f32 * POINTS / IMAGE_DPI;
        let size = (points(width), points(height));
        let content = format!("q {:.2} 0 0 {:.2} 0 0 cm /I Do Q", size.0, size.1);
        self.page(size, &format!("/XObject << /I {image} 0 R >>"), content.as_bytes())
    }

    fn page(&mut self, (width, height): (f32, f32), resources: &str, content: &[u8]) -> io::Result<()> {
        let content = self.stream("", content)?;
        self.pages.push(self.positions.len() + 1);
        self.object(&format!(
            "<< /Type /Page /Parent {PAGES} 0 R /MediaBox [0 0 {width:.2} {height:.2}] /Resources << {resources} >> \
             /Contents {content} 0 R >>"
        ))
    }

    /// Writes the last objects and the table of all objects. A file without pages gets a blank one.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        if self.pages.is_empty() {
            self.add_lines(&[])?;
        }
        let mut kids = String::new();
        for page in &self.pages {
            let _ = write!(kids, "{page} 0 R ");
        }
        let pages = format!("<< /Type /Pages /Kids [{kids}] /Count {} >>", self.pages.len());
        self.numbered(PAGES, pages.as_bytes())?;
        self.numbered(CATALOG, format!("<< /Type /Catalog /Pages {PAGES} 0 R >>").as_bytes())?;
        let start = self.position;
        let count = self.positions.len() + 1;
        let mut table = format!("xref\n0 {count}\n0000000000 65535 f \n");
        for position in &self.positions {
            let _ = writeln!(table, "{position:010} 00000 n ");
        }
        self.write(table.as_bytes())?;
        let trailer = format!("trailer\n<< /Size {count} /Root {CATALOG} 0 R >>\nstartxref\n{start}\n%%EOF\n");
        self.write(trailer.as_bytes())?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Writes the next object.
    fn object(&mut self, body: &str) -> io::Result<()> {
        self.positions.push(0);
        self.numbered(self.positions.len(), body.as_bytes())
    }

    /// Writes the next object, a stream. Returns its number.
    fn stream(&mut self, entries: &str, data: &[u8]) -> io::Result<usize> {
        let head = format!("<< {entries} /Length {} >>\nstream\n", data.len());
        self.positions.push(0);
        let number = self.positions.len();
        self.numbered(number, &[head.as_bytes(), data, b"\nendstream"].concat())?;
        Ok(number)
    }

    fn numbered(&mut self, number: usize, body: &[u8]) -> io::Result<()> {
        if let Some(position) = self.positions.get_mut(number - 1) {
            *position = self.position;
        }
        self.write(format!("{number} 0 obj\n").as_bytes())?;
        self.write(body)?;
        self.write(b"\nendobj\n")
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.position += bytes.len();
        self.out.write_all(bytes)
    }
}

/// Adds the operators that show a run. `y`: the baseline.
fn add_run(content: &mut String, run: &Run, y: f32) {
    #[expect(clippy::cast_precision_loss, reason = "a line has few columns")]
    let (column, width) = (run.column as f32, run.width as f32);
    let (font, scale) = match run.font {
        Font::Courier => ("F1", 100.0),
        // The characters of the Asian collections are as wide as the size of the font.
        Font::Chinese => ("F2", 100.0 * width * COLUMN / FONT_SIZE),
        Font::Korean => ("F3", 100.0 * width * COLUMN / FONT_SIZE),
    };
    let x = MARGIN + column * COLUMN;
    let _ = write!(content, "BT /{font} {FONT_SIZE} Tf {scale:.0} Tz 1 0 0 1 {x:.2} {y:.2} Tm <");
    for c in run.text.chars() {
        let _ = match (run.font, windows_1252(c)) {
            (Font::Courier, Some(code)) => write!(content, "{code:02x}"),
            _ => c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(content, "{unit:04x}")),
        };
    }
    content.push_str("> Tj ET\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_shown_in_the_font_of_their_characters() {
        let shown = |font, width, text: &str| {
            let mut content = String::new();
            add_run(&mut content, &Run { column: 10, font, width, text: text.to_owned() }, 700.0);
            content
        };
        assert_eq!(shown(Font::Courier, 1, "€(1)"), "BT /F1 9 Tf 100 Tz 1 0 0 1 108.00 700.00 Tm <80283129> Tj ET\n");
        assert_eq!(shown(Font::Chinese, 1, "Ω"), "BT /F2 9 Tf 60 Tz 1 0 0 1 108.00 700.00 Tm <03a9> Tj ET\n");
        assert_eq!(
            shown(Font::Chinese, 2, "漢𠀀"),
            "BT /F2 9 Tf 120 Tz 1 0 0 1 108.00 700.00 Tm <6f22d840dc00> Tj ET\n"
        );
        assert_eq!(shown(Font::Korean, 2, "한"), "BT /F3 9 Tf 120 Tz 1 0 0 1 108.00 700.00 Tm <d55c> Tj ET\n");
    }

    #[test]
    fn an_image_fills_a_page_of_its_size() {
        let mut jpeg = Vec::new();
        let pixels = image::RgbImage::from_pixel(400, 200, image::Rgb([200, 10, 10]));
        image::codecs::jpeg::JpegEncoder::new(&mut jpeg).encode_image(&pixels).unwrap();
        let mut pdf = PdfWriter::new(Vec::new()).unwrap();
        pdf.add_jpeg(&jpeg, (400, 200)).unwrap();
        let file = lopdf::Document::load_mem(&pdf.finish().unwrap()).unwrap();
        let page = *file.get_pages().values().next().unwrap();
        let size = file.get_dictionary(page).unwrap().get(b"MediaBox").unwrap().as_array().unwrap().clone();
        let size: Vec<f32> = size.iter().map(|number| number.as_float().unwrap()).collect();
        assert_eq!(size, [0.0, 0.0, 144.0, 72.0]);
        let images = file.get_page_images(page).unwrap();
        assert_eq!((images[0].width, images[0].height, images[0].content == jpeg), (400, 200, true));
    }
}
