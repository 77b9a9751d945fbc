//! Scans: images of a page, rendered by poppler's pdftoppm, and PDFs that contain only such images.

use std::io::{Error, Result};
use std::process::Command;

use crate::pdf::{objects_to_file, stream};

/// Renders the first page of a PDF at 150 dots per inch as an image of this format (`png`, `jpeg`, `tiff`). None: gray
/// pixels (PGM).
///
/// # Errors
/// pdftoppm is not installed, or refuses the file.
pub fn render(pdf: &[u8], format: Option<&str>) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let (file, out) = (folder.path().join("page.pdf"), folder.path().join("page"));
    std::fs::write(&file, pdf)?;
    let mut command = Command::new("pdftoppm");
    command.args(["-r", "150", "-gray", "-singlefile"]).args(format.map(|format| format!("-{format}")));
    let status = command.arg(&file).arg(&out).status();
    let status =
        status.map_err(|error| Error::other(format!("pdftoppm ({error}): install the package poppler-utils")))?;
    if !status.success() {
        return Err(Error::other(format!("pdftoppm failed ({status})")));
    }
    let mut paths = std::fs::read_dir(folder.path())?.filter_map(|entry| Some(entry.ok()?.path()));
    let image = paths.find(|path| *path != file).ok_or_else(|| Error::other("pdftoppm wrote no image"))?;
    std::fs::read(image)
}

/// Returns a PDF that contains only this JPEG image of an A4 page, rendered by [`render`], on each page, and no text
/// layer.
pub fn pdf_of_jpeg(jpeg: &[u8], pages: usize) -> Vec<u8> {
    let kids: String = (0..pages).map(|at| format!("{} 0 R ", at + 5)).collect();
    // A4 at 150 dots per inch.
    let drawing = "/Type /XObject /Subtype /Image /Width 1240 /Height 1755 /ColorSpace /DeviceRGB /BitsPerComponent 8 \
                   /Filter /DCTDecode";
    let mut objects = vec![
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        format!("<< /Type /Pages /Kids [{kids}] /Count {pages} >>").into_bytes(),
        stream(drawing, jpeg),
        stream("", b"q 595 0 0 842 0 0 cm /I Do Q"),
    ];
    for _ in 0..pages {
        let page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R \
                    /Resources << /XObject << /I 3 0 R >> >> >>";
        objects.push(page.as_bytes().to_vec());
    }
    objects_to_file(&objects)
}
