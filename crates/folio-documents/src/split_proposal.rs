//! Split points of a file with several documents, as a pure function over the texts and the bookmarks of its pages.
//!
//! | signal at a page | starts a document |
//! |---|---|
//! | the numbering of pages restarts (`Page 1 of 3`) | always |
//! | another document number (`Invoice number 4711`), under the same first line as on the first page of the document before | unless the numbering continues |
//! | the page before is blank | unless the numbering continues |
//! | a bookmark of the first level, on a page with a document number or the first line of the first page | unless the numbering continues |
//!
//! A proposal is a suggestion for a person. It changes nothing.

use folio_resources::PageRange;
use folio_types::limits;

use crate::split::PageBookmark;

/// Number of lines at the beginning of a page in which a document number is searched.
const HEAD_LINES: usize = 40;
/// Number of lines at the beginning and at the end of a page in which its number is searched.
const NUMBER_LINES: usize = 6;
/// Maximum length of a line that is searched, in characters.
const LINE_CHARS: usize = 300;
/// Maximum length of a document number, in characters.
const DOCUMENT_NUMBER_CHARS: usize = 40;
/// Words before the number of a page.
const PAGE_WORDS: [&str; 8] = ["page", "seite", "pagina", "página", "sida", "side", "strona", "blatt"];
/// Words between the number of a page and the number of pages.
const OF_WORDS: [&str; 9] = ["of", "von", "de", "di", "av", "af", "z", "sur", "/"];
/// Labels of document numbers, in lower case.
const NUMBER_LABELS: [&str; 18] = [
    "invoice number",
    "invoice no",
    "invoice nr",
    "invoice #",
    "invoice id",
    "credit note no",
    "credit note number",
    "order number",
    "receipt number",
    "rechnungsnummer",
    "rechnungs-nr",
    "rechnung nr",
    "belegnummer",
    "numéro de facture",
    "facture n",
    "número de factura",
    "factura n",
    "numero fattura",
];

/// The reason for which a document starts at a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitReason {
    /// The first page.
    Start,
    NumberingRestarts,
    DocumentNumber,
    BlankPageBefore,
    Bookmark,
}

/// A document that was detected in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProposedPart {
    pub pages: PageRange,
    /// The reasons for which the document starts at the first page, at least one.
    pub reasons: Vec<SplitReason>,
    /// The number of the document, or the title of its bookmark. None: neither was found.
    pub label: Option<String>,
}

/// The features of a page that a proposal needs. Its size is bounded, whatever the size of the text is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageHint {
    /// The printed number of the page.
    number: Option<u32>,
    document_number: Option<String>,
    /// The first line with text, with single blanks.
    first_line: String,
    is_blank: bool,
}

impl PageHint {
    pub fn of(text: &str) -> Self {
        let lines: Vec<String> = text.lines().map(line).filter(|line| !line.is_empty()).collect();
        let mut ends = lines.iter().rev().take(NUMBER_LINES).chain(lines.iter().take(NUMBER_LINES));
        Self {
            number: ends.find_map(|line| page_number(line)),
            document_number: document_number(lines.get(..HEAD_LINES).unwrap_or(&lines)),
            is_blank: !text.chars().any(char::is_alphanumeric),
            first_line: lines.into_iter().next().unwrap_or_default(),
        }
    }
}

/// Returns a line in lower case with single blanks, cut to [`LINE_CHARS`].
fn line(text: &str) -> String {
    let start: String = text.chars().take(LINE_CHARS).collect();
    start.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Returns the printed number of a page: the number after a word for page, which is alone, or followed by the number of pages.
fn page_number(line: &str) -> Option<u32> {
    let separated = line.replace('/', " / ");
    let words: Vec<&str> =
        separated.split_whitespace().map(|word| word.trim_matches([':', '.', ',', '-', '|'])).collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    words.windows(2).enumerate().find_map(|(at, pair)| {
        let [word, number] = pair else { return None };
        if !PAGE_WORDS.contains(word) {
            return None;
        }
        let number: u32 = number.parse().ok()?;
        let is_last = words.len() == at + 2;
        let is_followed = words.get(at + 2).is_some_and(|of| OF_WORDS.contains(of))
            && words.get(at + 3).is_some_and(|total| total.parse().is_ok_and(|total: u32| total >= number));
        (is_last || is_followed).then_some(number)
    })
}

/// Returns the first document number with its label in front, on the same line or at the start of the next one.
fn document_number(lines: &[String]) -> Option<String> {
    lines.iter().enumerate().find_map(|(at, line)| {
        let rest = NUMBER_LABELS.iter().find_map(|label| line.split_once(label).map(|(_, rest)| rest))?;
        number_in(rest).or_else(|| number_in(lines.get(at + 1)?.split(' ').next()?))
    })
}

/// Returns the first word with a digit.
fn number_in(text: &str) -> Option<String> {
    let mut words = text.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    words
        .find(|word| word.chars().any(|c| c.is_ascii_digit()) && word.chars().count() <= DOCUMENT_NUMBER_CHARS)
        .map(str::to_owned)
}

/// Proposes the documents of a file. One part, or none for a file without pages: no split point was detected. After
/// [`limits::SPLIT_PARTS_MAX`] parts, the last part contains the rest of the file.
pub fn propose_split(pages: &[PageHint], bookmarks: &[PageBookmark]) -> Vec<ProposedPart> {
    let mut parts: Vec<ProposedPart> = Vec::new();
    let Some(first) = pages.first() else { return parts };
    // The document in progress.
    let (mut start, mut known_number) = (first, None::<&str>);
    let mut previous = first;
    for (number, page) in (1_u32..).zip(pages) {
        let bookmark = bookmarks.iter().find(|bookmark| bookmark.page == number);
        let reasons = match number {
            1 => vec![SplitReason::Start],
            _ => reasons(page, previous, (start, known_number), bookmark.is_some()),
        };
        if let Some(last) = parts.last_mut() {
            last.pages.last = number;
        }
        if !reasons.is_empty() && parts.len() < limits::SPLIT_PARTS_MAX {
            // The page is the first one of the next part.
            if let Some(last) = parts.last_mut() {
                last.pages.last = number - 1;
            }
            let title = bookmark.map(|bookmark| bookmark.title.trim().to_owned()).filter(|title| !title.is_empty());
            let label = page.document_number.clone().or(title);
            parts.push(ProposedPart { pages: PageRange { first: number, last: number }, reasons, label });
            (start, known_number) = (page, None);
        }
        known_number = known_number.or(page.document_number.as_deref());
        if let Some(part) = parts.last_mut() {
            part.label = part.label.take().or_else(|| known_number.map(str::to_owned));
        }
        previous = page;
    }
    parts
}

/// Returns the reasons for which a document starts at a page after the first one. `document`: the first page of the document in
/// progress, and its number.
fn reasons(
    page: &PageHint,
    previous: &PageHint,
    document: (&PageHint, Option<&str>),
    has_bookmark: bool,
) -> Vec<SplitReason> {
    let (start, known_number) = document;
    let mut reasons = Vec::new();
    if page.is_blank {
        return reasons;
    }
    match page.number {
        Some(1) => reasons.push(SplitReason::NumberingRestarts),
        Some(number) if number > 1 && (previous.is_blank || previous.number.is_none_or(|before| before < number)) => {
            return reasons;
        }
        _ => {}
    }
    let has_header = !page.first_line.is_empty() && page.first_line == start.first_line;
    let is_other = matches!((page.document_number.as_deref(), known_number), (Some(new), Some(old)) if new != old);
    if has_header && is_other {
        reasons.push(SplitReason::DocumentNumber);
    }
    if previous.is_blank {
        reasons.push(SplitReason::BlankPageBefore);
    }
    if has_bookmark && (has_header || page.document_number.is_some()) {
        reasons.push(SplitReason::Bookmark);
    }
    reasons
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn proposed(texts: &[&str], bookmarks: &[(u32, &str)]) -> Vec<(u32, u32, Vec<SplitReason>, Option<String>)> {
        let hints: Vec<_> = texts.iter().map(|text| PageHint::of(text)).collect();
        let bookmark = |(page, title): &(u32, &str)| PageBookmark { page: *page, title: (*title).to_owned() };
        let bookmarks: Vec<_> = bookmarks.iter().map(bookmark).collect();
        let parts = propose_split(&hints, &bookmarks).into_iter();
        parts.map(|part| (part.pages.first, part.pages.last, part.reasons, part.label)).collect()
    }

    #[test]
    fn numbering_that_restarts_starts_a_document() {
        let parts =
            proposed(&["Acme\nPage 1 of 2", "more\nPage 2 of 2", "Other\nSeite: 1/1", "third\n- Page 1 -"], &[]);
        let starts: Vec<_> = parts.iter().map(|part| (part.0, part.1)).collect();
        assert_eq!(starts, [(1, 2), (3, 3), (4, 4)]);
        assert_eq!(parts[1].2, [SplitReason::NumberingRestarts]);
    }

    #[test]
    fn another_number_under_the_same_header_starts_a_document_unless_the_numbering_continues() {
        let page = |number: &str| format!("ACME Ltd\nInvoice number: {number}\nTotal 1");
        let (one, two) = (page("A-17"), page("A-18"));
        let parts = proposed(&[&one, &one, &two], &[]);
        assert_eq!(parts.len(), 2);
        assert_eq!(parts[0], (1, 2, vec![SplitReason::Start], Some("a-17".to_owned())));
        assert_eq!(parts[1], (3, 3, vec![SplitReason::DocumentNumber], Some("a-18".to_owned())));
        let continued = format!("{two}\nPage 2 of 3");
        assert_eq!(proposed(&[&one, &continued], &[]).len(), 1);
        // A letter that refers to invoices has another first line.
        assert_eq!(proposed(&[&one, "Reminder\nInvoice number: A-16"], &[]).len(), 1);
    }

    #[test]
    fn blank_pages_and_bookmarks_are_signals() {
        let parts = proposed(&["a 1", "", "b 2"], &[]);
        assert_eq!(parts[1], (3, 3, vec![SplitReason::BlankPageBefore], None));
        assert_eq!(proposed(&["x\nPage 1 of 3", " ", "y\nPage 3 of 3"], &[]).len(), 1, "a blank back");
        let page = "ACME\nText";
        let parts = proposed(&[page, page, page], &[(1, "One"), (3, "Two")]);
        assert_eq!(parts[0], (1, 2, vec![SplitReason::Start], Some("One".to_owned())));
        assert_eq!(parts[1], (3, 3, vec![SplitReason::Bookmark], Some("Two".to_owned())));
        assert_eq!(proposed(&["Report", "1 Introduction", "2 Goals"], &[(2, "1"), (3, "2")]).len(), 1, "chapters");
    }

    #[test]
    fn numbers_of_pages_are_read_with_their_word_only() {
        for (line, number) in [
            ("page 1 of 3", Some(1)),
            ("seite 2 von 4", Some(2)),
            ("invoice 7 | page: 1/2", Some(1)),
            ("page 12", Some(12)),
            ("see page 3 of the contract", None),
            ("page 5 of 3", None),
            ("1 / 3", None),
        ] {
            assert_eq!(page_number(line), number, "{line}");
        }
    }

    proptest! {
        #[test]
        fn parts_cover_all_pages_in_order(texts in prop::collection::vec("(page [1-3]( of 3)?|invoice no [a-c]1|acme\ninvoice no [ab]1|)", 0..30)) {
            let hints: Vec<_> = texts.iter().map(|text| PageHint::of(text)).collect();
            let parts = propose_split(&hints, &[]);
            let mut next = 1;
            for part in &parts {
                prop_assert!(part.pages.first == next && part.pages.last >= next && !part.reasons.is_empty());
                next = part.pages.last + 1;
            }
            prop_assert_eq!(next as usize, texts.len() + 1);
        }
    }
}
