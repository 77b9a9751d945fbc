//! Labelled values in lines.

use folio_types::notation::fold;

use super::labels::canonical;
use super::{Field, Style, accepts};

/// Maximum length of a label, in characters.
const LABEL_CHARS: usize = 48;
/// Maximum length of a value, in characters.
const VALUE_CHARS: usize = 400;
/// Maximum labelled values before duplicates are removed.
const FOUND_MAX: usize = 1_000;
/// Folded words that end the label of a text in a second column.
const TEXT_LABELS: [&str; 14] = [
    "address",
    "adresse",
    "anschrift",
    "code",
    "contact",
    "department",
    "id",
    "method",
    "name",
    "nom",
    "number",
    "status",
    "title",
    "type",
];
/// Folded words for streets.
const STREETS: [&str; 17] = [
    "street",
    "st",
    "road",
    "rd",
    "avenue",
    "ave",
    "lane",
    "court",
    "square",
    "quay",
    "rue",
    "boulevard",
    "chemin",
    "via",
    "calle",
    "allee",
    "weg",
];
/// Ends of folded words for streets.
const STREET_ENDS: [&str; 8] = ["strasse", "str", "platz", "weg", "gasse", "allee", "gatan", "straat"];

/// Removes Markdown and list marks. Dot leaders become gaps.
pub(super) fn clean(line: &str) -> String {
    let mut text = line.replace('\t', "  ").replace("**", "").replace("__", "").replace('`', "");
    let leader = ["....", ". . .", "…", "____"].iter().any(|dots| text.contains(dots));
    if leader {
        text = gaps_for_leaders(&text);
    }
    let text = text.trim().trim_start_matches('#').trim_start();
    let text = ["- ", "* ", "• ", "· ", "– "].iter().find_map(|mark| text.strip_prefix(mark)).unwrap_or(text);
    text.trim().to_owned()
}

fn gaps_for_leaders(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut dots = String::new();
    for c in text.chars().chain(std::iter::once('\n')) {
        if c == '.' || c == '…' || c == '_' || (c == ' ' && !dots.is_empty()) {
            dots.push(c);
            continue;
        }
        let leader = dots.chars().filter(|c| *c != ' ').count() > 3 || dots.contains('…');
        out.push_str(if leader { "  " } else { &dots });
        dots.clear();
        out.push(c);
    }
    out.trim_end_matches('\n').to_owned()
}

/// Returns true if a line marks a page or a cut and is not part of the document.
pub(super) fn is_mark(line: &str) -> bool {
    let page = (line.starts_with("[Page ") && line.ends_with(']'))
        || (line.starts_with("--- page ") && line.ends_with(" ---"));
    let cut = line.starts_with('[') && line.ends_with(']') && (line.contains(" cut after ") || line == "[… cut]");
    page || cut
}

/// Returns the cells of a line, which two or more spaces or bars separate.
pub(super) fn cells(line: &str) -> Vec<&str> {
    line.split('|').flat_map(|part| part.split("  ")).map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

/// Returns the heading: a short line without digits and colons near the top.
pub(super) fn title(lines: &[&str]) -> Option<String> {
    let mut first = lines.iter().filter(|line| !line.is_empty()).take(3);
    let fits = |line: &&&str| {
        let words = line.split_whitespace().count();
        words <= 6 && line.len() <= 60 && !line.contains([':', ',']) && !line.chars().any(|c| c.is_ascii_digit())
    };
    first.find(fits).map(|line| (*line).to_owned())
}

/// Returns true if a text can be a label.
pub(super) fn is_label(text: &str) -> bool {
    let words = text.split_whitespace().count();
    let good_start = text.starts_with(|c: char| c.is_alphabetic() || c == '#');
    let digits = text.chars().filter(char::is_ascii_digit).count();
    good_start
        && words <= 6
        && text.chars().count() <= LABEL_CHARS
        && digits <= 2
        && !text.contains(['@', '?', '!', ';'])
        && !is_street(text)
}

/// Returns true for a street with a house number: a part of an address.
fn is_street(text: &str) -> bool {
    let folded = fold(text);
    let is_named = |word: &str| STREETS.contains(&word) || STREET_ENDS.iter().any(|end| word.ends_with(end));
    folded.split(' ').any(|word| word.starts_with(|c: char| c.is_ascii_digit())) && folded.split(' ').any(is_named)
}

/// Returns the labelled values of the lines.
pub(super) fn fields(lines: &[&str], style: Style) -> Vec<Field> {
    let mut found = Vec::new();
    let mut index = 0;
    // True if the previous label has no value, because a column of labels precedes a column of values.
    let mut is_column = false;
    while let Some(line) = lines.get(index).filter(|_| found.len() < FOUND_MAX) {
        index += 1;
        let cells = cells(line);
        let before = found.len();
        let open = of_cells(&cells, style, &mut found);
        if let Some(label) = open {
            // The value of a label without text in its line follows in the next lines.
            let (value, used) = below(&label, lines.get(index..).unwrap_or_default());
            if !is_column && accepts(&label, &value, style) {
                index += used;
                push(&mut found, &label, &value);
            }
            is_column = value.is_empty();
            continue;
        }
        is_column &= line.is_empty();
        if found.len() == before {
            for (label, value) in trailing_of(line, &cells, style) {
                push(&mut found, label, value);
            }
        }
    }
    found
}

/// Parses the cells of a line. Returns a label that still needs a value.
fn of_cells(cells: &[&str], style: Style, found: &mut Vec<Field>) -> Option<String> {
    let mut open: Option<String> = None;
    for cell in cells {
        if let Some((label, value)) = colon(cell) {
            open = None;
            if value.is_empty() {
                open = Some(label.to_owned());
            } else {
                for (label, value) in split_pairs(label, value) {
                    push(found, label, value);
                }
            }
        } else if let Some(label) = open.take() {
            push(found, &label, cell);
        } else if let [label, value] = cells
            && *cell == *label
            && is_label(label)
            && colon(value).is_none()
            && (canonical(label).is_some() || is_measured(value, style) || labels_text(label))
        {
            push(found, label, value);
            return None;
        }
    }
    open
}

fn is_measured(text: &str, style: Style) -> bool {
    style.number(text).is_some() || style.date(text).is_some()
}

/// Returns true if a text in the next column is the label's value. Two columns of other texts, such as the addresses of
/// two parties, have no labels.
fn labels_text(label: &str) -> bool {
    fold(label).split(' ').next_back().is_some_and(|word| TEXT_LABELS.contains(&word))
}

/// Returns label and value of `Label: value`.
fn colon(text: &str) -> Option<(&str, &str)> {
    let (label, value) = text.split_once([':', '：'])?;
    let (label, value) = (label.trim(), value.trim());
    let clock = label.ends_with(|c: char| c.is_ascii_digit()) && value.starts_with(|c: char| c.is_ascii_digit());
    let address = value.starts_with("//");
    (is_label(label) && !clock && !address).then_some((label, value))
}

/// Splits a value that contains a known label with a colon, where single spaces separate the pairs.
fn split_pairs<'a>(label: &'a str, value: &'a str) -> Vec<(&'a str, &'a str)> {
    for (at, _) in value.match_indices(':') {
        let before = value.get(..at).unwrap_or_default();
        let starts = before.match_indices(' ').map(|(space, _)| space + 1);
        let known = starts.filter(|start| before.get(*start..).is_some_and(|name| canonical(name).is_some())).min();
        if let Some(start) = known {
            let first = value.get(..start).unwrap_or_default().trim();
            let next = value.get(start..at).unwrap_or_default();
            let rest = value.get(at + 1..).unwrap_or_default().trim();
            let mut pairs = vec![(label, first)];
            pairs.extend(split_pairs(next, rest));
            return pairs;
        }
    }
    vec![(label, value)]
}

/// Returns the value below a label: a line, or the lines of an address, with the number of lines.
fn below(label: &str, lines: &[&str]) -> (String, usize) {
    let folded = fold(label);
    let block = ["to", "from", "address", "buyer", "seller", "customer", "kunde", "anschrift", "client", "recipient"];
    let block = folded.split(' ').any(|word| block.contains(&word));
    let mut value: Vec<&str> = Vec::new();
    let mut used = 0;
    for (index, line) in lines.iter().enumerate() {
        let ends = line.is_empty() && !value.is_empty();
        if ends || (!line.is_empty() && (colon(line).is_some() || value.len() >= if block { 4 } else { 1 })) {
            break;
        }
        if !line.is_empty() {
            value.push(line);
            used = index + 1;
        } else if index > 1 {
            break;
        }
    }
    (value.join(", "), used)
}

/// Returns labels and values that only spaces separate: in each cell, otherwise in the whole line.
fn trailing_of<'a>(line: &'a str, cells: &[&'a str], style: Style) -> Vec<(&'a str, &'a str)> {
    let each: Vec<_> = cells.iter().filter_map(|cell| trailing(cell, style)).collect();
    if each.is_empty() || cells.len() < 2 { trailing(line, style).into_iter().collect() } else { each }
}

/// Returns label and value that only a space separates: `Total due 54.20 EUR`, `Invoice No. 17`, `Rechnung Nr.
/// 2026-17`.
fn trailing(line: &str, style: Style) -> Option<(&str, &str)> {
    let splits: Vec<usize> = line.match_indices(' ').map(|(at, _)| at).collect();
    let parted = |at: &usize| Some((line.get(..*at)?.trim(), line.get(*at..)?.trim()));
    // The value is the longest number or date, after a label of a few words without digits.
    let measured = splits.iter().filter_map(parted).find(|(label, value)| {
        let known = canonical(label).is_some();
        let amount = style.number(value).is_some()
            && (known || value.contains(['.', ',', '%']) || super::currency(value).is_some());
        let short = label.split_whitespace().count() <= 4 && !label.chars().any(|c| c.is_ascii_digit());
        (is_label(label) && short && amount) || (known && style.date(value).is_some())
    });
    // Otherwise the value is an identifier after a known label: one word with a digit.
    let named = || {
        splits.iter().rev().filter_map(parted).find(|(label, value)| {
            let single = !value.contains(' ') && value.chars().any(|c| c.is_ascii_digit());
            single && is_label(label) && canonical(label).is_some()
        })
    };
    measured.or_else(named)
}

fn push(found: &mut Vec<Field>, label: &str, value: &str) {
    let label = label.trim().trim_end_matches([':', '.', '-']).trim();
    let value = value.trim().trim_end_matches(';').trim();
    if !label.is_empty() && !value.is_empty() && label.chars().any(char::is_alphabetic) {
        let value = value.chars().take(VALUE_CHARS).collect();
        found.push(Field { label: label.to_owned(), value });
    }
}
