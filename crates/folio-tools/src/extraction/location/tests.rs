//! Tests of the locations of values.

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
    for (value, quote) in [("Céline Dupont", "Céline Dupont"), ("final", "final A1"), ("Ce\u{301}line", "Céline")] {
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
