//! Positions of the words of a passage on its pages. Pure.

use std::collections::BTreeMap;
use std::ops::Range;

use folio_resources::{BoundingBox, WordBoxes, words};
use folio_storage::value::StoredSegment;
use folio_tools::retrieval::PassageArea;
use folio_types::DocumentId;

/// The words of a page with their boxes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PageWords {
    /// The characters of each word, in order.
    words: Vec<Range<u32>>,
    boxes: WordBoxes,
}

/// Pages by their documents and numbers.
pub(super) type Pages = BTreeMap<(DocumentId, u32), PageWords>;

impl PageWords {
    pub(super) fn new(text: &str, boxes: WordBoxes) -> Self {
        let count = |text: &str| u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        let (mut bytes, mut chars) = (0usize, 0u32);
        let words = words(text).map(|(range, word)| {
            let start = chars.saturating_add(count(text.get(bytes..range.start).unwrap_or_default()));
            (bytes, chars) = (range.end, start.saturating_add(count(word)));
            start..chars
        });
        Self { words: words.collect(), boxes }
    }

    /// Returns the smallest rectangle around the words that contain a character of the range. None: no such word has a box.
    fn area(&self, chars: &Range<u32>) -> Option<BoundingBox> {
        let first = self.words.partition_point(|word| word.end <= chars.start);
        let within = self.words.iter().enumerate().skip(first).take_while(|(_, word)| word.start < chars.end);
        within.filter_map(|(at, _)| self.boxes.fractions(at)).reduce(BoundingBox::union)
    }
}

/// Returns the page and its characters that a range of the text of a passage is from: of a table, all characters of
/// the row or of the table. None: the range is not from the page, such as a separator.
fn origin(segments: &[StoredSegment], chars: &Range<u32>) -> Option<(u32, Range<u32>)> {
    let next = segments.partition_point(|segment| segment.text_start <= chars.start);
    let StoredSegment { text_start, page, start, end, is_verbatim } = *segments.get(next.checked_sub(1)?)?;
    if !is_verbatim {
        return Some((page, start..end));
    }
    let on_page = |at: u32| start.saturating_add(at.saturating_sub(text_start)).min(end);
    let range = on_page(chars.start)..on_page(chars.end);
    (!range.is_empty()).then_some((page, range))
}

fn area_of(page: u32, area: BoundingBox) -> PassageArea {
    let BoundingBox { left, top, right, bottom } = area;
    PassageArea { page, left, top, right, bottom }
}

/// Returns the rectangle around a range of the text of a passage. None: the position is unknown.
pub(super) fn area(
    pages: &Pages,
    document: &DocumentId,
    segments: &[StoredSegment],
    chars: &Range<u32>,
) -> Option<PassageArea> {
    let (page, chars) = origin(segments, chars)?;
    let words = pages.get(&(document.clone(), page))?;
    Some(area_of(page, words.area(&chars)?))
}

/// Returns one rectangle for each page that a passage is from, in the order of the pages.
pub(super) fn areas(pages: &Pages, document: &DocumentId, segments: &[StoredSegment]) -> Vec<PassageArea> {
    let mut found: BTreeMap<u32, BoundingBox> = BTreeMap::new();
    for segment in segments {
        let words = pages.get(&(document.clone(), segment.page));
        if let Some(area) = words.and_then(|words| words.area(&(segment.start..segment.end))) {
            found.entry(segment.page).and_modify(|known| *known = known.union(area)).or_insert(area);
        }
    }
    found.into_iter().map(|(page, area)| area_of(page, area)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a page with one word for each tenth of its width.
    fn page(text: &str) -> PageWords {
        let boxes = (0..text.split_whitespace().count()).map(|at| {
            let left = 10.0 * f64::from(u32::try_from(at).unwrap());
            BoundingBox { left, top: 0.0, right: left + 10.0, bottom: 10.0 }
        });
        PageWords::new(text, WordBoxes::new(100.0, 100.0, boxes))
    }

    fn document() -> DocumentId {
        DocumentId::derive(&["a"])
    }

    fn segment(text_start: u32, page: u32, chars: Range<u32>, is_verbatim: bool) -> StoredSegment {
        StoredSegment { text_start, page, start: chars.start, end: chars.end, is_verbatim }
    }

    /// Returns the left and the right edge in tenths.
    fn tenths(area: &PassageArea) -> (u32, u32, u32) {
        let tenth = |edge: f64| (edge * 10.0).round() as u32;
        (area.page, tenth(area.left), tenth(area.right))
    }

    #[test]
    fn words_are_found_by_their_characters() {
        let words = page("  Größe der\nRechnung");
        assert_eq!(words.words, [2..7, 8..11, 12..20]);
        let found = |chars| words.area(&chars).map(|area| tenths(&area_of(1, area)));
        assert_eq!(found(2..7), Some((1, 0, 1)));
        assert_eq!(found(6..9), Some((1, 0, 2)), "words that contain a part of the range");
        assert_eq!(found(8..20), Some((1, 1, 3)));
        assert_eq!(found(7..8), None, "a blank");
        assert_eq!(found(20..30), None);
        assert_eq!(PageWords::new("a", WordBoxes::default()).area(&(0..1)), None);
    }

    #[test]
    fn a_range_is_located_through_its_segment() {
        let segments = [segment(0, 2, 10..20, true), segment(11, 3, 0..5, true), segment(20, 3, 30..60, false)];
        assert_eq!(origin(&segments, &(0..4)), Some((2, 10..14)));
        assert_eq!(origin(&segments, &(8..14)), Some((2, 18..20)), "a range ends with its segment");
        assert_eq!(origin(&segments, &(12..14)), Some((3, 1..3)));
        assert_eq!(origin(&segments, &(10..11)), None, "a separator");
        assert_eq!(origin(&segments, &(17..19)), None, "after the end of a segment");
        assert_eq!(origin(&segments, &(25..27)), Some((3, 30..60)), "a row of a table");
        assert_eq!(origin(&[], &(0..1)), None);
        assert_eq!(origin(&segments[1..], &(0..1)), None);
    }

    #[test]
    fn a_passage_has_one_rectangle_for_each_page() {
        let pages = Pages::from([
            ((document(), 1), page("one two three")),
            ((document(), 2), page("four five")),
            ((DocumentId::derive(&["b"]), 3), page("foreign")),
        ]);
        let segments = [
            segment(0, 1, 4..7, true),
            segment(4, 1, 8..13, true),
            segment(10, 2, 0..4, true),
            segment(15, 3, 0..7, true),
        ];
        let found = areas(&pages, &document(), &segments);
        assert_eq!(found.iter().map(tenths).collect::<Vec<_>>(), [(1, 1, 3), (2, 0, 1)]);
        assert_eq!(area(&pages, &document(), &segments, &(4..9)).as_ref().map(tenths), Some((1, 2, 3)));
        assert_eq!(area(&pages, &document(), &segments, &(15..22)), None, "a page of another document");
    }

    proptest! {
        #[test]
        fn any_range_is_located_within_its_segment(
            starts in proptest::collection::vec((0u32..50, 1u32..4, 0u32..40, 0u32..20, any::<bool>()), 0..6),
            (from, length) in (0u32..80, 0u32..20),
        ) {
            let mut segments: Vec<StoredSegment> = starts
                .into_iter()
                .map(|(text_start, page, start, length, is_verbatim)| {
                    StoredSegment { text_start, page, start, end: start + length, is_verbatim }
                })
                .collect();
            segments.sort_by_key(|segment| segment.text_start);
            if let Some((page, chars)) = origin(&segments, &(from..from + length)) {
                let within = |segment: &StoredSegment| {
                    segment.page == page && segment.start <= chars.start && chars.end <= segment.end
                };
                prop_assert!(segments.iter().any(within));
            }
        }
    }
}
