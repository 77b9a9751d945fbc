//! The similarity of two pages by their labels and the positions of the labels. Pure and deterministic.
//!
//! A label is a word that is not a value: it has at least two letters and no digit, and it is no word of the verified data
//! of the example. Labels are compared without case, accents and marks. The n-th occurrence of a label on one page is paired
//! with the n-th occurrence on the other page. A pair counts between 0.5 (only the labels are equal) and 1 (the positions are
//! equal, too). The score is twice the sum of the pairs, divided by the number of labels of both pages (the Sørensen–Dice
//! coefficient, weighted by position). The score is 0 without a common label, 1 for equal pages, and symmetric.
//!
//! The position of a word is the center of its box, as fractions of the width and the height of the page. If either page has no
//! boxes, the position is the column and the line of the word, as fractions of the numbers of columns and lines.

use std::collections::{BTreeMap, BTreeSet};

use folio_resources::{WordBoxes, leaves, words};
use folio_types::notation::fold;
use serde_json::Value;

/// Maximum number of labels of a page. Further labels are ignored.
const LABELS_MAX: usize = 500;
/// Minimum number of letters of a label.
const LABEL_LETTERS_MIN: usize = 2;
/// Score of a pair of equal labels with distant positions. Equal positions add the rest up to 1.
const LABEL_PART: f64 = 0.5;
/// Distance of two positions from which the positions add nothing to the score of a pair.
const REACH: f64 = 0.5;

/// Fractions of the width and the height of a page, from 0 to 1.
type Position = (f64, f64);

#[derive(Debug)]
struct Label {
    /// The folded word.
    word: String,
    /// Column and line of the word.
    in_text: Position,
    /// Center of the word's box. None: the word has no box.
    on_page: Option<Position>,
}

/// The possible labels of a page, in the order of its text.
#[derive(Debug)]
pub(super) struct Labels {
    labels: Vec<Label>,
    has_boxes: bool,
}

impl Labels {
    /// `boxes`: the boxes of the words of the text. Empty: the positions of the words on the page are unknown.
    pub(super) fn of(text: &str, boxes: &WordBoxes) -> Self {
        let columns = text.lines().map(|line| line.chars().count()).max().unwrap_or_default();
        let lines = text.lines().count();
        let mut labels = Vec::new();
        let (mut line, mut column, mut at) = (0, 0, 0);
        for (number, (range, word)) in words(text).enumerate() {
            if labels.len() == LABELS_MAX {
                break;
            }
            for letter in text.get(at..range.start).unwrap_or_default().chars() {
                (line, column) = if letter == '\n' { (line + 1, 0) } else { (line, column + 1) };
            }
            at = range.start;
            let Some(word) = label(word) else { continue };
            let area = boxes.fractions(number);
            let on_page = area.map(|area| (f64::midpoint(area.left, area.right), f64::midpoint(area.top, area.bottom)));
            labels.push(Label { word, in_text: (part(column, columns), part(line, lines)), on_page });
        }
        Self { labels, has_boxes: !boxes.is_empty() }
    }

    /// Returns the positions of each label that is not one of the `values`. If `has_boxes` is true, the positions are the centers
    /// of the boxes.
    fn positions(&self, values: &BTreeSet<String>, has_boxes: bool) -> BTreeMap<&str, Vec<Position>> {
        let mut found: BTreeMap<&str, Vec<Position>> = BTreeMap::new();
        for label in self.labels.iter().filter(|label| !values.contains(&label.word)) {
            let position = label.on_page.filter(|_| has_boxes).unwrap_or(label.in_text);
            found.entry(&label.word).or_default().push(position);
        }
        found
    }
}

/// Returns the folded word. None: the word is not a label.
fn label(word: &str) -> Option<String> {
    let folded = fold(word);
    let has_digit = word.chars().any(char::is_numeric);
    let letters = folded.chars().filter(|letter| letter.is_alphabetic()).count();
    (!has_digit && letters >= LABEL_LETTERS_MIN).then_some(folded)
}

/// Returns the folded words of the texts of the data.
pub(super) fn value_words(data: &Value) -> BTreeSet<String> {
    let values = leaves(data);
    let texts = values.iter().filter_map(|(_, value)| value.as_str());
    texts.flat_map(str::split_whitespace).map(fold).collect()
}

/// Returns the similarity of two pages, from 0 to 1. `values`: the words of the verified data, which are not labels, from
/// [`value_words`].
pub(super) fn similarity(one: &Labels, other: &Labels, values: &BTreeSet<String>) -> f64 {
    let has_boxes = one.has_boxes && other.has_boxes;
    let (one, other) = (one.positions(values, has_boxes), other.positions(values, has_boxes));
    let count = one.values().chain(other.values()).map(Vec::len).sum::<usize>();
    let common = one.iter().filter_map(|(word, positions)| Some((positions, other.get(word)?)));
    let pairs = common.flat_map(|(one, other)| one.iter().zip(other)).map(|(one, other)| pair(*one, *other));
    (part(2, count) * pairs.sum::<f64>()).clamp(0.0, 1.0)
}

/// Returns the score of a pair of equal labels at these positions.
fn pair(one: Position, other: Position) -> f64 {
    let distance = (one.0 - other.0).hypot(one.1 - other.1);
    LABEL_PART + (1.0 - LABEL_PART) * (1.0 - distance / REACH).max(0.0)
}

/// Returns the ratio of two numbers. 0 if the second one is 0.
fn part(number: usize, all: usize) -> f64 {
    let number_of = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    if all == 0 { 0.0 } else { number_of(number) / number_of(all) }
}

#[cfg(test)]
mod tests {
    use folio_resources::BoundingBox;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const INVOICE: &str = "INVOICE\nInvoice Number: INV-7\nCustomer: Acme Hotel\nTotal: 120.50 EUR";

    fn score(one: &str, other: &str, data: &Value) -> f64 {
        let labels = |text: &str| Labels::of(text, &WordBoxes::default());
        similarity(&labels(one), &labels(other), &value_words(data))
    }

    #[test]
    fn a_label_is_a_word_of_letters() {
        for (word, expected) in [
            ("Total:", Some("total")),
            ("Échéance", Some("echeance")),
            ("Währung", Some("waehrung")),
            ("O'Brien", Some("o brien")),
            ("120.50", None),
            ("INV-7", None),
            ("€", None),
            ("x", None),
        ] {
            assert_eq!(label(word).as_deref(), expected, "{word}");
        }
    }

    #[test]
    fn values_do_not_count() {
        let data = json!({"customer": "Acme Hotel", "currency": "EUR", "total": 120.5, "items": [{"name": "Tea"}]});
        let values = value_words(&data);
        assert_eq!(values.iter().map(String::as_str).collect::<Vec<_>>(), ["acme", "eur", "hotel", "tea"]);
        let other = "INVOICE\nInvoice Number: INV-9\nCustomer: Acme Hotel\nTotal: 7.10 EUR";
        assert!((score(INVOICE, other, &data) - 1.0).abs() < 1e-9, "numbers are values");
        let other = "INVOICE\nInvoice Number: INV-9\nCustomer: Zeta Store\nTotal: 7.10 EUR";
        let found = score(INVOICE, other, &data);
        assert!((0.8..1.0).contains(&found), "{found}: the names of the other page are not known to be values");
    }

    #[test]
    fn other_labels_and_other_positions_lower_the_score() {
        let none = json!({});
        let moved = "Total: 120.50 EUR\nCustomer: Acme Hotel\nInvoice Number: INV-7\nINVOICE";
        let letter = "Dear Ms Weber,\nwe thank you for the order of last month.\nKind regards";
        let scores = [INVOICE, moved, letter, ""].map(|other| score(INVOICE, other, &none));
        assert!((scores[0] - 1.0).abs() < 1e-9 && scores[2] == 0.0 && scores[3] == 0.0, "{scores:?}");
        assert!((0.5..0.9).contains(&scores[1]), "{scores:?}");
        assert_eq!(score("", "", &none), 0.0);
    }

    #[test]
    fn boxes_are_used_if_both_pages_have_them() {
        let text = "Total\nDate";
        let boxes = |top: f64| {
            let word = |top: f64| BoundingBox::around([(10.0, top), (20.0, top + 5.0)]);
            WordBoxes::new(100.0, 100.0, [word(top), word(top + 10.0)])
        };
        let (high, low, none) = (Labels::of(text, &boxes(0.0)), Labels::of(text, &boxes(70.0)), BTreeSet::new());
        let without = Labels::of(text, &WordBoxes::default());
        assert!((similarity(&high, &high, &none) - 1.0).abs() < 1e-9);
        assert!((similarity(&high, &low, &none) - LABEL_PART).abs() < 1e-9);
        assert!((similarity(&high, &without, &none) - 1.0).abs() < 1e-9, "the lines are equal");
    }

    #[test]
    fn the_labels_of_a_page_are_bounded() {
        let text = "word ".repeat(LABELS_MAX + 10);
        assert_eq!(Labels::of(&text, &WordBoxes::default()).labels.len(), LABELS_MAX);
    }

    proptest! {
        #[test]
        fn the_score_is_a_symmetric_part(
            one in "[a-d ]{0,40}(\n[a-d1 ]{0,40}){0,4}",
            other in "[a-d ]{0,40}(\n[a-f ]{0,40}){0,4}",
        ) {
            let none = json!({});
            let found = score(&one, &other, &none);
            prop_assert!((0.0..=1.0).contains(&found), "{}", found);
            prop_assert_eq!(found, score(&other, &one, &none));
            let has_labels = !Labels::of(&one, &WordBoxes::default()).labels.is_empty();
            let same = score(&one, &one, &none);
            prop_assert!((same - f64::from(u8::from(has_labels))).abs() < 1e-9, "{}", same);
        }
    }
}
