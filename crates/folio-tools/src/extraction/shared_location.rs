//! Values of several fields at one location. Pure.
//!
//! If a model quotes a number or a date at one location for two fields, it is cited for neither, because a model that lacks a value often
//! repeats the value of another field. The same applies if the model quotes the location for one field only, and the value of the other
//! field occurs nowhere else. The values of one item of an array may share a location, because a row may repeat a value. Names without
//! digits may share a location, too.

use std::collections::{BTreeSet, HashMap};

use super::location::Located;

/// Withdraws the quotes of values that share a location, if one of them contains a digit. A value without a quote takes part with its
/// location if it occurs only once. `claims`: the group of each value, and true if the value contains a digit. `is_item`: returns true
/// if a group is an item of an array, whose values may share a location.
pub(super) fn withdraw_shared(located: &mut [Located], claims: &[(usize, bool)], is_item: impl Fn(usize) -> bool) {
    // By the first word: the groups of the values, and whether a value contains a digit.
    let mut shared: HashMap<(u32, usize), (BTreeSet<usize>, usize, bool)> = HashMap::new();
    let first_word = |found: &Located| (found.location.page, found.location.first_word);
    let is_certain = |found: &Located| found.quote.is_some() || found.occurrences == 1;
    for (found, (group, has_digit)) in located.iter().zip(claims).filter(|(found, _)| is_certain(found)) {
        let (groups, count, any_digit) = shared.entry(first_word(found)).or_default();
        *any_digit |= has_digit;
        *count += usize::from(groups.insert(*group) || !is_item(*group));
    }
    for found in located {
        if shared.get(&first_word(found)).is_some_and(|(_, count, any_digit)| *count > 1 && *any_digit) {
            found.quote = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::location::Search;

    #[test]
    fn a_location_that_is_quoted_for_two_fields_is_cited_for_neither() {
        let page = "Invoice of 07.03.2026 by ACME\nPaper 1 5.00 5.00\nTotal 5.00";
        let cited = |data: &Value, quotes: &[(&str, &str)]| -> Vec<String> {
            let quotes = quotes.iter().map(|(path, quote)| ((*path).to_owned(), (*quote).to_owned())).collect();
            let mut search = Search::new(data, &quotes);
            search.add_page(1, page);
            let located = search.finish().located.into_iter();
            let mut paths: Vec<_> = located.filter(|found| found.quote.is_some()).map(|found| found.path).collect();
            paths.sort();
            paths
        };
        let date = "Invoice of 07.03.2026";
        let dates = json!({"date": "2026-03-07", "due_date": "2026-03-07"});
        assert_eq!(cited(&dates, &[("date", date), ("due_date", date)]), [""; 0]);
        assert_eq!(cited(&dates, &[("date", date)]), [""; 0], "the other one occurs nowhere else");
        let fives = json!({"number": "5.00", "subtotal": 5});
        assert_eq!(cited(&fives, &[("subtotal", "Total 5.00")]), ["subtotal"], "the other one occurs elsewhere");
        let row = "Paper 1 5.00";
        let invoice = json!({"items": [{"price": 5, "amount": 5}], "subtotal": 5, "number": "5.00"});
        let item = [("items[0].price", row), ("items[0].amount", row)];
        assert_eq!(cited(&invoice, &item), ["items[0].amount", "items[0].price"], "a row may repeat a value");
        let with = |quote| [&item[..], &[quote]].concat();
        assert_eq!(cited(&invoice, &with(("subtotal", row))), [""; 0]);
        assert_eq!(cited(&invoice, &with(("number", row))), [""; 0]);
        assert_eq!(cited(&invoice, &with(("subtotal", "Total 5.00"))).len(), 3);
        let names = json!({"seller": "ACME", "issuer": "ACME"});
        assert_eq!(cited(&names, &[("seller", "by ACME"), ("issuer", "by ACME")]).len(), 2, "names may be equal");
    }
}
