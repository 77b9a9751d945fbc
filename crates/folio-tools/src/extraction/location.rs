//! Locates values in the text of a document. Pure.
//!
//! A location of a value is a range of words that contains it, a number or date in any of its notations. The search
//! reads the document page by page: [`Search::add_page`] finds the locations of all values, and [`Search::finish`]
//! chooses one for each value. Of several locations it chooses the one nearest to the other values of the same object;
//! for an item of an array, the first one after the previous item.
//!
//! The model may have stated a quote for a value. If the text contains the quote, and the quote contains the value, the search
//! chooses only locations within the quote. The quote contains the value if it contains the words of the value completely, or if
//! it contains the value itself (without the currency, for example). For a number, the words of the quote must contain its sign,
//! and an ambiguous number such as `1.234` is read only in the notation of the page. For a text, the words of the quote must
//! contain its signs (`$50` is not `€50`); case and the kinds of dashes and quotation marks are ignored.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use folio_resources::{item_path, member_path};
use folio_types::notation::Style;
use serde_json::Value;

use super::page_index::{Found, PageIndex, Words, has_value};
use super::quote::{CondensedPage, Occurrence, Quote};
use super::shared_location::withdraw_shared;
use super::summands::item_lines;

/// Maximum number of locations of a value from which one is chosen.
const LOCATIONS_MAX: usize = 256;
/// Maximum number of occurrences of a quote that are examined.
const QUOTES_MAX: usize = 32;

/// Words of a page that contain a value, from 0. A word is a part of the text between white space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Location {
    pub(super) page: u32,
    pub(super) first_word: usize,
    pub(super) last_word: usize,
}

/// A value with its chosen location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Located {
    pub(super) path: String,
    pub(super) location: Location,
    /// Number of locations with the value, including this one.
    pub(super) occurrences: u32,
    /// The first and last word of the occurrence of the model's quote that contains the location. None: the model did not quote
    /// the value, or its quote is not valid.
    pub(super) quote: Option<Words>,
}

/// A value that is searched.
struct Leaf {
    path: String,
    value: Value,
    /// The object, or the item of an array, that contains the value.
    group: usize,
    /// The quote of the model. None: the model did not quote the value.
    quote: Option<Quote>,
    /// False: the value is negative, and no location has its minus.
    has_sign: bool,
    /// The first locations, in order.
    locations: Vec<Location>,
    /// Number of occurrences of the quote that may still be examined.
    quotes_left: usize,
    /// The first locations within the quote, in order, each with the words of the quote.
    quoted: Vec<(Location, Words)>,
    occurrences: u32,
}

pub(super) struct Search {
    leaves: Vec<Leaf>,
    /// The array of each group. None: the group is no item.
    groups: Vec<Option<usize>>,
    arrays: usize,
    /// Number of values that are never searched: truth values.
    unsearched: u32,
    /// The pages and words of the lines whose amounts are summands of a subtotal.
    items: Vec<(u32, Range<usize>)>,
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SearchResult {
    /// The values with a location, in the order of the data.
    pub(super) located: Vec<Located>,
    /// Number of values without a location. Null and blank texts are no values.
    pub(super) missing: u32,
}

impl Search {
    /// `quotes`: the quotes of the model by the paths of their values.
    pub(super) fn new(data: &Value, quotes: &BTreeMap<String, String>) -> Self {
        let mut search = Self { leaves: Vec::new(), groups: vec![None], arrays: 0, unsearched: 0, items: Vec::new() };
        search.add("", data, 0);
        for leaf in &mut search.leaves {
            leaf.quote = quotes.get(&leaf.path).map(|text| Quote::new(text));
        }
        search
    }

    fn add(&mut self, path: &str, value: &Value, group: usize) {
        match value {
            Value::Null => {}
            Value::Bool(_) => self.unsearched += 1,
            Value::String(text) if text.trim().is_empty() => {}
            Value::String(_) | Value::Number(_) => {
                self.leaves.push(Leaf {
                    path: path.to_owned(),
                    value: value.clone(),
                    group,
                    quote: None,
                    quotes_left: QUOTES_MAX,
                    has_sign: false,
                    locations: Vec::new(),
                    quoted: Vec::new(),
                    occurrences: 0,
                });
            }
            Value::Object(members) => {
                for (name, member) in members {
                    let group = if member.is_object() { self.group(None) } else { group };
                    self.add(&member_path(path, name), member, group);
                }
            }
            Value::Array(items) => {
                let array = self.arrays;
                self.arrays += 1;
                for (index, item) in items.iter().enumerate() {
                    let group = self.group(Some(array));
                    self.add(&item_path(path, index), item, group);
                }
            }
        }
    }

    fn group(&mut self, array: Option<usize>) -> usize {
        self.groups.push(array);
        self.groups.len() - 1
    }

    /// Searches the next page for the values. Cost: linear in the words of the page and in the locations of each distinct value,
    /// plus one search through the characters of the page for each quote whose value the page contains. At most [`QUOTES_MAX`]
    /// occurrences of a quote are examined in the whole document.
    pub(super) fn add_page(&mut self, number: u32, text: &str) {
        let style = Style::of(text);
        let index = PageIndex::with_style(text, style);
        let mut condensed = None;
        if self.leaves.iter().any(|leaf| leaf.quote.is_some()) {
            self.items.extend(item_lines(text, style).into_iter().map(|words| (number, words)));
        }
        // Equal values are searched once, because a hostile answer may repeat a frequent value.
        let mut found_values: HashMap<String, Found> = HashMap::new();
        for leaf in &mut self.leaves {
            let key = leaf.value.to_string();
            let Found { locations: found, has_sign } =
                &*found_values.entry(key).or_insert_with(|| index.find(&leaf.value));
            if let Some(quote) = leaf.quote.as_ref().filter(|_| !found.is_empty()) {
                let page = condensed.get_or_insert_with(|| CondensedPage::new(text));
                for Occurrence { words: (first, last), whole_words, text } in page.find(quote).take(leaf.quotes_left) {
                    leaf.quotes_left -= 1;
                    let mut within = found.iter().filter(|(start, end)| first <= *start && *end <= last).peekable();
                    let is_range_dash = |word: usize| index.is_range_dash(first + word);
                    if within.peek().is_none() || !has_value(text, &leaf.value, style, is_range_dash) {
                        continue;
                    }
                    let is_stated = has_value(quote.text(), &leaf.value, style, |_| false);
                    let is_cited =
                        |(start, end): &&Words| is_stated || (whole_words.start <= *start && *end < whole_words.end);
                    leaf.quoted.extend(within.find(is_cited).map(|(first_word, last_word)| {
                        let location = Location { page: number, first_word: *first_word, last_word: *last_word };
                        (location, (first, last))
                    }));
                }
            }
            // Locations with the minus of a negative number replace those without, also those of other pages.
            if found.is_empty() || (leaf.has_sign && !has_sign) {
                continue;
            }
            if *has_sign && !leaf.has_sign {
                leaf.has_sign = true;
                leaf.locations.clear();
                leaf.occurrences = 0;
            }
            leaf.occurrences = leaf.occurrences.saturating_add(u32::try_from(found.len()).unwrap_or(u32::MAX));
            let left = LOCATIONS_MAX.saturating_sub(leaf.locations.len());
            let location = |(first_word, last_word)| Location { page: number, first_word, last_word };
            leaf.locations.extend(found.iter().copied().take(left).map(location));
        }
    }

    pub(super) fn finish(mut self) -> SearchResult {
        for leaf in self.leaves.iter_mut().filter(|leaf| !leaf.quoted.is_empty()) {
            leaf.locations = leaf.quoted.iter().map(|(location, _)| *location).collect();
        }
        let mut anchors: Vec<Option<Location>> = vec![None; self.groups.len()];
        for leaf in &self.leaves {
            if let ([only], Some(anchor)) = (&leaf.locations[..], anchors.get_mut(leaf.group)) {
                anchor.get_or_insert(*only);
            }
        }
        // The last chosen location of each array.
        let mut ends: Vec<Option<Location>> = vec![None; self.arrays];
        let mut found = SearchResult { missing: self.unsearched, ..SearchResult::default() };
        // The group of each located value, and whether the value contains a digit.
        let mut claims: Vec<(usize, bool)> = Vec::new();
        for leaf in self.leaves {
            let array = self.groups.get(leaf.group).copied().flatten();
            let anchor = anchors.get(leaf.group).copied().flatten();
            let end = array.and_then(|array| ends.get(array).copied().flatten());
            let chosen = match (anchor, end) {
                (Some(anchor), _) => leaf.locations.iter().min_by_key(|location| distance(anchor, **location)),
                (None, Some(end)) => leaf.locations.iter().find(|location| **location > end).or(leaf.locations.first()),
                (None, None) => leaf.locations.first(),
            };
            let Some(location) = chosen.copied() else {
                found.missing += 1;
                continue;
            };
            if let Some(anchor) = anchors.get_mut(leaf.group) {
                anchor.get_or_insert(location);
            }
            if let Some(end) = array.and_then(|array| ends.get_mut(array)) {
                *end = (*end).max(Some(location));
            }
            let quote = leaf.quoted.iter().find(|(quoted, _)| *quoted == location).map(|(_, words)| *words);
            claims.push((leaf.group, leaf.value.to_string().contains(|c: char| c.is_ascii_digit())));
            found.located.push(Located { path: leaf.path, location, occurrences: leaf.occurrences, quote });
        }
        let is_item = |group: usize| self.groups.get(group).copied().flatten().is_some();
        withdraw_shared(&mut found.located, &claims, is_item);
        let is_in_item = |Location { page, first_word, .. }: Location| {
            self.items.iter().any(|(of, words)| *of == page && words.contains(&first_word))
        };
        for (located, (group, _)) in found.located.iter_mut().zip(&claims) {
            if located.quote.is_some() && !is_item(*group) && is_in_item(located.location) {
                located.quote = None;
            }
        }
        found
    }
}

/// Locations on the page of the anchor are nearer than all others. One before the anchor counts as three times as distant,
/// because the values of a row follow its name.
fn distance(anchor: Location, location: Location) -> (u32, usize) {
    let weight = if location < anchor { 3 } else { 1 };
    (anchor.page.abs_diff(location.page), weight * anchor.first_word.abs_diff(location.first_word))
}

#[cfg(test)]
mod tests {
    use folio_types::notation::fold;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn locate(data: &Value, pages: &[&str]) -> SearchResult {
        locate_quoted(data, &[], pages)
    }

    fn locate_quoted(data: &Value, quotes: &[(&str, &str)], pages: &[&str]) -> SearchResult {
        let quotes = quotes.iter().map(|(path, quote)| ((*path).to_owned(), (*quote).to_owned())).collect();
        let mut search = Search::new(data, &quotes);
        for (number, page) in (1..).zip(pages) {
            search.add_page(number, page);
        }
        search.finish()
    }

    /// Returns the path, the page, and the words of each located value.
    fn quotes(data: &Value, pages: &[&str]) -> Vec<(String, u32, String)> {
        let quote = |Located { path, location, .. }: Located| {
            let words = pages[location.page as usize - 1].split_whitespace();
            let words: Vec<&str> =
                words.skip(location.first_word).take(location.last_word + 1 - location.first_word).collect();
            (path, location.page, words.join(" "))
        };
        locate(data, pages).located.into_iter().map(quote).collect()
    }

    fn expected(list: &[(&str, u32, &str)]) -> Vec<(String, u32, String)> {
        list.iter().map(|(path, page, quote)| ((*path).to_owned(), *page, (*quote).to_owned())).collect()
    }

    #[test]
    fn values_are_located_in_every_notation() {
        let pages = [
            "Rechnung Nr. 2026-0815\nACME GmbH, Hamburg\nDatum: 17. März 2026",
            "Gesamtbetrag:  1.234,50 €  (netto 1 037,39)\nRabatt -12,00",
        ];
        let data = json!({
            "number": "2026-0815", "seller": {"name": "Acme GmbH"}, "date": "2026-03-17", "total": 1234.5,
            "net": 1037.39, "discount": -12,
        });
        let found = [
            ("number", 1, "2026-0815"),
            ("seller.name", 1, "ACME GmbH,"),
            ("date", 1, "17. März 2026"),
            ("total", 2, "1.234,50"),
            ("net", 2, "1 037,39)"),
            ("discount", 2, "-12,00"),
        ];
        let mut sorted = quotes(&data, &pages);
        let mut found = expected(&found);
        sorted.sort();
        found.sort();
        assert_eq!(sorted, found);
    }

    #[test]
    fn values_without_a_place_are_counted() {
        let pages = ["Rechnung Nr. 2026-0815\nACME GmbH, Hamburg"];
        let data = json!({
            "part": "ACM", "number": 7, "date": "2026-03-18", "none": null, "flag": true, "empty": " ", "sign": "€",
        });
        assert_eq!(locate(&data, &pages), SearchResult { located: Vec::new(), missing: 5 });
        assert_eq!(locate(&json!("ACME GmbH Hamburg 2026"), &pages).missing, 1, "the words are apart");
        assert_eq!(locate(&json!({}), &[]), SearchResult::default());
    }

    #[test]
    fn a_repeated_value_is_near_the_values_of_its_object() {
        let page = "Shipping 5.00\nPaper 2 5.00 10.00\nInk 1 5.00 5.00\nPens 2 1.00 2.00\nTotal 17.00";
        let data = json!({"items": [
            {"name": "Paper", "quantity": 2, "price": 5, "amount": 10},
            {"name": "Ink", "quantity": 1, "price": 5, "amount": 5},
            {"name": "Pens", "quantity": 2, "price": 1, "amount": 2},
        ]});
        let words: Vec<(String, usize)> = locate(&data, &[page])
            .located
            .into_iter()
            .map(|Located { path, location, .. }| (path, location.first_word))
            .collect();
        let at = |path: &str| words.iter().find(|(found, _)| found == path).map(|(_, word)| *word);
        assert_eq!([at("items[0].quantity"), at("items[0].price")], [Some(3), Some(4)]);
        assert_eq!([at("items[1].quantity"), at("items[1].price"), at("items[1].amount")], [Some(7), Some(8), Some(8)]);
        assert_eq!([at("items[2].name"), at("items[2].quantity")], [Some(10), Some(11)]);
    }

    #[test]
    fn equal_items_of_an_array_are_located_in_order() {
        let found = locate(&json!(["red", "blue", "red", "red"]), &["red, blue, red", "and red"]);
        let locations: Vec<(u32, usize, u32)> =
            found.located.iter().map(|one| (one.location.page, one.location.first_word, one.occurrences)).collect();
        assert_eq!(locations, [(1, 0, 3), (1, 1, 1), (1, 2, 3), (2, 1, 3)]);
    }

    #[test]
    fn a_frequent_value_that_is_repeated_is_searched_once() {
        // One search for each value would take minutes.
        let page = "1 ".repeat(50_000);
        let found = locate(&Value::from(vec![1; 10_000]), &[&page]).located;
        assert_eq!((found.len(), found[0].occurrences), (10_000, 50_000));
    }

    #[test]
    fn a_valid_quote_decides_about_the_location() {
        let pages = ["Total 5.00\nShipping 5.00", "Sum of pages\nGrand total :  1 234,50 €\nDue 17.03.2026"];
        let found = |data: Value, quote: &str| {
            let found = locate_quoted(&data, &[("value", quote)], &pages);
            found.located.first().map(|found| (found.location.page, found.location.first_word, found.quote))
        };
        let (five, sum, due) = (json!({"value": 5}), json!({"value": 1234.5}), json!({"value": "2026-03-17"}));
        assert_eq!(found(five.clone(), "Shipping 5.00"), Some((1, 3, Some((2, 3)))));
        assert_eq!(found(five.clone(), "Total\n5.00"), Some((1, 1, Some((0, 1)))), "white space does not matter");
        assert_eq!(found(sum.clone(), "total: 1234,50 €"), Some((2, 6, Some((4, 8)))));
        assert_eq!(found(due, "Due 17.03.2026"), Some((2, 10, Some((9, 10)))));
        for (data, quote, why) in [
            (five.clone(), "Freight 5.00", "the text does not contain the quote"),
            (five.clone(), "Shipping", "the quote does not contain the value"),
            (five.clone(), "shipping 5.00", "the case differs"),
            (five, "Shipping 5.00 Sum of pages", "no page contains the whole quote"),
            (sum, "234,50 €", "the quote contains a part of the value"),
        ] {
            let located = found(data, quote).map(|(_, _, quote)| quote);
            assert_eq!(located, Some(None), "{why}");
        }
        let page = ["Discount -12,00 (3.20)"];
        for (value, quote, is_cited) in [
            (json!(-12), "Discount -12,00", true),
            (json!(12), "Discount -12,00", false),
            (json!(12), "12,00", false),
            (json!(-12), "Discount-12,00", true),
            (json!(-3.2), "-12,00 (3.20)", true),
            (json!(3.2), "-12,00 (3.20)", false),
        ] {
            let located = locate_quoted(&json!({ "value": value }), &[("value", quote)], &page).located;
            let found = located.first().is_some_and(|found| found.quote.is_some());
            assert_eq!(found, is_cited, "{value} {quote}");
        }
        assert_eq!(found(json!({"value": 34.5}), "34,50"), None, "a part of a word is no value of the text");
    }

    #[test]
    fn a_number_is_not_joined_from_lines_and_columns() {
        for (page, is_found) in [
            ("Quantity 12 345", true),
            ("Quantity 12\u{202f}345", true),
            ("Quantity 12\n345 pieces", false),
            ("Quantity 12  345", false),
            ("Quantity 12\t345", false),
        ] {
            for quotes in [vec![], vec![("value", "12 345")]] {
                let found = locate_quoted(&json!({"value": 12_345}), &quotes, &[page]);
                assert_eq!(!found.located.is_empty(), is_found, "{page:?} {quotes:?}");
            }
        }
        assert!(has_value("Discount -\n12,00", &json!(-12), Style::default(), |_| false), "a sign may be apart");
    }

    #[test]
    fn a_number_and_a_negative_one_are_no_date() {
        let date = json!({"value": "2026-02-01"});
        for (page, is_cited) in [("Paid 1.2 -26", false), ("Paid 1 -2 -26", false), ("Paid 1.2.26", true)] {
            let found = locate_quoted(&date, &[("value", page)], &[page]).located;
            assert_eq!(found.first().is_some_and(|found| found.quote.is_some()), is_cited, "{page}");
        }
    }

    #[test]
    fn an_ambiguous_number_is_cited_in_the_notation_of_its_page_only() {
        for (page, cited, located) in
            [("Weight 1.234 for 2,50", json!(1234), json!(1.234)), ("Weight 1.234 for 2.50", json!(1.234), json!(1234))]
        {
            for (value, is_cited) in [(cited, true), (located, false)] {
                let found = locate_quoted(&json!({ "value": value }), &[("value", "Weight 1.234")], &[page]).located;
                assert_eq!(found[0].quote.is_some(), is_cited, "{page} {value}");
            }
        }
    }

    #[test]
    fn a_positive_number_is_not_located_at_a_negative_one() {
        for (page, wanted, is_located) in [
            ("Credit -957.00", 957, false),
            ("Credit 957.00-", 957, false),
            ("Credit -957.00", -957, true),
            ("Credit 957.00", -957, true),
            ("Credit - 957.00", -957, true),
            ("Credit -957.00 of 957.00", 957, true),
        ] {
            assert_eq!(locate(&json!({ "value": wanted }), &[page]).missing == 0, is_located, "{page} {wanted}");
        }
        let found = locate(&json!({"value": 957}), &["Credit -957.00 of 957.00"]).located;
        assert_eq!((found[0].location.first_word, found[0].occurrences), (3, 1));
    }

    #[test]
    fn a_negative_number_is_located_at_its_minus() {
        for (pages, page, first_word, occurrences) in [
            (vec!["12 -12"], 1, 1, 1),
            (vec!["12 12-"], 1, 1, 1),
            (vec!["12 paid - 12"], 1, 3, 1),
            (vec!["12 paid (12)"], 1, 2, 1),
            (vec!["10 - 12 and -12"], 1, 4, 1),
            (vec!["12", "-12 12", "12 -12"], 2, 0, 2),
            (vec!["12", "12"], 1, 0, 2),
        ] {
            let found = locate(&json!({"value": -12}), &pages).located;
            let location = Location { page, first_word, last_word: first_word };
            assert_eq!((found[0].location, found[0].occurrences), (location, occurrences), "{pages:?}");
        }
    }

    #[test]
    fn the_dash_of_a_range_is_no_sign() {
        for (page, value, quote, is_cited) in [
            ("Pages 10 - 12", -12, "- 12", false),
            ("Pages 10 - 12", -12, "-12", false),
            ("Pages 10 - 12", -12, "10 - 12", false),
            ("Pages 10 - 12", -10, "10 -", false),
            ("Pages 10 \u{2013} 12", -12, "\u{2013} 12", false),
            ("Pages 10 - 12", 12, "10 - 12", true),
            ("Paper 10  - 12", -12, "- 12", true),
            ("Paper 10\n- 12", -12, "- 12", true),
            ("Discount - 12", -12, "- 12", true),
        ] {
            let found = locate_quoted(&json!({ "value": value }), &[("value", quote)], &[page]).located;
            assert_eq!(found[0].quote.is_some(), is_cited, "{page:?} {value} {quote}");
        }
    }

    #[test]
    fn a_text_is_no_part_of_a_number_and_is_cited_with_its_signs() {
        let page = "Total 1,250.00 or €50 (12.50%) for INV-2026-0815, due 17.03.2026, on A\u{2013}5 12²";
        for (value, quote, expected) in [
            ("250", "Total 1,250.00", None),
            ("1,250", "Total 1,250.00", None),
            ("12.50", "(12.50%)", Some(true)),
            ("12.50%", "(12.50%)", Some(true)),
            ("12.50 €", "(12.50%)", Some(false)),
            ("€50", "or €50", Some(true)),
            ("$50", "or €50", Some(false)),
            ("2026-0815", "INV-2026-0815", Some(true)),
            ("inv-2026-0815.", "for INV-2026-0815,", Some(true)),
            ("2026-03-17", "due 17.03.2026", Some(true)),
            ("a-5", "on A\u{2013}5", Some(true)),
            ("122", "A\u{2013}5 122", None),
        ] {
            let found = locate_quoted(&json!({ "value": value }), &[("value", quote)], &[page]).located;
            assert_eq!(found.first().map(|found| found.quote.is_some()), expected, "{value} {quote}");
        }
    }

    #[test]
    fn texts_are_compared_in_compatibility_composition() {
        let page = "Ce\u{301}line Dupont, ﬁnal Ａ１";
        for (value, quote) in [("Céline Dupont", "Céline Dupont"), ("final", "final A1"), ("Ce\u{301}line", "Céline")]
        {
            let found = locate_quoted(&json!({ "value": value }), &[("value", quote)], &[page]).located;
            assert!(found.first().is_some_and(|found| found.quote.is_some()), "{value}");
        }
    }

    #[test]
    fn a_currency_is_located_and_cited_at_its_sign() {
        let page = "Total 957,00 € or £50 or $20, US$30, paid by A. Euro";
        for (value, quote, expected) in [
            ("EUR", "957,00 €", Some((2, true))),
            ("EUR", "Total 957,00", Some((2, false))),
            ("GBP", "or £50", Some((4, true))),
            ("USD", "US$30", Some((7, true))),
            ("USD", "or $20", Some((7, false))),
            ("CHF", "957,00 €", None),
        ] {
            let found = locate_quoted(&json!({ "value": value }), &[("value", quote)], &[page]).located;
            let found = found.first().map(|found| (found.location.first_word, found.quote.is_some()));
            assert_eq!(found, expected, "{value} {quote}");
        }
        assert_eq!(locate(&json!({"value": "USD"}), &["Total $20"]).missing, 1, "several currencies have this sign");
    }

    #[test]
    fn a_number_with_its_currency_is_one_place() {
        let found = locate(&json!({"total": 957}), &["Total 957.00 EUR EUR 957.00"]);
        assert_eq!(found.located[0].occurrences, 2);
        assert_eq!((found.located[0].location.first_word, found.located[0].location.last_word), (1, 1));
    }

    proptest! {
        #[test]
        fn a_located_text_is_at_its_place(
            words in prop::collection::vec("[a-cA-C]{1,2}[,.]?", 0..40),
            wanted in prop::collection::vec("[a-c]{1,2}", 1..3),
        ) {
            let page = words.join(" ");
            let wanted = wanted.join(" ");
            let found = locate(&json!({ "value": wanted }), &[&page]);
            let expected = format!(" {} ", fold(&page)).contains(&format!(" {wanted} "));
            prop_assert_eq!(found.missing == 0, expected);
            for Located { location, .. } in found.located {
                let quote = words.get(location.first_word..=location.last_word).unwrap().join(" ");
                prop_assert_eq!(fold(&quote), wanted.clone());
            }
        }
    }
}
