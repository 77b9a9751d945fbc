//! Lines of a page whose amounts are summands of a subtotal: the items of an invoice or a receipt. Pure.
//!
//! An invoice prints its items, their sum, further amounts such as the tax, and the total. The last amounts of consecutive lines
//! show this: `a + b = s` and `s + t = u`. The detection knows no words of any language.

use std::ops::Range;

use folio_types::notation::Style;
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

/// Maximum number of lines with an amount of a page that are examined. Cost: the square of it.
const LINES_MAX: usize = 300;
/// Maximum number of amounts between the subtotal and the total: taxes, shipping, a discount.
const ADDED_MAX: usize = 3;
/// Maximum amount in cents.
const CENTS_MAX: i64 = 1_000_000_000_000;

/// Returns the words of each line that is an item, from 0 on the page.
pub(super) fn item_lines(text: &str, style: Style) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for is_grouped in [false, true] {
        let mut column: Vec<(Range<usize>, i64)> = Vec::new();
        let mut word = 0;
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let range = word..word + words.len();
            word = range.end;
            if let Some(cents) = last_amount(&words, style, is_grouped).filter(|_| column.len() < LINES_MAX) {
                column.push((range, cents));
            }
        }
        let amounts: Vec<i64> = column.iter().map(|(_, cents)| *cents).collect();
        let items = summands(&amounts);
        for ((range, _), _) in column.into_iter().zip(items).filter(|(_, is_item)| *is_item) {
            if !found.contains(&range) {
                found.push(range);
            }
        }
    }
    found
}

/// Returns the last amount of a line in cents: a number with two decimals. `is_grouped`: blanks may group its digits by three.
fn last_amount(words: &[&str], style: Style, is_grouped: bool) -> Option<i64> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (at, amount) = words.iter().enumerate().rev().find_map(|(at, word)| {
        let word = word.trim_matches(|c: char| !c.is_ascii_digit() && c != '-');
        let (whole, cents) = word.rsplit_once(['.', ','])?;
        (digits(cents) && cents.len() == 2 && whole.ends_with(|c: char| c.is_ascii_digit())).then_some((at, word))
    })?;
    let mut amount = amount.to_owned();
    if is_grouped {
        for before in words.get(..at)?.iter().rev() {
            let first_group = amount.split(['.', ',', ' ']).next().unwrap_or_default();
            if first_group.len() != 3 || !digits(before) || before.len() > 3 {
                break;
            }
            amount = format!("{before} {amount}");
        }
    }
    let amount = Decimal::from_str_exact(&style.number(&amount)?.to_string()).ok()?;
    let cents = amount.checked_mul(Decimal::ONE_HUNDRED)?.to_i64()?;
    (cents.abs() <= CENTS_MAX).then_some(cents)
}

/// Returns for each amount whether it is a summand of a subtotal that is itself a summand.
fn summands(amounts: &[i64]) -> Vec<bool> {
    let mut items = vec![false; amounts.len()];
    for (at, subtotal) in amounts.iter().enumerate().filter(|(_, amount)| **amount > 0) {
        if !is_summand(amounts, at) {
            continue;
        }
        let (mut sum, mut first) = (0_i64, None);
        for (before, amount) in amounts.iter().enumerate().take(at).rev() {
            sum += amount;
            if sum == *subtotal && before + 1 < at {
                first = Some(before);
            }
        }
        if let Some(first) = first
            && let Some(range) = items.get_mut(first..at)
        {
            range.fill(true);
        }
    }
    items
}

/// Returns true if the amount and up to [`ADDED_MAX`] amounts after it are a later amount together.
fn is_summand(amounts: &[i64], at: usize) -> bool {
    let mut sum = 0_i64;
    amounts.iter().skip(at).take(ADDED_MAX + 2).enumerate().any(|(added, amount)| {
        let is_sum = added > 1 && sum == *amount;
        sum += amount;
        is_sum
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::location::Search;
    use super::*;

    fn items(text: &str) -> Vec<String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        item_lines(text, Style::of(text)).into_iter().map(|range| words[range].join(" ")).collect()
    }

    #[test]
    fn the_summands_of_a_subtotal_are_items() {
        let receipt = "KAUFHALLE\nBeleg-Nr: 05537\nDatum: 10.07.2026\n\nToner schwarz  134,75 EUR\nArchivboxen  892,00 EUR\n\n\
                       Zwischensumme  1.026,75 EUR\nMwSt  195,08 EUR\nSUMME  1.221,83 EUR\n";
        assert_eq!(items(receipt), ["Toner schwarz 134,75 EUR", "Archivboxen 892,00 EUR"]);
        let invoice = "Paper 2 5.00 10.00\nInk 1 7.50 7.50\nNet 17.50\nShipping 2.50\nVAT 20% 4.00\nTotal 24.00";
        assert_eq!(items(invoice), ["Paper 2 5.00 10.00", "Ink 1 7.50 7.50"]);
        let grouped = "Papier 1 688,50 €\nEncre 570,00 €\nSous-total 2 258,50 €\nTVA 451,70 €\nTotal 2 710,20 €";
        assert_eq!(items(grouped), ["Papier 1 688,50 €", "Encre 570,00 €"]);
    }

    #[test]
    fn net_and_tax_are_no_items() {
        assert_eq!(items("Net 100.00\nVAT 19.00\nTotal 119.00"), [""; 0]);
        assert_eq!(items("Net 100.00\nVAT 19.00\nTotal 119.00\nPaid 100.00\nOpen 19.00"), [""; 0]);
        assert_eq!(items("1.00\n2.00\n"), [""; 0]);
        assert_eq!(items("no amounts\n12 3"), [""; 0]);
    }

    #[test]
    fn only_fields_of_items_are_cited_from_the_line_of_an_item() {
        let page = "Paper 2 5.00 10.00\nInk 1 7.50 7.50\nNet 17.50\nShipping 2.50\nVAT 20% 4.00\nTotal 24.00";
        let data = json!({"items": [{"amount": 10}], "subtotal": 7.5, "total": 24});
        let quotes = [("items[0].amount", "Paper 2 5.00 10.00"), ("subtotal", "Ink 1 7.50"), ("total", "Total 24.00")];
        let quotes = quotes.into_iter().map(|(path, quote)| (path.to_owned(), quote.to_owned())).collect();
        let mut search = Search::new(&data, &quotes);
        search.add_page(1, page);
        let located = search.finish().located;
        let cited: Vec<_> = located.iter().map(|found| (found.path.as_str(), found.quote.is_some())).collect();
        assert_eq!(cited, [("items[0].amount", true), ("subtotal", false), ("total", true)]);
    }
}
