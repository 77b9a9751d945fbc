//! The structure of a page of Markdown.

use std::ops::Range;

use folio_resources::{Heading, Link, LinkTarget, PageStructure, Table};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::{captions, grid, in_one_line, word_number};

/// An image to which a page of Markdown refers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageReference {
    /// The caption below the image, otherwise its alternative text. Empty: it has none.
    pub(crate) description: String,
    pub(crate) target: String,
}

/// Returns the headings, tables and links of a page.
pub(super) fn structure(text: &str) -> PageStructure {
    Reader::read(text).found
}

/// Returns the references of a page to images, in order.
pub(crate) fn image_references(text: &str) -> Vec<ImageReference> {
    Reader::read(text).images
}

/// Counts the words before positions of a text that do not decrease.
struct WordCounter<'t> {
    text: &'t str,
    word: usize,
    byte: usize,
}

impl WordCounter<'_> {
    fn before(&mut self, byte: usize) -> usize {
        if byte > self.byte {
            self.word += self.text.get(self.byte..byte).unwrap_or_default().split_whitespace().count();
            self.byte = byte;
        }
        self.word
    }
}

/// Collects the texts of the elements that are open.
struct Reader<'t> {
    words: WordCounter<'t>,
    found: PageStructure,
    heading: Option<String>,
    /// The anchor and the target of a link.
    link: Option<(String, String)>,
    images: Vec<ImageReference>,
    /// An image whose alternative text is read.
    image: Option<ImageReference>,
    rows: Vec<Vec<String>>,
    cell: Option<String>,
    table_word: usize,
}

impl<'t> Reader<'t> {
    fn read(text: &'t str) -> Self {
        let mut reader = Self::new(text);
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            reader.event(event, range);
        }
        reader
    }

    fn new(text: &'t str) -> Self {
        Self {
            words: WordCounter { text, word: 0, byte: 0 },
            found: PageStructure::default(),
            heading: None,
            link: None,
            images: Vec::new(),
            image: None,
            rows: Vec::new(),
            cell: None,
            table_word: 0,
        }
    }

    fn event(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                let word = word_number(self.words.before(range.start));
                self.heading = Some(String::new());
                self.found.headings.push(Heading { level: level as u8, title: String::new(), word });
            }
            Event::End(TagEnd::Heading(_)) => {
                let title = in_one_line(self.heading.take().unwrap_or_default().split_whitespace());
                if title.is_empty() {
                    self.found.headings.pop();
                } else if let Some(heading) = self.found.headings.last_mut() {
                    heading.title = title;
                }
            }
            Event::Start(Tag::Link { dest_url, .. }) => self.link = Some((String::new(), dest_url.trim().to_owned())),
            Event::End(TagEnd::Link) => {
                if let Some((anchor, url)) = self.link.take() {
                    let anchor = in_one_line(anchor.split_whitespace());
                    self.found.links.push(Link { anchor, target: LinkTarget::Url(url), area: None });
                }
            }
            Event::Start(Tag::Image { dest_url, .. }) => {
                let target = dest_url.trim().to_owned();
                self.image = Some(ImageReference { description: String::new(), target });
            }
            Event::End(TagEnd::Image) => {
                if let Some(ImageReference { description, target }) = self.image.take() {
                    let below = self.words.text.get(range.end..).and_then(captions::line_below);
                    let description = in_one_line(below.as_deref().unwrap_or(&description).split_whitespace());
                    self.images.push(ImageReference { description, target });
                }
            }
            Event::Start(Tag::Table(_)) => self.table_word = self.words.before(range.start),
            Event::Start(Tag::TableHead | Tag::TableRow) => self.rows.push(Vec::new()),
            Event::Start(Tag::TableCell) => self.cell = Some(String::new()),
            Event::End(TagEnd::TableCell) => {
                if let (Some(row), Some(cell)) = (self.rows.last_mut(), self.cell.take()) {
                    row.push(cell.trim().to_owned());
                }
            }
            Event::End(TagEnd::Table) => {
                let (rows, is_cut) = grid(std::mem::take(&mut self.rows));
                let words = self.words.before(range.end).saturating_sub(self.table_word);
                let (word, words) = (word_number(self.table_word), word_number(words));
                if !rows.is_empty() {
                    self.found.tables.push(Table { word, words, rows, area: None, is_cut });
                }
            }
            Event::Text(text) | Event::Code(text) => self.text(&text),
            Event::SoftBreak | Event::HardBreak => self.text(" "),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if let Some(image) = &mut self.image {
            image.description.push_str(text);
            return;
        }
        let anchor = self.link.as_mut().map(|(anchor, _)| anchor);
        for open in [self.heading.as_mut(), anchor, self.cell.as_mut()].into_iter().flatten() {
            open.push_str(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_have_their_captions_or_alternative_texts() {
        let text = "![An *engine*](media/1.png) and ![](2.png)\n\n# A ![b](3.png) title\n\n![c](4.png)\n\n**Figure 1:** A pump\n";
        let found: Vec<_> = image_references(text).into_iter().map(|image| (image.description, image.target)).collect();
        let expected = [("An engine", "media/1.png"), ("", "2.png"), ("b", "3.png"), ("Figure 1: A pump", "4.png")];
        assert_eq!(found, expected.map(|(description, target)| (description.to_owned(), target.to_owned())));
        assert_eq!(structure(text).headings[0].title, "A title");
    }

    #[test]
    fn a_page_has_headings_links_and_tables() {
        let text = "intro\n\n# Terms of *use*\n\nSee [the\nsite](https://example.com/a) and <mailto:a@example.com>.\n\n\
                    | Item | Price |\n| --- | --- |\n| [A](b.pdf) | 1 \\| 2 |\n| B |\n\n## Fees\n#\n";
        let found = structure(text);
        let heading = |level, title: &str, word| Heading { level, title: title.to_owned(), word };
        assert_eq!(found.headings, [heading(1, "Terms of use", 1), heading(2, "Fees", 30)]);
        let link = |anchor: &str, url: &str| Link {
            anchor: anchor.to_owned(),
            target: LinkTarget::Url(url.to_owned()),
            area: None,
        };
        let expected = [
            link("the site", "https://example.com/a"),
            link("mailto:a@example.com", "mailto:a@example.com"),
            link("A", "b.pdf"),
        ];
        assert_eq!(found.links, expected);
        assert_eq!(found.tables.len(), 1);
        let table = &found.tables[0];
        assert_eq!(table.rows, [["Item", "Price"], ["A", "1 | 2"], ["B", ""]]);
        let words: Vec<_> = text.split_whitespace().collect();
        assert_eq!(words[table.word as usize..][..2], ["|", "Item"]);
        assert_eq!(words[(table.word + table.words) as usize], "##");
    }
}
