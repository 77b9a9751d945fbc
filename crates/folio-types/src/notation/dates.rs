//! Parsing of printed dates.

use super::{Style, fold};

/// Folded month names and abbreviations in English, German, French, Spanish, Italian, Dutch, Portuguese, Swedish.
const MONTHS: [&[&str]; 12] = [
    &["january", "jan", "januar", "janvier", "janv", "enero", "ene", "gennaio", "gen", "januari", "janeiro", "jaenner"],
    &["february", "feb", "februar", "fevrier", "fevr", "febrero", "febbraio", "februari", "fevereiro"],
    &["march", "mar", "maerz", "mrz", "mars", "marzo", "maart", "marco"],
    &["april", "apr", "avril", "avr", "abril", "abr", "aprile"],
    &["may", "mai", "mayo", "maggio", "mag", "mei", "maio", "maj"],
    &["june", "jun", "juni", "juin", "junio", "giugno", "giu", "junho"],
    &["july", "jul", "juli", "juillet", "juil", "julio", "luglio", "lug", "julho"],
    &["august", "aug", "aout", "agosto", "ago", "augustus", "augusti"],
    &["september", "sep", "sept", "septembre", "septiembre", "settembre", "set", "setembro"],
    &["october", "oct", "oktober", "okt", "octobre", "octubre", "ottobre", "ott", "outubro"],
    &["november", "nov", "novembre", "noviembre", "novembro"],
    &["december", "dec", "dezember", "dez", "decembre", "diciembre", "dic", "dicembre", "dezembro"],
];

/// Parses a date, optionally with a time of day, and returns it as `YYYY-MM-DD`.
pub(super) fn date(text: &str, style: Style) -> Option<String> {
    let text = without_time(text.trim().trim_end_matches(['.', ',']));
    if text.len() > 40 {
        return None;
    }
    numeric(text, style).or_else(|| written(text)).or_else(|| {
        // "Tuesday, 17 March 2026"
        let (day, rest) = text.split_once([',', ' '])?;
        let weekday = day.len() >= 2 && day.chars().all(char::is_alphabetic) && month(day).is_none();
        weekday.then(|| numeric(rest.trim(), style).or_else(|| written(rest.trim()))).flatten()
    })
}

/// Removes a time of day at the end.
fn without_time(text: &str) -> &str {
    let Some((at, _)) = text.match_indices([' ', 'T']).find(|(at, _)| {
        let rest = text.get(at + 1..).unwrap_or_default();
        rest.split_once(':').is_some_and(|(hour, minute)| {
            (1..=2).contains(&hour.len())
                && hour.bytes().all(|b| b.is_ascii_digit())
                && minute.bytes().take(2).all(|b| b.is_ascii_digit())
                && minute.len() >= 2
        })
    }) else {
        return text;
    };
    text.get(..at).unwrap_or(text).trim_end_matches([',', ' '])
}

fn numeric(text: &str, style: Style) -> Option<String> {
    // A dash between a blank and a digit is a minus: `1.2 -26` is two numbers.
    if text.split_whitespace().skip(1).any(|word| word.len() > 1 && word.starts_with('-')) {
        return None;
    }
    let parts: Vec<&str> = text.split(['-', '/', '.']).map(str::trim).collect();
    let [first, second, third] = parts.as_slice() else { return None };
    let value = |part: &str| {
        (!part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())).then(|| part.parse::<u32>().ok())?
    };
    let (a, b, c) = (value(first)?, value(second)?, value(third)?);
    match (first.len(), second.len(), third.len()) {
        (4, 1..=2, 1..=2) => iso(a, b, c),
        (1..=2, 1..=2, 2 | 4) => {
            let year = if third.len() == 2 { 2_000 + c } else { c };
            let slashed = text.contains('/');
            let month_first = slashed && (b > 12 || (a <= 12 && style.month_first));
            if month_first { iso(year, a, b) } else { iso(year, b, a) }
        }
        _ => None,
    }
}

fn written(text: &str) -> Option<String> {
    let words = text.split([' ', ',', '.', '-']).filter(|word| !word.is_empty());
    let words: Vec<&str> = words.filter(|word| !matches!(*word, "de" | "del" | "of" | "the")).collect();
    let [first, second, third] = words.as_slice() else { return None };
    let (day, month) = match (month(first), month(second)) {
        (Some(month), None) => (second, month),
        (None, Some(month)) => (first, month),
        _ => return None,
    };
    let day = day.trim_end_matches(|c: char| c.is_alphabetic() || c == 'º').parse().ok()?;
    let year = third.parse().ok().filter(|_| third.len() == 4)?;
    iso(year, month, day)
}

fn month(word: &str) -> Option<u32> {
    let word = fold(word);
    let index = MONTHS.iter().position(|names| names.contains(&word.as_str()))?;
    u32::try_from(index + 1).ok()
}

fn iso(year: u32, month: u32, day: u32) -> Option<String> {
    let is_valid = (1_800..2_200).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    is_valid.then(|| format!("{year:04}-{month:02}-{day:02}"))
}

/// Returns true if dates with slashes start with the month: a date is valid only in this order, or amounts are in
/// dollars.
pub(super) fn prefers_month_first(text: &str) -> bool {
    let slashed = text.split_whitespace().filter_map(|word| {
        let mut parts = word.trim_matches(|c: char| !c.is_ascii_digit()).split('/');
        let (a, b, c) = (parts.next()?, parts.next()?, parts.next()?);
        (parts.next().is_none() && !c.is_empty()).then(|| Some((a.parse::<u32>().ok()?, b.parse::<u32>().ok()?)))?
    });
    let mut day_first = false;
    for (a, b) in slashed {
        if b > 12 {
            return true;
        }
        day_first |= a > 12;
    }
    !day_first && text.contains('$')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_parsed_in_each_notation() {
        for text in [
            "2026-03-17",
            "2026/03/17",
            "17.03.2026",
            "17.3.26",
            "17/03/2026",
            "03/17/2026",
            "17 March 2026",
            "March 17, 2026",
            "Mar 17th, 2026",
            "17. März 2026",
            "17 mars 2026",
            "17 de marzo de 2026",
            "Tuesday, 17 March 2026",
            "17.03.2026, 14:05 Uhr",
            "2026-03-17T10:00:00Z",
            "17-Mar-2026",
            "17 - 3 - 2026",
            "17. 3. 2026",
        ] {
            assert_eq!(date(text, Style::default()).as_deref(), Some("2026-03-17"), "{text}");
        }
    }

    #[test]
    fn other_texts_are_not_dates() {
        for text in [
            "2026",
            "12.50",
            "1.2.3",
            "INV-2026-0417",
            "17 March",
            "99/99/2026",
            "555-1234",
            "",
            "+49 40 1234",
            "12 2026-03-17",
            "2026-03-17 ab:cd",
            "2026-03-17 abc:10",
            "2026-03-17 abc:def",
            "+1.2.2026",
            "12.13.2026",
            "32.01.2026",
            "1.2 -26",
            "1 -2 -26",
            "01-02 -2026",
        ] {
            assert_eq!(date(text, Style::default()), None, "{text}");
        }
    }

    #[test]
    fn a_date_has_at_most_40_bytes() {
        let with = |letters: usize| date(&format!("{}, 17 March 2026", "w".repeat(letters)), Style::default());
        assert_eq!((with(25).as_deref(), with(26)), (Some("2026-03-17"), None));
    }

    #[test]
    fn an_ambiguous_date_follows_the_other_dates_of_the_document() {
        let style = Style { comma_decimal: false, month_first: prefers_month_first("on 04/05/2026 or 12/31/2026") };
        assert_eq!(date("04/05/2026", style).as_deref(), Some("2026-04-05"));
        assert!(!prefers_month_first("31/12/2026, $5"));
        assert!(prefers_month_first("04/05/2026 $5"));
        assert!(prefers_month_first("12/05/2026 $5"), "12 may be a month");
        assert!(!prefers_month_first("1/31/2/3"), "four numbers are no date");
        assert_eq!(date("01/12/2026", Style::default()).as_deref(), Some("2026-12-01"));
    }
}
