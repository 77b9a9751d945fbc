//! Notation of numbers, amounts and dates in documents. Pure.

mod dates;
mod numbers;

use serde_json::Value;

pub use numbers::{currency, stated_currency};

/// Notation of numbers and dates in a document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Style {
    /// True for `1.234,56`, false for `1,234.56`.
    pub comma_decimal: bool,
    /// True for `03/17/2026`, false for `17/03/2026`, if a date is ambiguous.
    pub month_first: bool,
}

impl Style {
    /// Detects the style of a text.
    pub fn of(text: &str) -> Self {
        Self { comma_decimal: numbers::prefers_comma(text), month_first: dates::prefers_month_first(text) }
    }

    /// Returns every style.
    pub fn all() -> [Self; 4] {
        [(false, false), (false, true), (true, false), (true, true)]
            .map(|(comma_decimal, month_first)| Self { comma_decimal, month_first })
    }

    /// Parses a number. None: the text is not a number.
    pub fn number(self, text: &str) -> Option<Value> {
        numbers::number(text, self)
    }

    /// Parses a date and returns it as `YYYY-MM-DD`. None: the text is not a date.
    pub fn date(self, text: &str) -> Option<String> {
        dates::date(text, self)
    }
}

/// Folds a text: lower case, without accents and signs, words separated by single spaces.
pub fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for c in text.chars().flat_map(char::to_lowercase) {
        match c {
            'ä' => folded.push_str("ae"),
            'ö' => folded.push_str("oe"),
            'ü' => folded.push_str("ue"),
            'ß' => folded.push_str("ss"),
            'æ' => folded.push_str("ae"),
            'à' | 'á' | 'â' | 'ã' | 'å' | 'ą' => folded.push('a'),
            'ç' | 'ć' | 'č' => folded.push('c'),
            'è' | 'é' | 'ê' | 'ë' | 'ę' | 'ě' => folded.push('e'),
            'ì' | 'í' | 'î' | 'ï' => folded.push('i'),
            'ñ' | 'ń' | 'ň' => folded.push('n'),
            'ò' | 'ó' | 'ô' | 'õ' | 'ø' => folded.push('o'),
            'ù' | 'ú' | 'û' | 'ů' => folded.push('u'),
            'ý' | 'ÿ' => folded.push('y'),
            'ś' | 'š' => folded.push('s'),
            'ź' | 'ż' | 'ž' => folded.push('z'),
            'ł' => folded.push('l'),
            '#' | '№' => folded.push_str(" no "),
            'º' | '°' => folded.push_str("o "),
            c if c.is_alphanumeric() => folded.push(c),
            _ => folded.push(' '),
        }
    }
    folded.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_folded_to_lower_case_without_accents_and_signs() {
        for (text, expected) in [
            ("ÄÖÜ", "aeoeue"),
            ("Straße", "strasse"),
            ("Æ", "ae"),
            ("àáâãåą", "aaaaaa"),
            ("çćč", "ccc"),
            ("èéêëęě", "eeeeee"),
            ("ìíîï", "iiii"),
            ("ñńň", "nnn"),
            ("òóôõø", "ooooo"),
            ("ùúûů", "uuuu"),
            ("ýÿ", "yy"),
            ("śš", "ss"),
            ("źżž", "zzz"),
            ("ł", "l"),
            ("#7", "no 7"),
            ("№7", "no 7"),
            ("Nº 1", "no 1"),
            ("N° 1", "no 1"),
            ("  A-b_C/7  ", "a b c 7"),
        ] {
            assert_eq!(fold(text), expected, "{text}");
        }
    }

    #[test]
    fn the_style_of_a_text_parses_its_numbers_and_dates() {
        let style = Style::of("1.234,56 on 03/17/2026");
        assert_eq!(style, Style { comma_decimal: true, month_first: true });
        assert_eq!(style.number("1.234,56"), Some(Value::from(1234.56)));
        assert_eq!(style.date("04/05/2026").as_deref(), Some("2026-04-05"));
        assert_eq!((style.number("x"), style.date("x")), (None, None));
        let styles = Style::all();
        assert!(styles.contains(&style) && styles.contains(&Style::default()));
        assert!((1..4).all(|at| styles.get(at - 1) != styles.get(at)));
    }
}
