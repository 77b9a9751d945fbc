//! The lines of a page with their words and positions.

use std::ops::Range;

use folio_resources::BoundingBox;
use folio_storage::NewPage;

/// Height in pixels from which a page counts as an image: an A4 page at 150 dpi. Pages of a PDF in points are smaller.
const IMAGE_HEIGHT: f32 = 1_700.0;

/// A line with words.
#[derive(Debug, Clone)]
pub(super) struct Line<'t> {
    pub(super) text: &'t str,
    /// The numbers of the words on the page.
    pub(super) words: Range<usize>,
    /// True if an empty line or the start of the page precedes the line.
    pub(super) is_separated: bool,
}

impl Line<'_> {
    /// Returns the area of the line in fractions of the page. None: a word has no position.
    pub(super) fn area(&self, page: &NewPage) -> Option<BoundingBox> {
        let boxes = self.words.clone().map(|word| page.boxes.fractions(word)).collect::<Option<Vec<_>>>()?;
        boxes.into_iter().reduce(BoundingBox::union)
    }

    /// Returns the size of the characters: the height of the highest word in the unit of the page. None: a word has no position.
    pub(super) fn size(&self, page: &NewPage) -> Option<f64> {
        let heights = self.words.clone().map(|word| page.boxes.fractions(word).map(|area| area.bottom - area.top));
        let height = heights.collect::<Option<Vec<_>>>()?.into_iter().fold(0.0, f64::max);
        Some(height * f64::from(page.boxes.height)).filter(|size| size.is_normal())
    }
}

/// Returns the lines of a page that have words.
pub(super) fn lines(page: &NewPage) -> Vec<Line<'_>> {
    let (mut lines, mut word, mut is_separated) = (Vec::new(), 0, true);
    for text in page.text.split('\n') {
        let end = word + text.split_whitespace().count();
        if end == word {
            is_separated = true;
            continue;
        }
        lines.push(Line { text: text.trim(), words: word..end, is_separated });
        (word, is_separated) = (end, false);
    }
    lines
}

/// Returns true if the positions of a page are those of a recognized image, whose sizes are inexact.
pub(super) fn is_image(page: &NewPage) -> bool {
    page.boxes.height > IMAGE_HEIGHT
}

/// A part of a line between wide gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell<'t> {
    pub(super) text: &'t str,
    pub(super) words: Range<usize>,
}

/// Divides a line at tabs and at two or more blanks.
pub(super) fn cells<'t>(line: &Line<'t>) -> Vec<Cell<'t>> {
    let (mut cells, mut word) = (Vec::new(), line.words.start);
    for text in line.text.split('\t').flat_map(|part| part.split("  ")) {
        let end = word + text.split_whitespace().count();
        if end > word {
            cells.push(Cell { text: text.trim(), words: word..end });
        }
        word = end;
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_cells_have_their_words() {
        let page = NewPage::of_text(1, "a b\n\n  c   d e\tf\n");
        let found = lines(&page);
        let shown: Vec<_> = found.iter().map(|line| (line.text, line.words.clone(), line.is_separated)).collect();
        assert_eq!(shown, [("a b", 0..2, true), ("c   d e\tf", 2..6, true)]);
        let cell = |text, words| Cell { text, words };
        assert_eq!(cells(&found[0]), [cell("a b", 0..2)]);
        assert_eq!(cells(&found[1]), [cell("c", 2..3), cell("d e", 3..5), cell("f", 5..6)]);
        assert_eq!(found[0].area(&page), None);
    }
}
