//! Values of a letter without labels: date line, greeted person, signature.

use folio_types::notation::fold;

use super::labels::canonical;
use super::{Field, Style};

/// Folded words that start a greeting.
const GREETINGS: [&str; 10] =
    ["dear", "hello", "hi", "sehr geehrte", "sehr geehrter", "liebe", "lieber", "cher", "chere", "estimado"];
/// Folded words of a closing.
const CLOSINGS: &str = "sincerely|yours sincerely|yours faithfully|yours truly|best regards|kind regards|regards|\
                        with kind regards|mit freundlichen gruessen|freundliche gruesse|cordialement|atentamente|\
                        cordiali saluti|met vriendelijke groet";

/// Adds values of a letter that no label provided.
pub(super) fn add(fields: &mut Vec<Field>, lines: &[&str], style: Style) {
    let is_own = |label: &str| matches!(canonical(label), Some("date" | "invoice_date"));
    let has_date = fields.iter().any(|field| is_own(&field.label) && style.date(&field.value).is_some());
    if !has_date && let Some(date) = lines.iter().find_map(|line| dated(line, style)) {
        fields.push(Field { label: "Date".to_owned(), value: date.to_owned() });
    }
    let Some(greeted) = lines.iter().find_map(|line| greeting(line)) else { return };
    let is_missing = |fields: &[Field], label: &str| !fields.iter().any(|field| fold(&field.label) == fold(label));
    if is_missing(fields, "Recipient") {
        fields.push(Field { label: "Recipient".to_owned(), value: greeted.to_owned() });
    }
    let signed = lines
        .iter()
        .position(|line| CLOSINGS.split('|').any(|closing| closing == fold(line)))
        .and_then(|closing| lines.iter().skip(closing + 1).find(|line| !line.is_empty()));
    if let Some(name) = signed
        && is_missing(fields, "Sender")
    {
        fields.push(Field { label: "Sender".to_owned(), value: (*name).to_owned() });
    }
    let has_subject = fields.iter().any(|field| canonical(&field.label) == Some("subject"));
    let words = ["re ", "subject ", "betreff ", "betr. "];
    let line = lines.iter().find(|line| words.iter().any(|word| line.to_lowercase().starts_with(word)));
    if let (false, Some((_, rest))) = (has_subject, line.and_then(|line| line.split_once(' '))) {
        fields.push(Field { label: "Subject".to_owned(), value: rest.trim().to_owned() });
    }
}

/// Returns the date in a line with only a date, or a city and a date.
fn dated(line: &str, style: Style) -> Option<&str> {
    if style.date(line).is_some() {
        return Some(line);
    }
    let (city, rest) = line.split_once(", ")?;
    let rest = ["the ", "den ", "le ", "el "].iter().find_map(|word| rest.strip_prefix(word)).unwrap_or(rest);
    let is_short = city.split_whitespace().count() <= 3 && !city.chars().any(|c| c.is_ascii_digit());
    (is_short && style.date(rest).is_some()).then_some(rest)
}

/// Returns the name in a greeting.
fn greeting(line: &str) -> Option<&str> {
    let name = line.trim().strip_suffix([',', '!', ':']).filter(|_| line.len() < 80)?;
    let folded = fold(name);
    let word = GREETINGS
        .iter()
        .filter(|word| folded.strip_prefix(**word).is_some_and(|rest| rest.starts_with(' ')))
        .max_by_key(|word| word.len())?;
    let words = word.split(' ').count();
    let (at, _) = name.match_indices(' ').nth(words.checked_sub(1)?)?;
    name.get(at..).map(str::trim)
}
