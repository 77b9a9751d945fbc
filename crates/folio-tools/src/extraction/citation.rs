//! Citations of an extraction: reads the text of the document twice, to search its values and to quote them.

use std::collections::{BTreeMap, BTreeSet};

use folio_resources::{
    CITATIONS_MAX, CellPosition, Citation, CitationKind, Document, Extraction, ExtractionReport, QUOTE_CHARS,
    REPORT_PATH_BYTES, SECTION_CHARS, TextState, WordBoxes, cell_at, structured_invoice_name, words,
};
use folio_storage::Stores;
use folio_storage::value::PageText;
use folio_types::{Coverage, Error, OrgId, Result, Timestamp};
use serde_json::Value;
use tracing::Instrument as _;
use tracing::field::Empty;

use super::location::{Located, Location, Search, SearchResult};

/// Number of pages of one read.
const PAGES_AT_ONCE: u32 = 16;
/// Maximum number of pages of a document up to which citations of an older text are checked again when an extraction is read.
// proto: Citation.text_generation "more than {} pages"
const CHECKED_PAGES_MAX: u32 = 500;

/// The citations of an extraction.
#[derive(Debug, Default)]
pub struct Cited {
    /// The first citations, in the order of the data.
    pub citations: Vec<Citation>,
    /// Number of values that the text contains.
    pub located: u32,
    /// Number of values, among the located ones, for which the model stated a valid quote.
    pub cited: u32,
    /// Number of values that the text does not contain.
    pub inferred: u32,
    /// The paths of all values that the text contains.
    pub paths: BTreeSet<String>,
}

/// Finds the values of the data in the text of the document. `quotes`: the quotes of the model by the paths of their values.
/// Cost: the text is read twice; a page takes about a millisecond.
pub async fn cite(
    stores: &Stores,
    org: &OrgId,
    document: &Document,
    data: &Value,
    quotes: &BTreeMap<String, String>,
) -> Result<Cited> {
    let mut search = Search::new(data, quotes);
    for first in (1..=document.pages).step_by(PAGES_AT_ONCE as usize) {
        let pages = stores.texts.text(org, document.id.as_str(), first, PAGES_AT_ONCE).await?;
        search = blocking(move || {
            pages.iter().for_each(|page| search.add_page(page.number, &page.text));
            search
        })
        .await?;
    }
    let SearchResult { mut located, missing } = blocking(move || search.finish()).await?;
    let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    let (all, cited) = (count(located.len()), count(located.iter().filter(|found| found.quote.is_some()).count()));
    let paths = located.iter().map(|found| found.path.clone()).collect();
    located.retain(|found| found.path.len() <= REPORT_PATH_BYTES);
    located.truncate(CITATIONS_MAX);
    let citations = quote(stores, org, document, located).await?;
    Ok(Cited { citations, located: all, cited, inferred: missing, paths })
}

/// Finds the values of a new extraction as [`cite`] does, within a span. The metrics count the values by their evidence.
pub(super) async fn cite_new(
    stores: &Stores,
    org: &OrgId,
    document: &Document,
    data: &Value,
    quotes: &BTreeMap<String, String>,
) -> Result<Cited> {
    let span = tracing::info_span!(
        "cite",
        otel.name = "cite values",
        folio.values.cited = Empty,
        folio.values.located = Empty,
        folio.values.inferred = Empty,
    );
    let found = cite(stores, org, document, data, quotes).instrument(span.clone()).await?;
    span.record("folio.values.cited", i64::from(found.cited));
    span.record("folio.values.located", i64::from(found.located.saturating_sub(found.cited)));
    span.record("folio.values.inferred", i64::from(found.inferred));
    Ok(found)
}

/// Returns true if the text of a document was extracted again after the citations of an extraction were checked.
/// `text_generation`: the current text generation of the document.
fn is_outdated(text_generation: Option<Timestamp>, report: &ExtractionReport, created_at: Timestamp) -> bool {
    let is_checked = |current: Timestamp| match report.text_generation {
        Some(checked) => checked == current,
        None => current <= created_at,
    };
    !report.is_empty() && text_generation.is_some_and(|current| !is_checked(current))
}

/// Returns the extraction with citations of the current text of its document, and without the approvals by a review rule of
/// values that this text lacks: the extraction is then not verified, unless a person verified it. Nothing is stored. A document
/// that has lost its text contains no value. A text that is being extracted, or that has more than [`CHECKED_PAGES_MAX`] pages, is
/// not searched; the stored citations are then returned. Cost: no reads, or the cost of [`cite`] if the text was extracted again.
pub async fn check_again(stores: &Stores, document: &Document, mut extraction: Extraction) -> Result<Extraction> {
    let has_lost_text =
        matches!(document.state, TextState::NoText(_) | TextState::Failed(_)) && !extraction.report.is_empty();
    let is_outdated = has_lost_text || is_outdated(document.text_generation, &extraction.report, extraction.created_at);
    if !is_outdated || document.pages > CHECKED_PAGES_MAX {
        return Ok(extraction);
    }
    let stored = extraction.report.citations.iter().filter(|citation| citation.kind == CitationKind::Cited);
    let quotes = stored.map(|citation| (citation.path.clone(), citation.quote.clone())).collect();
    let found = cite(stores, &extraction.org, document, &extraction.original, &quotes).await?;
    let Cited { citations, located, cited, inferred, paths } = found;
    let before = std::mem::take(&mut extraction.report);
    let report = ExtractionReport {
        coverage: Coverage { located, cited, inferred, ..before.coverage },
        citations,
        text_generation: document.text_generation,
        ..before
    };
    let is_withdrawn = extraction.fields.withdraw_unsupported(&paths);
    let verified = extraction.verified && (!is_withdrawn || extraction.verified_by.is_some());
    Ok(Extraction { report, verified, ..extraction })
}

/// Runs a search, which would block an async thread for too long.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::internal(format!("the search for extracted values failed: {error}")))
}

/// Returns the reads of pages as first pages with numbers of pages: near pages share a read.
pub(super) fn reads_of(mut needed: BTreeSet<u32>) -> Vec<(u32, u32)> {
    let mut reads = Vec::new();
    while let Some(first) = needed.pop_first() {
        let end = first.saturating_add(PAGES_AT_ONCE);
        let last = needed.range(..end).next_back().copied().unwrap_or(first);
        needed = needed.split_off(&end);
        reads.push((first, last - first + 1));
    }
    reads
}

/// Reads the pages of the locations, and quotes them. A location whose page has changed meanwhile has no citation.
pub(super) async fn quote(
    stores: &Stores,
    org: &OrgId,
    document: &Document,
    located: Vec<Located>,
) -> Result<Vec<Citation>> {
    let mut citations: Vec<Option<Citation>> = located.iter().map(|_| None).collect();
    for (first, count) in reads_of(located.iter().map(|found| found.location.page).collect()) {
        let (texts, id) = (&stores.texts, document.id.as_str());
        let (pages, boxes) = tokio::try_join!(texts.text(org, id, first, count), texts.boxes(org, id, first, count))?;
        for PageText { number, text, first_cell, .. } in pages {
            let boxes = boxes.iter().find(|page| page.number == number).map(|page| &page.boxes);
            let has_headings = has_headings(&document.media_type);
            let page = Page { has_headings, first_cell, ..Page::new(&text, boxes) };
            for (found, citation) in located.iter().zip(&mut citations) {
                if found.location.page == number {
                    *citation = page.citation(found);
                }
            }
        }
    }
    Ok(citations.into_iter().flatten().collect())
}

/// A page with the positions of its words.
struct Page<'a> {
    text: &'a str,
    boxes: Option<&'a WordBoxes>,
    /// True if the text marks headings as Markdown does.
    has_headings: bool,
    /// The position of the first cell of the table of a sheet. None: the page is no sheet, or the position is unknown.
    first_cell: Option<CellPosition>,
    /// The byte ranges of the words.
    words: Vec<std::ops::Range<usize>>,
}

impl<'a> Page<'a> {
    fn new(text: &'a str, boxes: Option<&'a WordBoxes>) -> Self {
        let words = words(text).map(|(range, _)| range).collect();
        Self { text, boxes, has_headings: false, first_cell: None, words }
    }

    fn citation(&self, Located { path, location, occurrences, quote }: &Located) -> Option<Citation> {
        let Location { page, first_word, last_word } = *location;
        let (first_quoted, last_quoted) = quote.unwrap_or((first_word, last_word));
        let (first, last) = (self.words.get(first_quoted)?, self.words.get(last_quoted)?);
        let (before, rest) = (self.text.get(..first.start)?, self.text.get(first.start..last.end)?);
        let cell =
            self.first_cell.and_then(|first| cell_at(self.text.get(..self.words.get(first_word)?.start)?, first));
        Some(Citation {
            path: path.clone(),
            kind: if quote.is_some() { CitationKind::Cited } else { CitationKind::Located },
            page,
            quote: rest.chars().take(QUOTE_CHARS).collect(),
            start: u32::try_from(before.chars().count()).ok()?,
            section: self.section(before),
            cell: cell.map(|cell| cell.to_string()),
            occurrences: *occurrences,
            boxes: self.boxes.map(|boxes| boxes.part(first_word..last_word + 1)).unwrap_or_default(),
        })
    }

    /// Returns the name of the attachment whose values the page contains, or the heading above a position. `before`: the text
    /// before the position.
    fn section(&self, before: &str) -> Option<String> {
        match structured_invoice_name(self.text) {
            Some(name) => Some(name.chars().take(SECTION_CHARS).collect()),
            None => self.has_headings.then(|| heading(before)).flatten(),
        }
    }
}

/// Returns true if the text of a document marks headings as Markdown does. The texts of PDF files, plain text, CSV files and
/// images do not.
fn has_headings(media_type: &str) -> bool {
    !matches!(media_type, "application/pdf" | "text/plain" | "text/csv") && !media_type.starts_with("image/")
}

/// Returns the last heading in the complete lines of a text.
fn heading(text: &str) -> Option<String> {
    let (lines, _) = text.rsplit_once('\n')?;
    let title = |line: &str| {
        let title = line.trim_start_matches('#');
        let level = line.len() - title.len();
        let title = title.strip_prefix(' ')?.trim();
        let is_heading = (1..=6).contains(&level) && !title.is_empty();
        is_heading.then(|| title.chars().take(SECTION_CHARS).collect())
    };
    lines.lines().rev().find_map(title)
}

#[cfg(test)]
mod tests {
    use folio_resources::{BoundingBox, STRUCTURED_INVOICE_START, sheet_text};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_quote_has_the_characters_and_the_boxes_of_its_words() {
        let text = "Größe 5\nTotal:  1 234,50 €";
        let word = |at: u32| BoundingBox::around([(f64::from(at), 0.0), (f64::from(at) + 1.0, 1.0)]);
        let boxes = WordBoxes::new(10.0, 1.0, (0..6).map(word));
        let page = Page::new(text, Some(&boxes));
        let at = |first_word, last_word| {
            let location = Location { page: 3, first_word, last_word };
            page.citation(&Located { path: "total".to_owned(), location, occurrences: 2, quote: None })
        };
        let citation = at(3, 4).unwrap();
        assert_eq!((citation.quote.as_str(), citation.start, citation.page), ("1 234,50", 16, 3));
        assert_eq!((citation.boxes.len(), citation.boxes.fractions(1)), (2, boxes.fractions(4)));
        assert_eq!(text.chars().skip(16).take(8).collect::<String>(), "1 234,50");
        assert_eq!(at(5, 6), None, "the page has changed");
        assert!(
            Page::new(text, None)
                .citation(&Located {
                    path: String::new(),
                    location: Location { page: 1, first_word: 0, last_word: 0 },
                    occurrences: 1,
                    quote: None,
                })
                .unwrap()
                .boxes
                .is_empty()
        );
        let location = Location { page: 3, first_word: 3, last_word: 4 };
        let quoted = Located { path: "total".to_owned(), location, occurrences: 1, quote: Some((2, 5)) };
        let citation = page.citation(&quoted).unwrap();
        assert_eq!((citation.quote.as_str(), citation.start), ("Total:  1 234,50 €", 8));
        assert_eq!((citation.kind, citation.boxes.len()), (CitationKind::Cited, 2), "the boxes are those of the value");
    }

    #[test]
    fn near_pages_share_a_read() {
        assert_eq!(reads_of(BTreeSet::new()), []);
        assert_eq!(reads_of([1, 3, 16, 17, 40].into()), [(1, 16), (17, 1), (40, 1)]);
        assert_eq!(reads_of([u32::MAX].into()), [(u32::MAX, 1)]);
    }

    #[test]
    fn the_section_is_the_heading_above_the_quote() {
        let text = "## Invoices\n\n| Total |\n#7 957.00\n### Notes \n957.00 ## 957.00";
        let long = format!("# {}\n5", "ä".repeat(SECTION_CHARS + 1));
        let invoice =
            format!("{STRUCTURED_INVOICE_START}factur-x.xml. Prefer these values to printed ones.\n\nTotal: 957.00");
        for (media_type, text, first_word, expected) in [
            ("text/markdown", text, 6, Some("Invoices")),
            ("text/markdown", text, 9, Some("Notes")),
            ("text/markdown", text, 11, Some("Notes")),
            ("text/markdown", text, 1, None),
            ("application/pdf", text, 9, None),
            ("image/png", text, 9, None),
            ("text/html", "####### five\n5", 2, None),
            ("message/rfc822", long.as_str(), 2, long.get(2..2 + 2 * SECTION_CHARS)),
            ("application/pdf", invoice.as_str(), 14, Some("factur-x.xml")),
        ] {
            let page = Page { has_headings: has_headings(media_type), ..Page::new(text, None) };
            let location = Location { page: 1, first_word, last_word: first_word };
            let found = Located { path: "total".to_owned(), location, occurrences: 1, quote: None };
            let section = page.citation(&found).unwrap().section;
            assert_eq!(section.as_deref(), expected, "{media_type} {first_word}");
        }
    }

    #[test]
    fn the_cell_is_that_of_the_value_and_not_of_the_quote() {
        let rows = [vec!["Total", "957.00"], vec!["VAT | net", "152.80"]];
        let rows = rows.map(|row| row.into_iter().map(str::to_owned).collect::<Vec<_>>());
        let text = sheet_text("Invoices", &rows);
        let page =
            Page { has_headings: true, first_cell: Some(CellPosition { row: 6, column: 1 }), ..Page::new(&text, None) };
        let word = |wanted: &str| words(&text).position(|(_, word)| word == wanted).unwrap();
        for (value, quote, cell) in [
            ("957.00", Some(("Total", "957.00")), Some("C7")),
            ("152.80", None, Some("C8")),
            ("net", None, Some("B8")),
            ("Invoices", None, None),
        ] {
            let quote = quote.map(|(first, last)| (word(first), word(last)));
            let location = Location { page: 1, first_word: word(value), last_word: word(value) };
            let citation = page.citation(&Located { path: "a".to_owned(), location, occurrences: 1, quote }).unwrap();
            assert_eq!(citation.cell.as_deref(), cell, "{value}");
        }
        let unknown = Page { first_cell: None, ..page };
        let location = Location { page: 1, first_word: word("net"), last_word: word("net") };
        let found = Located { path: "a".to_owned(), location, occurrences: 1, quote: None };
        assert_eq!(unknown.citation(&found).unwrap().cell, None);
    }

    /// Returns the citations of data in pages, numbered from 1.
    fn cited(data: &Value, quotes: &BTreeMap<String, String>, pages: &[String]) -> Vec<Citation> {
        let mut search = Search::new(data, quotes);
        for (number, page) in (1..).zip(pages) {
            search.add_page(number, page);
        }
        let located = search.finish().located.into_iter();
        located.filter_map(|found| Page::new(&pages[found.location.page as usize - 1], None).citation(&found)).collect()
    }

    fn without_blanks(text: &str) -> String {
        text.chars().filter(|c| !c.is_whitespace()).collect()
    }

    /// A page of words, numbers and dates, with repetitions.
    fn any_page() -> impl Strategy<Value = String> {
        let word = prop_oneof![
            4 => "[a-c]{1,2}[,.:]?",
            3 => "-?[0-9]{1,3}([.,][0-9]{1,3})?( €|€)?",
            1 => "(0[1-4][./]0[1-4][./]2026|[1-4]\\. März 2026|2026-0[1-4]-0[1-4])",
        ];
        prop::collection::vec((word, "[ \n]{1,2}"), 0..40)
            .prop_map(|words| words.into_iter().map(|(word, blank)| word + &blank).collect())
    }

    fn any_value() -> impl Strategy<Value = Value> {
        prop_oneof![
            "[a-c]{1,2}( [a-c]{1,2})?".prop_map(Value::from),
            (-200..200_i64).prop_map(Value::from),
            (0..20_000_i32).prop_map(|cents| Value::from(f64::from(cents) / 100.0)),
            "2026-0[1-4]-0[1-4]".prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
        ]
    }

    /// Returns true if a text of [`any_page`] contains a date of 2026 in one of the notations of that page.
    fn is_printed(date: &str, text: &str) -> bool {
        let (month, day) = (&date[5..7], &date[8..10]);
        let dotted = text.replace('/', ".");
        let is_slashed_month_first = text.contains('/') && dotted.contains(&format!("{month}.{day}.2026"));
        let is_written = month == "03" && text.contains(&format!("{}. März 2026", day.trim_start_matches('0')));
        text.contains(date) || dotted.contains(&format!("{day}.{month}.2026")) || is_slashed_month_first || is_written
    }

    /// Returns true if words of a quote of [`any_page`] are the value. Knows nothing of the search.
    fn is_stated(quote: &str, value: &Value) -> bool {
        let words: Vec<&str> = quote.split_whitespace().collect();
        let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
        match value {
            Value::Number(number) => {
                let number = number.as_f64().unwrap();
                let wanted = digits(&number.abs().to_string());
                let is_number = |text: &str| {
                    let has_fraction = text.contains(['.', ',']);
                    let found = digits(text);
                    let rest = found.strip_prefix(wanted.as_str());
                    rest.is_some_and(|rest| {
                        rest.is_empty() || (has_fraction && rest.bytes().all(|digit| digit == b'0'))
                    }) && (number == 0.0 || text.contains('-') == (number < 0.0))
                };
                words.iter().any(|word| is_number(word)) || words.windows(2).any(|pair| is_number(&pair.join(" ")))
            }
            Value::String(date) if date.starts_with("2026-") => is_printed(date, &words.join(" ")),
            Value::String(text) => {
                let words: Vec<&str> = words.iter().map(|word| word.trim_matches([',', '.', ':'])).collect();
                format!(" {} ", words.join(" ")).contains(&format!(" {text} "))
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn no_value_is_cited_unless_it_occurs_in_its_quote_and_the_quote_at_its_position(
            pages in prop::collection::vec(any_page(), 1..4),
            answers in prop::collection::vec((any_value(), any_value(), "[a-c0-9.,€ ]{0,8}", any::<[prop::sample::Index; 3]>(), 0..4_u8), 1..12),
        ) {
            let (mut items, mut quotes) = (Vec::new(), BTreeMap::new());
            for (at, (value, other, noise, [page, start, length], kind)) in answers.into_iter().enumerate() {
                let words: Vec<&str> = page.get(&pages).split_whitespace().collect();
                let first = if words.is_empty() { 0 } else { start.index(words.len()) };
                let part = words[first..(first + 1 + length.index(6)).min(words.len())].join(" ");
                // Quotes of the text, changed ones, ones without blanks, and ones of another value.
                let quote = match kind {
                    0 => part,
                    1 => part + &noise,
                    2 => without_blanks(&part),
                    _ => format!("{noise} {other}"),
                };
                quotes.insert(format!("[{at}].value"), quote);
                items.push(json!({ "value": value }));
            }
            let data = Value::from(items);
            for citation in cited(&data, &quotes, &pages).into_iter().filter(|citation| citation.kind == CitationKind::Cited) {
                let page = &pages[citation.page as usize - 1];
                let at_position: String =
                    page.chars().skip(citation.start as usize).take(citation.quote.chars().count()).collect();
                prop_assert_eq!(&at_position, &citation.quote);
                let value = citation.path.parse::<crate::path::Path>().unwrap().get(&data).unwrap().clone();
                prop_assert!(is_stated(&citation.quote, &value), "{} {}", value, citation.quote);
                let quote = &quotes[&citation.path];
                prop_assert!(without_blanks(&citation.quote).contains(&without_blanks(quote)));
                prop_assert!(citation.quote.chars().count() <= QUOTE_CHARS && citation.occurrences > 0);
            }
        }

        #[test]
        fn a_value_that_is_quoted_with_its_words_is_cited(page in any_page(), at in any::<prop::sample::Index>()) {
            let words: Vec<&str> = page.split_whitespace().collect();
            prop_assume!(!words.is_empty());
            let at = at.index(words.len());
            let value = words[at].trim_matches([',', '.', ':']);
            prop_assume!(value.chars().all(|c| c.is_ascii_lowercase()));
            let quote = words[at.saturating_sub(2)..(at + 3).min(words.len())].join(" ");
            let found = cited(&json!({ "value": value }), &BTreeMap::from([("value".to_owned(), quote)]), std::slice::from_ref(&page));
            prop_assert_eq!(found[0].kind, CitationKind::Cited);
        }
    }

    #[test]
    fn an_extraction_is_outdated_when_its_document_was_read_again() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        for (checked, current, expected) in [
            (Some(at(5)), Some(at(5)), false),
            (Some(at(5)), Some(at(6)), true),
            (Some(at(5)), None, false),
            (None, Some(at(10)), false),
            (None, Some(at(11)), true),
        ] {
            let coverage = Coverage { pages: 1, ..Coverage::default() };
            let report = ExtractionReport { coverage, text_generation: checked, ..ExtractionReport::default() };
            assert_eq!(is_outdated(current, &report, at(10)), expected, "{checked:?} {current:?}");
            assert!(!is_outdated(current, &ExtractionReport::default(), at(10)), "no prompt run");
        }
    }
}
