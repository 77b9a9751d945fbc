//! Converts glyphs with positions on a page to lines of text with a box for each word, in the order of the file. A move
//! to another line becomes a line end, and a wide gap becomes two blanks, so that table columns stay separate.

use std::collections::HashSet;

use folio_resources::{BoundingBox, WordBoxes};

use crate::normal::is_dropped;

/// Minimum distance of a new line, across the direction of writing. All distances are in character sizes.
const NEW_LINE: f64 = 0.5;
/// Minimum distance of an empty line.
const EMPTY_LINE: f64 = 2.2;
/// Minimum gap of a blank between runs of glyphs.
const BLANK: f64 = 0.1;
/// Minimum gap of a blank within a run, where letters may be spaced.
const BLANK_IN_RUN: f64 = 0.2;
/// Minimum gap between columns.
const COLUMN: f64 = 1.0;
/// Ascent and descent of a box around a word. Fonts differ by about a tenth.
const ASCENT: f64 = 0.9;
const DESCENT: f64 = 0.25;
/// Maximum distance of two equal characters of which the second makes the first look bold.
const OVERPRINT: f64 = 0.08;

/// A point or a direction. The origin is the upper left corner of the page, and y grows downwards.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

impl Point {
    fn along(self, direction: Self, distance: f64) -> Self {
        Self { x: self.x + direction.x * distance, y: self.y + direction.y * distance }
    }

    fn to(self, other: Self) -> Self {
        Self { x: other.x - self.x, y: other.y - self.y }
    }

    fn dot(self, other: Self) -> f64 {
        self.x * other.x + self.y * other.y
    }

    fn cross(self, other: Self) -> f64 {
        self.x * other.y - self.y * other.x
    }
}

/// A glyph on a page.
#[derive(Debug, Clone)]
pub(super) struct Glyph<'t> {
    /// The characters of the glyph: several for a ligature.
    pub(super) text: &'t str,
    /// The start on the baseline.
    pub(super) origin: Point,
    /// The direction of writing, of length 1.
    pub(super) direction: Point,
    pub(super) advance: f64,
    /// The size of the characters.
    pub(super) size: f64,
}

/// The page so far.
pub(super) struct Layout {
    text: String,
    chars_left: usize,
    is_full: bool,
    /// End and direction of the last glyph. None at the start.
    last: Option<(Point, Point)>,
    in_run: bool,
    words: Vec<BoundingBox>,
    /// True: the next character continues the last word.
    in_word: bool,
    /// Characters with their positions, in units of [`OVERPRINT`].
    printed: HashSet<(char, i64, i64)>,
}

impl Layout {
    pub(super) fn new(max_chars: usize) -> Self {
        Self {
            text: String::new(),
            chars_left: max_chars,
            is_full: false,
            last: None,
            in_run: false,
            words: Vec::new(),
            in_word: false,
            printed: HashSet::new(),
        }
    }

    /// Starts a run of glyphs, which one operator of the file shows.
    pub(super) fn start_run(&mut self) {
        self.in_run = false;
    }

    /// Adds a glyph. After the maximum number of characters, glyphs are dropped.
    pub(super) fn add(&mut self, glyph: &Glyph<'_>) {
        if self.is_full || self.is_overprint(glyph) {
            return;
        }
        self.separate(glyph);
        let end = glyph.origin.along(glyph.direction, glyph.advance);
        self.last = Some((end, glyph.direction));
        self.in_run = true;
        let area = area(glyph, end);
        for character in glyph.text.chars().filter(|c| !is_dropped(*c)) {
            if self.chars_left == 0 {
                self.is_full = true;
                return;
            }
            self.chars_left -= 1;
            self.push(character, &area);
        }
    }

    fn push(&mut self, character: char, area: &BoundingBox) {
        if character.is_whitespace() {
            self.blank(if character == '\t' { "\t" } else { " " });
            return;
        }
        match self.words.last_mut().filter(|_| self.in_word) {
            Some(word) => *word = word.union(*area),
            None => self.words.push(*area),
        }
        self.in_word = true;
        self.text.push(character);
    }

    fn blank(&mut self, blank: &str) {
        self.in_word = false;
        self.text.push_str(blank);
    }

    /// Returns true if the same character was printed at almost the same position.
    fn is_overprint(&mut self, glyph: &Glyph<'_>) -> bool {
        let Some(character) = glyph.text.chars().next().filter(|c| !c.is_whitespace()) else { return false };
        let unit = (glyph.size * OVERPRINT).max(f64::EPSILON);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the conversion saturates, and positions far outside the page are equal"
        )]
        let (x, y) = ((glyph.origin.x / unit).round() as i64, (glyph.origin.y / unit).round() as i64);
        let near = |step: i64| [step.saturating_sub(1), step, step.saturating_add(1)];
        let is_near =
            near(x).into_iter().any(|x| near(y).into_iter().any(|y| self.printed.contains(&(character, x, y))));
        self.printed.insert((character, x, y));
        is_near
    }

    fn separate(&mut self, glyph: &Glyph<'_>) {
        let Some((end, direction)) = self.last else { return };
        let (moved, size) = (end.to(glyph.origin), glyph.size);
        let (gap, across) = (moved.dot(glyph.direction), moved.cross(glyph.direction).abs());
        let is_turned = direction.dot(glyph.direction) < 0.9;
        let least_gap = if self.in_run { BLANK_IN_RUN } else { BLANK };
        if is_turned || across > size * NEW_LINE {
            self.blank(if across > size * EMPTY_LINE && !is_turned { "\n\n" } else { "\n" });
        } else if gap > size * COLUMN || gap < -2.0 * size {
            self.blank(if self.text.ends_with(' ') { " " } else { "  " });
        } else if gap > size * least_gap && !self.text.ends_with(' ') {
            self.blank(" ");
        }
    }

    /// Returns true if a character was dropped because the text has the maximum length.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns the text and the boxes of its words on a page of this width and height.
    pub(super) fn finish(self, width: f64, height: f64) -> (String, WordBoxes) {
        (self.text, WordBoxes::new(width, height, self.words))
    }
}

/// Returns the upright box around a glyph.
fn area(glyph: &Glyph<'_>, end: Point) -> BoundingBox {
    // Clockwise, y grows downwards: up is the direction of writing turned by a quarter to the left.
    let up = Point { x: glyph.direction.y, y: -glyph.direction.x };
    let corners = [glyph.origin, end]
        .into_iter()
        .flat_map(|base| [base.along(up, glyph.size * ASCENT), base.along(up, -glyph.size * DESCENT)]);
    BoundingBox::around(corners.map(|corner| (corner.x, corner.y)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::normal::normalize;

    const RIGHT: Point = Point { x: 1.0, y: 0.0 };

    fn glyph(text: &str, x: f64, y: f64) -> Glyph<'_> {
        Glyph { text, origin: Point { x, y }, direction: RIGHT, advance: 5.0, size: 10.0 }
    }

    fn page(glyphs: &[Glyph<'_>]) -> (String, WordBoxes) {
        let mut layout = Layout::new(1_000);
        layout.start_run();
        glyphs.iter().for_each(|glyph| layout.add(glyph));
        layout.finish(100.0, 200.0)
    }

    #[test]
    fn gaps_become_blanks_and_moves_become_line_ends() {
        let (text, boxes) = page(&[
            glyph("a", 0.0, 20.0),
            glyph("b", 5.0, 20.0),
            glyph("c", 13.0, 20.0),
            glyph("d", 40.0, 20.0),
            glyph("e", 0.0, 32.0),
            glyph("f", 0.0, 80.0),
        ]);
        assert_eq!(text, "ab c  d\ne\n\nf");
        assert_eq!(boxes.len(), 5);
        let word = boxes.fractions(0).expect("a word");
        for (found, expected) in [(word.left, 0.0), (word.top, 0.055), (word.right, 0.1), (word.bottom, 0.1125)] {
            assert!((found - expected).abs() < 1e-4, "{word:?}");
        }
    }

    #[test]
    fn a_turned_line_stays_together() {
        let down = Point { x: 0.0, y: 1.0 };
        let turned = |text, y| Glyph { direction: down, ..glyph(text, 50.0, y) };
        let (text, boxes) = page(&[glyph("x", 0.0, 20.0), turned("a", 30.0), turned("b", 35.0), turned("c", 43.0)]);
        assert_eq!(text, "x\nab c");
        assert_eq!(boxes.len(), 3);
    }

    #[test]
    fn a_character_that_is_printed_twice_is_read_once() {
        let (text, _) = page(&[glyph("a", 0.0, 20.0), glyph("a", 0.3, 20.0), glyph("a", 5.0, 20.0)]);
        assert_eq!(text, "aa");
    }

    #[test]
    fn a_page_is_cut_at_its_maximum() {
        let mut layout = Layout::new(3);
        for (at, text) in ["a", "bc", "de"].into_iter().enumerate() {
            layout.add(&glyph(text, f64::from(u32::try_from(at).unwrap()) * 5.0, 20.0));
        }
        assert_eq!(layout.finish(1.0, 1.0).0, "abc");
    }

    proptest! {
        #[test]
        fn every_word_of_the_normal_text_has_a_place(
            glyphs in proptest::collection::vec((".{0,3}", -50.0..150.0, -50.0..250.0, 0..4_u8, 0.0..12.0), 0..60),
        ) {
            let mut layout = Layout::new(100);
            for (text, x, y, turn, advance) in &glyphs {
                let direction = [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)][usize::from(*turn)];
                let direction = Point { x: direction.0, y: direction.1 };
                layout.add(&Glyph { text, origin: Point { x: *x, y: *y }, direction, advance: *advance, size: 10.0 });
            }
            let (text, boxes) = layout.finish(100.0, 200.0);
            prop_assert_eq!(normalize(&text).split_whitespace().count(), boxes.len());
        }
    }
}
