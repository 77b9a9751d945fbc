//! The sections of a document: its headings in order, with the parts of the text that belong to them.

use crate::{HEADINGS_MAX, Heading};

/// A position in the text of a document. Positions sort in the order of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPosition {
    /// The number of the page, from 1.
    pub page: u32,
    /// The number of the word on the page, from 0.
    pub word: u32,
}

impl TextPosition {
    /// The start of every text.
    pub const START: Self = Self { page: 1, word: 0 };
}

/// A section: a heading and the text from the heading to the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The number of the section in its document. 0: the text before the first heading.
    pub number: u32,
    /// The number of the section that contains this one. None: a section of the highest level.
    pub parent: Option<u32>,
    /// The level of the heading, from 1. 0: the section has no heading.
    pub level: u8,
    /// The title of the heading. Empty: the section has no heading.
    pub title: String,
    pub start: TextPosition,
    /// The start of the next section of any level. None: the section ends with the document.
    pub own_end: Option<TextPosition>,
    /// The start of the next section that this section does not contain. None: the section ends with the document.
    pub end: Option<TextPosition>,
}

impl Section {
    /// Returns the number of the last page with text of the section and of the sections in it. `pages`: the number of pages of the
    /// document.
    pub fn last_page(&self, pages: u32) -> u32 {
        let last = match self.end {
            None => pages,
            Some(TextPosition { page, word: 0 }) => page.saturating_sub(1),
            Some(end) => end.page,
        };
        last.max(self.start.page)
    }
}

/// The sections of a text, in order. A text has at least one section, and the sections cover the whole text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    sections: Vec<Section>,
}

impl Outline {
    /// Divides a text at its headings. `headings`: the page and the headings on it, in order.
    pub fn new(headings: impl IntoIterator<Item = (u32, Vec<Heading>)>) -> Self {
        let headings =
            headings.into_iter().flat_map(|(page, headings)| headings.into_iter().map(move |heading| (page, heading)));
        let mut sections: Vec<Section> = Vec::new();
        // The numbers of the sections that contain the next one, with their levels.
        let mut open: Vec<(u32, u8)> = Vec::new();
        for (number, (page, Heading { level, title, word })) in (1..).zip(headings.take(HEADINGS_MAX)) {
            let start = TextPosition { page, word };
            if sections.is_empty() && start > TextPosition::START {
                sections.push(Section::before_headings(Some(start)));
            }
            while open.last().is_some_and(|(_, open)| *open >= level) {
                open.pop();
            }
            let parent = open.last().map(|(number, _)| *number);
            open.push((number, level));
            sections.push(Section { number, parent, level, title, start, own_end: None, end: None });
        }
        if sections.is_empty() {
            sections.push(Section::before_headings(None));
        }
        set_ends(&mut sections);
        Self { sections }
    }

    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Returns the section with a number. None: the outline has no such section.
    pub fn section(&self, number: u32) -> Option<&Section> {
        let found = self.sections.binary_search_by_key(&number, |section| section.number).ok()?;
        self.sections.get(found)
    }

    /// Returns the innermost section that contains a position.
    pub fn section_at(&self, position: TextPosition) -> Option<&Section> {
        let after = self.sections.partition_point(|section| section.start <= position);
        self.sections.get(after.saturating_sub(1))
    }

    /// Returns the approximate memory of the outline, in bytes.
    pub fn memory(&self) -> usize {
        self.sections.iter().map(|section| size_of::<Section>() + section.title.len()).sum()
    }
}

impl Section {
    fn before_headings(end: Option<TextPosition>) -> Self {
        Self { number: 0, parent: None, level: 0, title: String::new(), start: TextPosition::START, own_end: end, end }
    }
}

/// Sets the end of each section with a heading. The sections are read from the last one on.
fn set_ends(sections: &mut [Section]) {
    // The start of the last section that was read, and for each open level the start of a section with it or a higher one.
    let mut next: Option<TextPosition> = None;
    let mut starts: Vec<(u8, TextPosition)> = Vec::new();
    for section in sections.iter_mut().rev() {
        section.own_end = next;
        // A section of level 0 contains no other one.
        section.end = if section.level == 0 {
            next
        } else {
            starts.retain(|(level, _)| *level <= section.level);
            starts.last().map(|(_, start)| *start)
        };
        starts.push((section.level, section.start));
        next = Some(section.start);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn heading(level: u8, word: u32) -> Heading {
        Heading { level, title: format!("{level} {word}"), word }
    }

    fn at(page: u32, word: u32) -> TextPosition {
        TextPosition { page, word }
    }

    #[test]
    fn a_section_contains_the_sections_of_lower_levels() {
        let outline = Outline::new([
            (1, vec![heading(1, 4), heading(2, 9)]),
            (3, vec![heading(2, 0), heading(3, 7)]),
            (4, vec![heading(1, 0)]),
        ]);
        let found: Vec<_> = outline
            .sections()
            .iter()
            .map(|section| (section.number, section.parent, section.start, section.own_end, section.end))
            .collect();
        assert_eq!(
            found,
            [
                (0, None, at(1, 0), Some(at(1, 4)), Some(at(1, 4))),
                (1, None, at(1, 4), Some(at(1, 9)), Some(at(4, 0))),
                (2, Some(1), at(1, 9), Some(at(3, 0)), Some(at(3, 0))),
                (3, Some(1), at(3, 0), Some(at(3, 7)), Some(at(4, 0))),
                (4, Some(3), at(3, 7), Some(at(4, 0)), Some(at(4, 0))),
                (5, None, at(4, 0), None, None),
            ]
        );
        let last_pages: Vec<_> = outline.sections().iter().map(|section| section.last_page(9)).collect();
        assert_eq!(last_pages, [1, 3, 2, 3, 3, 9]);
        assert_eq!(outline.section(3).map(|section| section.level), Some(2));
        assert_eq!(outline.section(6), None);
        assert_eq!(outline.section_at(at(3, 6)).map(|section| section.number), Some(3));
        assert_eq!(outline.section_at(at(1, 0)).map(|section| section.number), Some(0));
    }

    #[test]
    fn a_text_without_headings_is_one_section() {
        let outline = Outline::new([]);
        assert_eq!(outline.sections(), [Section::before_headings(None)]);
        assert_eq!(outline.sections()[0].last_page(7), 7);
        let whole = Outline::new([(1, vec![heading(1, 0)])]);
        assert_eq!(whole.sections().iter().map(|section| section.number).collect::<Vec<_>>(), [1]);
    }

    proptest! {
        #[test]
        fn sections_cover_the_text_and_are_nested(levels in proptest::collection::vec((1..5_u8, 0..3_u32), 0..40)) {
            let headings = (1..).zip(levels).map(|(page, (level, word))| (page, vec![heading(level, word)]));
            let outline = Outline::new(headings);
            prop_assert_eq!(outline.sections()[0].start, TextPosition::START);
            for pair in outline.sections().windows(2) {
                prop_assert_eq!(pair[0].own_end, Some(pair[1].start));
            }
            for section in outline.sections() {
                prop_assert_eq!(outline.section(section.number), Some(section));
                prop_assert!(section.end.is_none_or(|end| end >= section.own_end.unwrap_or(end)));
                let next = outline.sections().iter().find(|next| next.number > section.number && next.level <= section.level);
                if section.level > 0 {
                    prop_assert_eq!(section.end, next.map(|next| next.start));
                }
                if let Some(parent) = section.parent.and_then(|parent| outline.section(parent)) {
                    prop_assert!(parent.level < section.level && parent.start < section.start || parent.start == section.start);
                    prop_assert!(parent.end.is_none_or(|end| section.start < end));
                }
            }
        }
    }
}
