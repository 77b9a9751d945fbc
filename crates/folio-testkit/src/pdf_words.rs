//! The words of a PDF with their boxes, as poppler's pdftotext reads them: a reference for the boxes of words.

use std::io::{Error, Result};
use std::process::Command;

/// A word of a page. The edges are fractions of the width and the height of the page.
#[derive(Debug, Clone, PartialEq)]
pub struct PdfWord {
    pub text: String,
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

/// Returns the words of each page.
///
/// # Errors
/// pdftotext is not installed, or refuses the file.
pub fn words(pdf: &[u8]) -> Result<Vec<Vec<PdfWord>>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("document.pdf");
    std::fs::write(&file, pdf)?;
    let output = Command::new("pdftotext").arg("-bbox").arg(&file).arg("-").output();
    let output =
        output.map_err(|error| Error::other(format!("pdftotext ({error}): install the package poppler-utils")))?;
    if !output.status.success() {
        return Err(Error::other(format!("pdftotext failed: {}", String::from_utf8_lossy(&output.stderr))));
    }
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// Parses the lines of pages and words.
fn parse(output: &str) -> Vec<Vec<PdfWord>> {
    let (mut pages, mut size) = (Vec::<Vec<PdfWord>>::new(), (1.0, 1.0));
    for line in output.lines().map(str::trim) {
        if line.starts_with("<page ") {
            size = (number(line, "width"), number(line, "height"));
            pages.push(Vec::new());
        } else if line.starts_with("<word ")
            && let Some(page) = pages.last_mut()
        {
            let text = line.split('>').nth(1).unwrap_or_default().trim_end_matches("</word");
            let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
            let (left, right) = (number(line, "xMin") / size.0, number(line, "xMax") / size.0);
            let (top, bottom) = (number(line, "yMin") / size.1, number(line, "yMax") / size.1);
            page.push(PdfWord { text, left, top, right, bottom });
        }
    }
    pages
}

/// Returns the number in an attribute of a line. NaN: the line has none, so that every comparison fails.
fn number(line: &str, attribute: &str) -> f64 {
    let value = line.split_once(&format!("{attribute}=\"")).and_then(|(_, rest)| rest.split('"').next());
    value.and_then(|value| value.parse().ok()).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edges_of_a_word_are_fractions_of_its_page() {
        let output = "<page width=\"200.0\" height=\"400.0\">\n  <word xMin=\"20.0\" yMin=\"40.0\" xMax=\"50.0\" \
                      yMax=\"60.0\">A&amp;B</word>\n</page>\n<page width=\"1\" height=\"1\">\n</page>\n";
        let word = PdfWord { text: "A&B".to_owned(), left: 0.1, top: 0.1, right: 0.25, bottom: 0.15 };
        assert_eq!(parse(output), [vec![word], vec![]]);
    }
}
