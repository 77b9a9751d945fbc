//! A PDF file with bookmarks, links and an image.

use crate::pdf::{objects_to_file, stream};

/// Returns the pixels of the image: red and white squares above blue and white ones.
fn picture() -> Vec<u8> {
    let (red, blue, white) = ([255, 0, 0], [0, 0, 255], [255, 255, 255]);
    let row = |left: [u8; 3], right: [u8; 3]| [[left; 16].concat(), [right; 16].concat()].concat();
    [row(red, white).repeat(16), row(blue, white).repeat(16)].concat()
}

/// Returns a PDF of two pages with bookmarks, links and an image of 32 times 32 pixels.
pub fn structured_pdf() -> Vec<u8> {
    let page = |contents: u32, rest: &str| {
        format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {contents} 0 R \
             /Resources << /Font << /F1 7 0 R >> /XObject << /Im 8 0 R >> >> {rest} >>"
        )
        .into_bytes()
    };
    let links = "/Annots [ << /Type /Annot /Subtype /Link /Rect [60 690 200 725] /A << /S /URI /URI (https://example.com/a) >> >> \
                 << /Subtype /Link /Rect [60 640 200 670] /Dest (fees) >> << /Subtype /Text /Rect [0 0 9 9] >> \
                 << /Subtype /Link /Rect [0 0 9 9] /A << /S /GoToR /F (other.pdf) >> >> ]";
    let first = b"BT /F1 20 Tf 60 700 Td (Scope) Tj 0 -50 Td (see fees) Tj ET q 200 0 0 100 60 400 cm /Im Do Q \
                  BT /F1 10 Tf 60 385 Td (Figure 1: Colours) Tj ET";
    let second = b"BT /F1 10 Tf 60 700 Td (Text of the scope) Tj 0 -200 Td (Fees) Tj 0 -20 Td (are low) Tj ET";
    objects_to_file(&[
        b"<< /Type /Catalog /Pages 2 0 R /Outlines 9 0 R /Names << /Dests << /Names [(fees) [4 0 R /XYZ 60 510 0]] >> >> >>"
            .to_vec(),
        b"<< /Type /Pages /Kids [3 0 R 4 0 R] /Count 2 >>".to_vec(),
        page(5, links),
        page(6, ""),
        stream("", first),
        stream("", second),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_vec(),
        stream("/Type /XObject /Subtype /Image /Width 32 /Height 32 /ColorSpace /DeviceRGB /BitsPerComponent 8", &picture()),
        b"<< /Type /Outlines /First 10 0 R /Last 12 0 R /Count 3 >>".to_vec(),
        b"<< /Title (Scope) /Parent 9 0 R /Next 12 0 R /First 11 0 R /Dest [3 0 R /Fit] >>".to_vec(),
        // The next bookmark of this one is the first: a cycle.
        b"<< /Title (A figure) /Parent 10 0 R /Next 10 0 R /A << /S /GoTo /D [3 0 R /XYZ 60 500 0] >> >>".to_vec(),
        b"<< /Title <FEFF00460065006500730020> /Parent 9 0 R /Dest (fees) >>".to_vec(),
    ])
}
