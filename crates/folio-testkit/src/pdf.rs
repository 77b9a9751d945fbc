//! A PDF writer for files with known content. The writer produces PDF 1.4 with uncompressed streams and the standard
//! Helvetica fonts. The output is deterministic.

use std::fmt::Write as _;

/// Width of an A4 page, in points.
pub const PAGE_WIDTH: f64 = 595.0;
/// Height of an A4 page, in points.
pub const PAGE_HEIGHT: f64 = 842.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Font {
    Regular,
    Bold,
}

impl Font {
    fn resource(self) -> &'static str {
        match self {
            Self::Regular => "F1",
            Self::Bold => "F2",
        }
    }
}

/// A page under construction. Coordinates are in points from the lower left corner.
#[derive(Debug, Clone, Default)]
pub struct Page {
    content: Vec<u8>,
}

impl Page {
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a page with one line of text for each item.
    pub fn of_lines(lines: &[&str]) -> Self {
        let mut page = Self::new();
        let mut y = PAGE_HEIGHT - 72.0;
        for line in lines {
            page.text(72.0, y, 14.0, Font::Regular, line);
            y -= 24.0;
        }
        page
    }

    /// Writes text that starts at a point. Characters outside of Latin-1 become `?`.
    pub fn text(&mut self, x: f64, y: f64, size: f64, font: Font, text: &str) -> &mut Self {
        self.raw(&format!("BT /{} {size} Tf {x:.2} {y:.2} Td (", font.resource()));
        for c in text.chars() {
            match u8::try_from(u32::from(c)) {
                Ok(byte @ (b'(' | b')' | b'\\')) => self.content.extend([b'\\', byte]),
                Ok(byte) if !c.is_control() => self.content.push(byte),
                _ => self.content.push(b'?'),
            }
        }
        self.raw(") Tj ET\n")
    }

    /// Writes a number (digits, points, commas and spaces) that ends at a point.
    pub fn number_right(&mut self, right: f64, y: f64, size: f64, font: Font, text: &str) -> &mut Self {
        let width: f64 = text.chars().map(|c| if c.is_ascii_digit() { 0.556 } else { 0.278 }).sum();
        self.text(right - width * size, y, size, font, text)
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64)) -> &mut Self {
        self.raw(&format!("0.7 w {:.2} {:.2} m {:.2} {:.2} l S\n", from.0, from.1, to.0, to.1))
    }

    /// Adds raw operators of a content stream.
    pub fn raw(&mut self, operators: &str) -> &mut Self {
        self.content.extend(operators.as_bytes());
        self
    }
}

pub fn document(pages: &[Page]) -> Vec<u8> {
    let kids: String = (0..pages.len()).map(|at| format!("{} 0 R ", 5 + 2 * at)).collect();
    let mut objects = vec![
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        format!("<< /Type /Pages /Kids [{kids}] /Count {} >>", pages.len()).into_bytes(),
        font("Helvetica"),
        font("Helvetica-Bold"),
    ];
    for (at, page) in pages.iter().enumerate() {
        let content = 6 + 2 * at;
        objects.push(
            format!(
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {PAGE_WIDTH} {PAGE_HEIGHT}] /Contents {content} 0 R \
                 /Resources << /Font << /F1 3 0 R /F2 4 0 R >> >> >>"
            )
            .into_bytes(),
        );
        objects.push(stream("", &page.content));
    }
    objects_to_file(&objects)
}

fn font(name: &str) -> Vec<u8> {
    format!("<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>").into_bytes()
}

/// Returns a stream object. `entries`: further entries of its dictionary.
pub fn stream(entries: &str, data: &[u8]) -> Vec<u8> {
    let mut object = format!("<< {entries} /Length {} >>\nstream\n", data.len()).into_bytes();
    object.extend(data);
    object.extend(b"\nendstream");
    object
}

/// Returns a file with these objects, numbered from 1. The first object is the catalog. Tests use it for malformed
/// files.
pub fn objects_to_file(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut file = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n".to_vec();
    let mut table = String::from("0000000000 65535 f \n");
    for (at, object) in objects.iter().enumerate() {
        let _ = writeln!(table, "{:010} 00000 n ", file.len());
        file.extend(format!("{} 0 obj\n", at + 1).into_bytes());
        file.extend(object);
        file.extend(b"\nendobj\n");
    }
    let size = objects.len() + 1;
    let start = file.len();
    file.extend(
        format!("xref\n0 {size}\n{table}trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n").bytes(),
    );
    file
}
