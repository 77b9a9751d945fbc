//! The values that the text of a page contains. Pure.
//!
//! [`PageIndex::find`] finds a value in every usual notation of its type. [`has_value`] compares more strictly, and decides
//! whether a quote contains a value.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use folio_resources::words;
use folio_types::notation::{Style, fold, stated_currency};
use serde_json::Value;
use unicode_normalization::UnicodeNormalization as _;

/// Maximum words of a date, such as `Tuesday, 17 March 2026`.
const DATE_WORDS: usize = 4;
/// Maximum words of a number, such as `1 234,50`.
const NUMBER_WORDS: usize = 2;
/// White space between the groups of digits of a number: a blank, a no-break space, a narrow no-break space, and a thin space.
const BLANKS: [&str; 4] = [" ", "\u{a0}", "\u{202f}", "\u{2009}"];
/// Characters around a word that do not belong to its value.
const MARKS: [char; 9] = [',', ';', ':', '.', '(', ')', '"', '*', '|'];
/// Numbers with a smaller difference are equal.
const TOLERANCE: f64 = 1e-9;

/// Numbers of the first and the last word of a location.
pub(super) type Words = (usize, usize);

/// A folded word.
struct Token {
    text: String,
    /// The number of the word on the page that contains the token, from 0.
    word: usize,
    /// True if the token continues the digits of the token before it, as `50` in `12.50` does.
    continues_number: bool,
}

/// A number of a page.
struct Number {
    absolute: f64,
    /// True if the words contain a minus.
    is_negative: bool,
    /// True if the number has a minus in its words or as the word before it, or is in brackets.
    has_minus: bool,
    words: Words,
}

/// The locations of a value on a page.
pub(super) struct Found {
    /// In order.
    pub(super) locations: Vec<Words>,
    /// False: the value is negative, and no location has a minus.
    pub(super) has_sign: bool,
}

/// The searchable values of a page.
pub(super) struct PageIndex {
    /// The folded words in order. A word of the page may have no token or several tokens.
    tokens: Vec<Token>,
    /// The positions of each folded word in `tokens`.
    positions: HashMap<String, Vec<usize>>,
    /// The numbers in the order of their absolute values, because a sign may be printed apart from its number.
    numbers: Vec<Number>,
    dates: HashMap<String, Vec<Words>>,
    /// The words with a currency, by its ISO code.
    currencies: HashMap<&'static str, Vec<Words>>,
    /// The words that are the dash of a range, as in `10 - 12`.
    range_dashes: HashSet<usize>,
}

impl PageIndex {
    pub(super) fn new(text: &str) -> Self {
        Self::with_style(text, Style::of(text))
    }

    /// `style`: the notation of ambiguous dates.
    pub(super) fn with_style(text: &str, style: Style) -> Self {
        let styles = [style, Style { comma_decimal: !style.comma_decimal, ..style }];
        let words = words_of(text);
        let range_dashes: HashSet<usize> = (0..words.len()).filter(|at| is_range_dash(&words, *at)).collect();
        let has_brackets = |start: usize, last: usize| {
            words.get(start).is_some_and(|word| word.text.starts_with('('))
                && words.get(last).is_some_and(|word| word.text.ends_with(')'))
        };
        let (mut tokens, mut positions) = (Vec::new(), HashMap::<String, Vec<usize>>::new());
        let (mut numbers, mut dates) = (Vec::new(), HashMap::<String, Vec<Words>>::new());
        let mut currencies = HashMap::<&'static str, Vec<Words>>::new();
        for (start, word) in words.iter().enumerate() {
            let folded = fold(&composed(word.text));
            let is_number = word.has_digits && {
                let text = word.text.trim_matches(MARKS);
                folded.contains(' ') && styles.iter().any(|style| style.number(text).is_some())
            };
            let mut ends_in_digit = false;
            for token in folded.split(' ').filter(|token| !token.is_empty()) {
                let continues_number = is_number && ends_in_digit && token.starts_with(|c: char| c.is_ascii_digit());
                ends_in_digit = token.ends_with(|c: char| c.is_ascii_digit());
                positions.entry(token.to_owned()).or_default().push(tokens.len());
                tokens.push(Token { text: token.to_owned(), word: start, continues_number });
            }
            if let Some(code) = stated_currency(word.text.trim_matches(MARKS)) {
                currencies.entry(code).or_default().push((start, start));
            }
            let before = start.checked_sub(1).filter(|at| !range_dashes.contains(at));
            let is_after_minus = before.and_then(|at| words.get(at)).is_some_and(Word::is_dash);
            let has_digit = |at: usize| words.get(at).is_some_and(|word| word.has_digits);
            let is_number = |last: usize| has_digit(start) && has_digit(last) && !is_divided(&words, start, last);
            for (last, group) in groups(&words, start, NUMBER_WORDS, is_number) {
                let mut values: Vec<f64> = Vec::new();
                for value in styles.iter().filter_map(|style| style.number(&group)?.as_f64()) {
                    if !values.contains(&value) {
                        values.push(value);
                    }
                }
                let is_minus_apart = is_after_minus || has_brackets(start, last);
                let number = |value: f64| Number {
                    absolute: value.abs(),
                    is_negative: value < 0.0,
                    has_minus: value < 0.0 || is_minus_apart,
                    words: (start, last),
                };
                numbers.extend(values.into_iter().map(number));
            }
            let is_date = |last: usize| has_digit(start) || has_digit(last);
            for (last, group) in groups(&words, start, DATE_WORDS, is_date) {
                let mut found: Vec<String> = styles.iter().filter_map(|style| style.date(&group)).collect();
                found.dedup();
                for date in found {
                    dates.entry(date).or_default().push((start, last));
                }
            }
        }
        numbers.sort_by(|one: &Number, other| {
            let order = one.absolute.partial_cmp(&other.absolute).unwrap_or(Ordering::Equal);
            order.then_with(|| one.words.cmp(&other.words))
        });
        Self { tokens, positions, numbers, dates, currencies, range_dashes }
    }

    pub(super) fn contains(&self, value: &Value) -> bool {
        !self.find(value).locations.is_empty()
    }

    /// Returns true if the word is the dash of a range.
    pub(super) fn is_range_dash(&self, word: usize) -> bool {
        self.range_dashes.contains(&word)
    }

    /// Returns the locations of a value in order. A location that contains another location is omitted, and so is a location of
    /// a negative number without a minus if another location has a minus.
    pub(super) fn find(&self, value: &Value) -> Found {
        let mut has_sign = true;
        let mut found = match value {
            Value::Number(number) => {
                let (found, is_signed) = self.number(number.as_f64());
                has_sign = is_signed;
                found
            }
            Value::String(text) => {
                let mut found = self.text(text);
                found.extend(self.dates.get(text.trim()).into_iter().flatten());
                found.extend(self.currencies.get(text.trim()).into_iter().flatten());
                found
            }
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Vec::new(),
        };
        found.sort_by_key(|(first, last)| (*last, usize::MAX - *first));
        let mut kept: Vec<Words> = Vec::new();
        for (first, last) in found {
            // The locations are sorted by their last words, the shortest first, so a location that overlaps a kept location is
            // omitted.
            if kept.last().is_none_or(|(kept, _)| *kept < first) {
                kept.push((first, last));
            }
        }
        Found { locations: kept, has_sign }
    }

    /// Returns the locations of a number, and true if the locations have its sign. A location of a positive number has no minus.
    /// The minus of a negative number may be missing on the page: locations without a minus are returned if no location has one.
    fn number(&self, wanted: Option<f64>) -> (Vec<Words>, bool) {
        let Some(wanted) = wanted else { return (Vec::new(), true) };
        let absolute = wanted.abs();
        let start = self.numbers.partition_point(|number| number.absolute < absolute - TOLERANCE);
        let rest = self.numbers.get(start..).unwrap_or_default();
        let equal = rest.iter().take_while(|number| number.absolute < absolute + TOLERANCE);
        if wanted >= 0.0 {
            return (equal.filter(|number| !number.is_negative).map(|number| number.words).collect(), true);
        }
        let (signed, unsigned): (Vec<_>, Vec<_>) = equal.partition(|number| number.has_minus);
        let has_sign = !signed.is_empty();
        let found = if has_sign { signed } else { unsigned };
        (found.into_iter().map(|number| number.words).collect(), has_sign)
    }

    /// Returns the locations of a text. A part of a number is not a location of a text.
    fn text(&self, text: &str) -> Vec<Words> {
        let folded = fold(&composed(text));
        let wanted: Vec<&str> = folded.split(' ').filter(|token| !token.is_empty()).collect();
        let positions = wanted.first().and_then(|first| self.positions.get(*first));
        let words_at = |at: &usize| {
            let end = at + wanted.len();
            let tokens = self.tokens.get(*at..end)?;
            let is_equal = tokens.iter().zip(&wanted).all(|(token, wanted)| token.text == *wanted);
            let (first, last) = (tokens.first()?, tokens.last()?);
            let is_part = first.continues_number || self.tokens.get(end).is_some_and(|next| next.continues_number);
            (is_equal && !is_part).then_some((first.word, last.word))
        };
        positions.into_iter().flatten().filter_map(words_at).collect()
    }
}

/// Returns true if a text contains the value. A number must have its sign, and a text must have its punctuation and other signs.
/// `style`: the notation of the page. `is_range_dash` returns true for a word of the text, from 0, that is the dash of a range
/// on the page and not a sign.
pub(super) fn has_value(text: &str, value: &Value, style: Style, is_range_dash: impl Fn(usize) -> bool) -> bool {
    let index = PageIndex::with_style(text, style);
    let has_signs = match value {
        Value::String(wanted) => {
            let name = wanted.trim();
            let is_normalized = index.dates.contains_key(name) || index.currencies.contains_key(name);
            is_normalized || with_signs(text).contains(&with_signs(wanted.trim_matches(MARKS)))
        }
        Value::Number(number) => number.as_f64().is_some_and(|number| has_number(text, number, style, is_range_dash)),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    };
    has_signs && index.contains(value)
}

/// Returns a text in compatibility composition (Unicode NFKC). Raised digits and fractions are kept, because `12²` is not 122.
fn composed(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut compatible = String::with_capacity(text.len());
    for c in text.chars() {
        // A number sign is folded to a word.
        if c.is_numeric() || c == '№' { compatible.push(c) } else { compatible.extend(c.nfkd()) }
    }
    Cow::Owned(compatible.as_str().nfc().collect())
}

/// Returns a text without white space, in lower case, and with one kind of dash and of quotation mark.
fn with_signs(text: &str) -> String {
    let unified = |c: char| match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        c => c,
    };
    let chars = composed(text).chars().filter(|c| !c.is_whitespace()).map(unified).collect::<String>();
    chars.to_lowercase()
}

/// Returns true if one to three consecutive words are the number with its sign. The sign may be a separate word.
fn has_number(text: &str, wanted: f64, style: Style, is_range_dash: impl Fn(usize) -> bool) -> bool {
    let found = words_of(text);
    let words = found.as_slice();
    let is_wanted = |words: &[Word<'_>]| {
        let text = joined(words);
        // Brackets around a number are its sign.
        let is_negative = text.starts_with('(') && text.ends_with(')');
        let text = if is_negative { text.as_str() } else { text.trim_matches(MARKS) };
        let number = style.number(text).and_then(|number| number.as_f64());
        number.is_some_and(|number| (number - wanted).abs() < TOLERANCE)
    };
    let lasts = |start: usize| {
        let lasts = start..(start + NUMBER_WORDS + 1).min(words.len());
        lasts.take_while(move |last| !is_divided(words, start, *last))
    };
    let is_at = |start: usize, last: usize| {
        !is_range_dash(start) && !is_range_dash(last) && words.get(start..=last).is_some_and(is_wanted)
    };
    (0..words.len()).any(|start| lasts(start).any(|last| is_at(start, last)))
}

/// A part of a text between white space.
struct Word<'t> {
    text: &'t str,
    has_digits: bool,
    /// True if more than one blank, such as the end of a line or a column, separates the word from the word before it.
    is_apart: bool,
}

impl Word<'_> {
    /// Returns true if the word is a dash, which may be a minus.
    fn is_dash(&self) -> bool {
        matches!(self.text, "-" | "\u{2212}" | "\u{2013}")
    }
}

/// Returns true if a word is a dash between two words with digits, with one blank at each side. It may also be a subtraction,
/// whose dash is no sign either.
fn is_range_dash(words: &[Word<'_>], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| words.get(before));
    match (before, words.get(at), words.get(at + 1)) {
        (Some(before), Some(dash), Some(after)) => {
            dash.is_dash() && before.has_digits && after.has_digits && !dash.is_apart && !after.is_apart
        }
        _ => false,
    }
}

fn words_of(text: &str) -> Vec<Word<'_>> {
    let mut end = 0;
    let found = words(text).map(|(range, word)| {
        let blank = text.get(end..range.start).unwrap_or_default();
        end = range.end;
        Word {
            text: word,
            has_digits: word.bytes().any(|byte| byte.is_ascii_digit()),
            is_apart: !BLANKS.contains(&blank),
        }
    });
    found.collect()
}

/// Returns true if the words cannot be one number, because more than a single blank separates two words with digits.
fn is_divided(words: &[Word<'_>], start: usize, last: usize) -> bool {
    let group = words.get(start..=last).unwrap_or_default();
    group.iter().zip(group.iter().skip(1)).any(|(before, word)| before.has_digits && word.has_digits && word.is_apart)
}

fn joined(words: &[Word<'_>]) -> String {
    words.iter().map(|word| word.text).collect::<Vec<_>>().join(" ")
}

/// Returns the texts of one to `max` words from `start`, each with its last word, for which `may_match` returns true.
fn groups<'a>(
    words: &'a [Word<'a>],
    start: usize,
    max: usize,
    may_match: impl Fn(usize) -> bool + 'a,
) -> impl Iterator<Item = (usize, String)> + 'a {
    let lasts = (start..(start + max).min(words.len())).filter(move |last| may_match(*last));
    let text = move |last: usize| words.get(start..=last).map(joined);
    lasts.filter_map(move |last| Some((last, text(last)?.trim_matches(MARKS).to_owned())))
}
