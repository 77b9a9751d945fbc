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
mod tests;
