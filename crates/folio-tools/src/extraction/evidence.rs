//! Finds the pages whose text contains the values of an answer. Pure.
//!
//! A text is contained if its words are, a number or date if one of its notations is. Values in arrays are not searched:
//! arrays are concatenated, whatever the text contains.

use std::collections::{BTreeMap, BTreeSet};

use folio_types::notation::{Style, fold};
use serde_json::Value;

use super::merge::member_path;

/// Maximum words of a date, such as `Tuesday, 17 March 2026`.
const DATE_WORDS: usize = 4;
/// Maximum words of a number, such as `1 234,50`.
const NUMBER_WORDS: usize = 2;
/// Characters around a word that do not belong to its value.
const MARKS: [char; 9] = [',', ';', ':', '.', '(', ')', '"', '*', '|'];

/// The pages of the values of an answer by their paths. Values that no page contains are missing. `pages`: numbers and
/// texts, in order.
pub(super) fn pages_of(data: &Value, pages: &[(u32, String)]) -> BTreeMap<String, u32> {
    let pages: Vec<PageIndex> = pages.iter().map(|(number, text)| PageIndex::new(*number, text)).collect();
    let mut found = BTreeMap::new();
    find("", data, &pages, &mut found);
    found
}

fn find(path: &str, value: &Value, pages: &[PageIndex], found: &mut BTreeMap<String, u32>) {
    if let Value::Object(members) = value {
        for (name, member) in members {
            find(&member_path(path, name), member, pages, found);
        }
    } else if let Some(page) = pages.iter().find(|page| page.contains(value)) {
        found.insert(path.to_owned(), page.number);
    }
}

/// The searchable values of a page.
struct PageIndex {
    number: u32,
    /// Folded words with a blank before and after each.
    words: String,
    /// Absolute values, because a sign may be printed apart from its number.
    numbers: Vec<f64>,
    dates: BTreeSet<String>,
}

impl PageIndex {
    fn new(number: u32, text: &str) -> Self {
        let style = Style::of(text);
        let styles = [style, Style { comma_decimal: !style.comma_decimal, ..style }];
        let words: Vec<&str> = text.split_whitespace().collect();
        let (mut numbers, mut dates) = (Vec::new(), BTreeSet::new());
        for start in 0..words.len() {
            for group in groups(&words, start, NUMBER_WORDS) {
                numbers.extend(styles.iter().filter_map(|style| style.number(&group)?.as_f64()).map(f64::abs));
            }
            for group in groups(&words, start, DATE_WORDS) {
                dates.extend(style.date(&group));
            }
        }
        Self { number, words: format!(" {} ", fold(text)), numbers, dates }
    }

    fn contains(&self, value: &Value) -> bool {
        match value {
            Value::Number(number) => {
                let wanted = number.as_f64().map(f64::abs);
                wanted.is_some_and(|wanted| self.numbers.iter().any(|printed| (printed - wanted).abs() < 1e-9))
            }
            Value::String(text) => {
                let folded = fold(text);
                !folded.is_empty() && (self.words.contains(&format!(" {folded} ")) || self.dates.contains(text.trim()))
            }
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
        }
    }
}

/// Returns the texts of one to `max` words from `start` that contain a digit.
fn groups(words: &[&str], start: usize, max: usize) -> Vec<String> {
    let ends = start + 1..=(start + max).min(words.len());
    let texts = ends.filter_map(|end| words.get(start..end)).map(|group| group.join(" "));
    let trimmed = texts.map(|text| text.trim_matches(MARKS).to_owned());
    trimmed.filter(|text| text.bytes().any(|byte| byte.is_ascii_digit())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pages() -> Vec<(u32, String)> {
        vec![
            (4, "Rechnung Nr. 2026-0815\nACME GmbH, Hamburg\nDatum: 17. März 2026".to_owned()),
            (5, "Gesamtbetrag:  1.234,50 €  (netto 1 037,39)\nRabatt -12,00".to_owned()),
        ]
    }

    #[test]
    fn values_are_found_in_every_notation() {
        let data = json!({
            "number": "2026-0815", "seller": {"name": "Acme GmbH"}, "date": "2026-03-17", "total": 1234.5,
            "net": 1037.39, "discount": -12,
        });
        let expected = [("date", 4), ("discount", 5), ("net", 5), ("number", 4), ("seller.name", 4), ("total", 5)];
        let expected = expected.map(|(path, page)| (path.to_owned(), page));
        assert_eq!(pages_of(&data, &pages()), BTreeMap::from(expected));
    }

    #[test]
    fn other_values_have_no_page() {
        let data = json!({
            "part": "ACM", "number": 7, "date": "2026-03-18", "none": null, "flag": true, "empty": "", "sign": "€",
            "items": ["ACME GmbH"],
        });
        assert_eq!(pages_of(&data, &pages()), BTreeMap::new());
    }

    #[test]
    fn the_first_page_with_a_value_counts() {
        let pages = [(2, "Total 5".to_owned()), (3, "Total 5".to_owned())];
        assert_eq!(pages_of(&json!(5), &pages), BTreeMap::from([(String::new(), 2)]));
        assert_eq!(pages_of(&json!(5), &[]), BTreeMap::new());
    }
}
