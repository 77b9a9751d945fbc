//! Parsing of printed numbers and amounts.

use serde_json::Value;

use super::Style;

/// Currency signs and their ISO codes.
const CURRENCIES: [(&str, &str); 24] = [
    ("€", "EUR"),
    ("EUR", "EUR"),
    ("US$", "USD"),
    ("USD", "USD"),
    ("CA$", "CAD"),
    ("CAD", "CAD"),
    ("A$", "AUD"),
    ("AUD", "AUD"),
    ("$", "USD"),
    ("£", "GBP"),
    ("GBP", "GBP"),
    ("CHF", "CHF"),
    ("Fr.", "CHF"),
    ("¥", "JPY"),
    ("JPY", "JPY"),
    ("₹", "INR"),
    ("INR", "INR"),
    ("SEK", "SEK"),
    ("NOK", "NOK"),
    ("DKK", "DKK"),
    ("kr", "SEK"),
    ("zł", "PLN"),
    ("PLN", "PLN"),
    ("CZK", "CZK"),
];

/// Units that may follow a number.
const UNITS: [&str; 15] =
    ["%", "kWh", "kwh", "MWh", "m³", "m3", "kg", "g", "km", "l", "pcs", "pc", "Stk", "Stück", "GB"];

/// Signs of several currencies.
const AMBIGUOUS_CURRENCIES: [&str; 4] = ["$", "¥", "kr", "Fr."];

/// Returns the ISO code of the currency in a text. An ambiguous sign has its most frequent meaning.
pub fn currency(text: &str) -> Option<&'static str> {
    currency_sign(text).map(|(_, code)| code)
}

/// Returns the ISO code of the currency that a text names with a code or with a sign of this currency only.
pub fn stated_currency(text: &str) -> Option<&'static str> {
    currency_sign(text).filter(|(sign, _)| !AMBIGUOUS_CURRENCIES.contains(sign)).map(|(_, code)| code)
}

/// Returns the currency sign at an edge of a text, with its ISO code.
fn currency_sign(text: &str) -> Option<(&'static str, &'static str)> {
    let text = text.trim();
    let at_edge = |sign: &str| {
        let after = text.strip_prefix(sign).or_else(|| text.strip_suffix(sign));
        after.is_some_and(|rest| rest.is_empty() || !sign_continues(text, sign))
    };
    CURRENCIES.into_iter().find(|(sign, _)| at_edge(sign))
}

/// Returns true if a currency sign of letters is part of a longer word at that edge.
fn sign_continues(text: &str, sign: &str) -> bool {
    if !sign.chars().all(char::is_alphabetic) {
        return false;
    }
    let after = text.strip_prefix(sign).is_some_and(|rest| rest.starts_with(char::is_alphabetic));
    let before = text.strip_suffix(sign).is_some_and(|rest| rest.ends_with(char::is_alphabetic));
    after || before
}

/// Parses a number: digits with separators, and optionally a sign, a currency or a unit.
pub(super) fn number(text: &str, style: Style) -> Option<Value> {
    let mut text = text.trim();
    let mut negative = false;
    if let Some(inner) = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
        (text, negative) = (inner.trim(), true);
    }
    for _ in 0..2 {
        text = without_signs(text, &mut negative);
    }
    let text = UNITS.iter().find_map(|unit| text.strip_suffix(unit)).unwrap_or(text).trim();
    let (whole, fraction) = parts(text, style)?;
    if whole.len() > 15 || (whole.len() > 1 && whole.starts_with('0')) {
        return None;
    }
    let sign = if negative { "-" } else { "" };
    match fraction {
        None => format!("{sign}{whole}").parse::<i64>().ok().map(Value::from),
        Some(fraction) => format!("{sign}{whole}.{fraction}").parse::<f64>().ok().map(Value::from),
    }
}

/// Removes a currency or minus sign at either end.
fn without_signs<'a>(text: &'a str, negative: &mut bool) -> &'a str {
    let text = text.trim();
    for (sign, _) in CURRENCIES {
        if let Some(rest) = text.strip_prefix(sign).or_else(|| text.strip_suffix(sign)) {
            return rest.trim();
        }
    }
    for minus in ['-', '−', '–'] {
        if let Some(rest) = text.strip_prefix(minus).or_else(|| text.strip_suffix(minus)) {
            *negative = true;
            return rest.trim();
        }
    }
    text.strip_prefix('+').unwrap_or(text)
}

/// Returns the digits before and after the decimal separator.
fn parts(text: &str, style: Style) -> Option<(String, Option<String>)> {
    let text: String = text.chars().map(|c| if matches!(c, '\u{a0}' | '\u{202f}' | '’') { '\'' } else { c }).collect();
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let allowed = |c: char| c.is_ascii_digit() || matches!(c, ',' | '.' | '\'' | ' ');
    if !edge(text.chars().next()) || !edge(text.chars().next_back()) || !text.chars().all(allowed) {
        return None;
    }
    let decimal = decimal_separator(&text, style);
    let (whole, fraction) = match decimal.and_then(|separator| text.rsplit_once(separator)) {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (text.as_str(), None),
    };
    if fraction.is_some_and(|digits| !digits.chars().all(|c| c.is_ascii_digit())) {
        return None;
    }
    let groups: Vec<&str> = whole.split([',', '.', '\'', ' ']).collect();
    let grouped = groups.len() == 1
        || (groups.first().is_some_and(|first| (1..=3).contains(&first.len()))
            && groups.iter().skip(1).all(|group| group.len() == 3));
    grouped.then(|| (groups.concat(), fraction.map(str::to_owned)))
}

fn decimal_separator(text: &str, style: Style) -> Option<char> {
    let (commas, dots) = (text.matches(',').count(), text.matches('.').count());
    match (commas, dots) {
        (0, 0) => None,
        (_, 0) | (0, _) => {
            let (separator, count) = if commas > 0 { (',', commas) } else { ('.', dots) };
            let after = text.rsplit_once(separator).map_or(0, |(_, after)| after.len());
            // A single separator before three digits is ambiguous; the document's style decides.
            let decimal = count == 1 && (after != 3 || style.comma_decimal == (separator == ','));
            decimal.then_some(separator)
        }
        _ if text.rfind(',') > text.rfind('.') => Some(','),
        _ => Some('.'),
    }
}

/// Returns true if more amounts end in `,dd` than in `.dd`.
pub(super) fn prefers_comma(text: &str) -> bool {
    let count = |separator: char| {
        let ends = |word: &str| {
            let word = word.trim_matches(|c: char| !c.is_ascii_digit());
            word.rsplit_once(separator).is_some_and(|(before, after)| {
                after.len() == 2
                    && after.bytes().all(|b| b.is_ascii_digit())
                    && before.ends_with(|c: char| c.is_ascii_digit())
                    && before.matches(separator).count() == 0
            })
        };
        text.split_whitespace().filter(|word| ends(word)).count()
    };
    count(',') > count('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Value> {
        number(text, Style::default())
    }

    #[test]
    fn amounts_are_parsed_in_each_notation() {
        for (text, value) in [
            ("1,234.00", 1234.0),
            ("1.234,56 €", 1234.56),
            ("EUR 12.50", 12.5),
            ("$1,250.75", 1250.75),
            ("-3.20", -3.2),
            ("(3.20)", -3.2),
            ("CHF 1'200.50", 1200.5),
            ("1 234,50", 1234.5),
            ("12,5 %", 12.5),
            ("- € 4,00", -4.0),
        ] {
            assert_eq!(read(text), Some(Value::from(value)), "{text}");
        }
        for (text, value) in
            [("17", 17), ("1,234", 1234), ("412 kWh", 412), ("19 %", 19), ("0", 0), ("2.000.000", 2_000_000)]
        {
            assert_eq!(read(text), Some(Value::from(value)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_not_numbers() {
        for text in [
            "",
            "INV-1",
            "0042",
            "2026-03-17",
            "12.34.56.78",
            "1,2,3",
            "DE89 3704",
            "30 days",
            "5 EURO",
            ".",
            "€",
            ",5",
            "5,",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        let digits = |count: usize| read(&"1".repeat(count)).is_some();
        assert!(digits(15) && !digits(16), "a number has at most 15 digits before the separator");
    }

    #[test]
    fn three_digits_after_a_separator_follow_the_documents_style() {
        let comma = Style { comma_decimal: true, month_first: false };
        assert_eq!(number("1.234", comma), Some(Value::from(1234)));
        assert_eq!(number("1.234", Style::default()), Some(Value::from(1.234)));
        assert!(prefers_comma("a 12,50 b 3,20 c 1.00"));
        assert!(!prefers_comma("a 12.50 b 1,234.00"));
        assert!(!prefers_comma("12,5") && !prefers_comma("no amount"));
    }

    #[test]
    fn currencies_are_found_at_the_edges_of_an_amount() {
        assert_eq!(currency("12,00 €"), Some("EUR"));
        assert_eq!(currency("$5"), Some("USD"));
        assert_eq!(currency("SEK 5"), Some("SEK"));
        assert_eq!(currency("EUROPE"), None);
        assert_eq!(currency("12.00"), None);
        for (text, code) in [("12,00 €", Some("EUR")), ("US$5", Some("USD")), ("$5", None), ("5 kr", None), ("5", None)]
        {
            assert_eq!(stated_currency(text), code, "{text}");
        }
    }
}
