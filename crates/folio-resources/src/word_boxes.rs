//! The boxes of words on a page.
//!
//! A page has one box for each word of its text, in the order of the text. A word is a part of the text between white
//! space ([`str::split_whitespace`]), so that the text itself determines the characters of each word.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An upright rectangle in the unit of a page. The origin is the upper left corner, and y grows downwards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoundingBox {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl BoundingBox {
    /// Returns the smallest rectangle that contains all points `(x, y)`.
    pub fn around(points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let empty = Self { left: f64::MAX, top: f64::MAX, right: f64::MIN, bottom: f64::MIN };
        points.into_iter().fold(empty, |area, (x, y)| Self {
            left: area.left.min(x),
            top: area.top.min(y),
            right: area.right.max(x),
            bottom: area.bottom.max(y),
        })
    }

    /// Returns the smallest rectangle that contains both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            left: self.left.min(other.left),
            top: self.top.min(other.top),
            right: self.right.max(other.right),
            bottom: self.bottom.max(other.bottom),
        }
    }
}

/// A rectangle in 65,535ths of the width and the height of its page: left, top, right, bottom.
type Packed = [u16; 4];

/// The boxes of the words of a page.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct WordBoxes {
    /// Width of the page in points (1/72 inch), or in pixels for an image.
    pub width: f32,
    /// Height of the page in the same unit.
    pub height: f32,
    #[serde(serialize_with = "encode_boxes", deserialize_with = "decode_boxes")]
    boxes: Vec<Packed>,
}

impl WordBoxes {
    /// Stores the rectangles of words on a page of this size. Parts outside the page are cut off.
    pub fn new(width: f64, height: f64, words: impl IntoIterator<Item = BoundingBox>) -> Self {
        let boxes = words.into_iter().map(|area| {
            let (left, top) = (fraction(area.left, width), fraction(area.top, height));
            [left, top, fraction(area.right, width).max(left), fraction(area.bottom, height).max(top)]
        });
        #[expect(clippy::cast_possible_truncation, reason = "the size of a page needs no more than seven digits")]
        Self { width: width as f32, height: height as f32, boxes: boxes.collect() }
    }

    /// Returns the boxes of a part of the words. Words without a box are left out.
    #[must_use]
    pub fn part(&self, words: Range<usize>) -> Self {
        let end = words.end.min(self.boxes.len());
        let boxes = self.boxes.get(words.start.min(end)..end).unwrap_or_default();
        Self { width: self.width, height: self.height, boxes: boxes.to_vec() }
    }

    /// Number of words.
    pub fn len(&self) -> usize {
        self.boxes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.boxes.is_empty()
    }

    /// Bytes of the boxes, before their encoding as text.
    pub fn bytes(&self) -> u64 {
        size_of_val(self.boxes.as_slice()) as u64
    }

    /// Removes the boxes after the first `words` words.
    pub fn truncate(&mut self, words: usize) {
        self.boxes.truncate(words);
    }

    /// Returns the rectangle of a word, from 0 on, in fractions of the page (0 to 1). None: the word has no box.
    pub fn fractions(&self, word: usize) -> Option<BoundingBox> {
        let [left, top, right, bottom] = self.boxes.get(word)?.map(fraction_of);
        Some(BoundingBox { left, top, right, bottom })
    }

    /// Returns the lines of the text with these boxes. Lines without words are left out.
    pub fn lines(&self, text: &str) -> Vec<TextLine> {
        let mut next = 0;
        let line = |line: &str| {
            let words = next..next + line.split_whitespace().count();
            next = words.end;
            let boxes = words.clone().filter_map(|word| self.fractions(word));
            TextLine { area: boxes.reduce(BoundingBox::union), words }
        };
        text.lines().map(line).filter(|line| !line.words.is_empty()).collect()
    }
}

/// A line of the text of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct TextLine {
    /// The numbers of its words on the page, from 0.
    pub words: Range<usize>,
    /// The smallest rectangle around the boxes of its words, in fractions of the page (0 to 1). None: no word has a box.
    pub area: Option<BoundingBox>,
}

/// Returns the words of a text with their byte ranges. Word `n` has box `n`.
pub fn words(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    let mut end = 0;
    text.split_whitespace().map(move |word| {
        let start = text.get(end..).and_then(|rest| rest.find(word)).map_or(end, |at| end + at);
        end = start + word.len();
        (start..end, word)
    })
}

/// Returns a coordinate in 65,535ths of a size.
pub(crate) fn fraction(at: f64, size: f64) -> u16 {
    let part = (at / size).clamp(0.0, 1.0) * f64::from(u16::MAX);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the value is in 0..=65,535 or no number"
    )]
    let part = part.round() as u16;
    part
}

/// Returns the fraction (0 to 1) of a coordinate in 65,535ths.
pub(crate) fn fraction_of(part: u16) -> f64 {
    f64::from(part) / f64::from(u16::MAX)
}

fn encode_boxes<S: Serializer>(boxes: &[Packed], serializer: S) -> Result<S::Ok, S::Error> {
    let bytes: Vec<u8> = boxes.iter().flatten().flat_map(|part| part.to_le_bytes()).collect();
    serializer.serialize_str(&STANDARD_NO_PAD.encode(bytes))
}

fn decode_boxes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Packed>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let bytes = STANDARD_NO_PAD.decode(text).map_err(D::Error::custom)?;
    let (boxes, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(D::Error::custom("the last box is incomplete"));
    }
    Ok(boxes.iter().map(|&[a, b, c, d, e, f, g, h]| [[a, b], [c, d], [e, f], [g, h]].map(u16::from_le_bytes)).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn boxes_are_fractions_of_the_page() {
        let word = BoundingBox::around([(10.0, 20.0), (30.0, 25.0)]);
        let mut boxes = WordBoxes::new(100.0, 200.0, [word, word.union(BoundingBox::around([(-5.0, 300.0)]))]);
        let found = boxes.fractions(0).unwrap();
        for (found, expected) in [(found.left, 0.1), (found.top, 0.1), (found.right, 0.3), (found.bottom, 0.125)] {
            assert!((found - expected).abs() < 1e-4, "{found} {expected}");
        }
        let found = boxes.fractions(1).unwrap();
        assert_eq!((found.left, found.bottom), (0.0, 1.0), "parts outside the page are cut off");
        assert_eq!(boxes.fractions(2), None);
        assert_eq!(boxes.part(1..2).fractions(0), boxes.fractions(1));
        assert_eq!([boxes.part(0..2), boxes.part(1..9), boxes.part(5..9)].map(|part| part.len()), [2, 1, 0]);
        boxes.truncate(1);
        assert_eq!(boxes.len(), 1);
        assert!(!boxes.is_empty());
    }

    #[test]
    fn a_page_without_a_size_has_boxes() {
        let boxes = WordBoxes::new(0.0, f64::NAN, [BoundingBox::around([(1.0, 1.0)]), BoundingBox::around([])]);
        assert_eq!(boxes.len(), 2);
    }

    #[test]
    fn a_line_has_the_rectangle_of_its_words() {
        let word = |left: f64, top: f64| BoundingBox { left, top, right: left + 0.1, bottom: top + 0.1 };
        let boxes = WordBoxes::new(1.0, 1.0, [word(0.0, 0.0), word(0.5, 0.0), word(0.0, 0.5)]);
        let lines = boxes.lines("Total  12.50\n\n \nEUR without\nboth without\n");
        let words: Vec<_> = lines.iter().map(|line| line.words.clone()).collect();
        assert_eq!(words, [0..2, 2..4, 4..6]);
        let first = lines[0].area.unwrap();
        assert!(
            first.left == 0.0 && (first.right - 0.6).abs() < 1e-4 && (first.bottom - 0.1).abs() < 1e-4,
            "{first:?}"
        );
        assert_eq!((lines[1].area, lines[2].area), (boxes.fractions(2), None));
        assert!(boxes.lines(" \n").is_empty());
    }

    #[test]
    fn words_have_their_ranges() {
        let text = "  Ä a  aa\u{a0}a\n";
        let found: Vec<_> = words(text).collect();
        assert!(found.iter().all(|(range, word)| text.get(range.clone()) == Some(*word)));
        assert_eq!(found.iter().map(|(range, _)| range.start).collect::<Vec<_>>(), [2, 5, 8, 12]);
    }

    #[test]
    fn malformed_boxes_are_refused() {
        for boxes in ["AAAA", "?", "AAAAAAAAAAAA"] {
            let json = format!("{{\"width\":1.0,\"height\":1.0,\"boxes\":{boxes:?}}}");
            assert!(serde_json::from_str::<WordBoxes>(&json).is_err(), "{boxes}");
        }
    }

    proptest! {
        #[test]
        fn encoded_boxes_are_unchanged(
            words in proptest::collection::vec((-10.0..110.0, -10.0..110.0, 0.0..50.0, 0.0..50.0), 0..20),
        ) {
            let areas = words.iter().map(|(x, y, w, h)| BoundingBox::around([(*x, *y), (x + w, y + h)]));
            let boxes = WordBoxes::new(100.0, 100.0, areas);
            let json = serde_json::to_string(&boxes).unwrap();
            prop_assert_eq!(serde_json::from_str::<WordBoxes>(&json).unwrap(), boxes);
        }
    }
}
