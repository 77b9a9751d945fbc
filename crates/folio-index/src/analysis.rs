//! Words of texts and searches.
//!
//! Words are those of UAX #29, so that a script without spaces is split, too. Upper case, compatibility forms and the
//! diacritics of European scripts do not distinguish words. A text is indexed under each word and its stem in the
//! language of the text; a search looks for each word and its stems in the languages of the index. Stop words of the
//! language of a search, such as `the`, are no words of the search. No character of a search is an operator.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::sync::LazyLock;

use frostem::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization as _;
use unicode_segmentation::UnicodeSegmentation as _;

/// Maximum length of a word, in characters. The first characters represent a longer word.
const WORD_CHARS: usize = 64;
/// Maximum different words of a search. Further words are ignored.
// proto: SearchRequest.query "more than {} different words"
const WORDS_MAX: usize = 128;
/// Minimum different stop words of a language in a search in that language.
const STOP_WORDS_MIN: usize = 2;

/// The stop words of each language that has a stemmer.
static STOP_WORDS: LazyLock<Vec<HashSet<&'static str>>> = LazyLock::new(|| {
    let languages = stop_words::available_languages().iter().filter(|language| stemmer(language).is_some());
    languages.filter_map(stop_words::lookup).map(|words| words.iter().copied().collect()).collect()
});

/// Returns the stemming algorithm for a language code. Of a code with a region only the language counts.
fn stemmer(language: &str) -> Option<Stemmer> {
    let algorithm = match language.split('-').next().unwrap_or_default() {
        "ar" => Algorithm::Arabic,
        "da" => Algorithm::Danish,
        "nl" => Algorithm::Dutch,
        "en" => Algorithm::English,
        "fi" => Algorithm::Finnish,
        "fr" => Algorithm::French,
        "de" => Algorithm::German,
        "el" => Algorithm::Greek,
        "hu" => Algorithm::Hungarian,
        "it" => Algorithm::Italian,
        "no" | "nb" | "nn" => Algorithm::Norwegian,
        "pl" => Algorithm::Polish,
        "pt" => Algorithm::Portuguese,
        "ro" => Algorithm::Romanian,
        "ru" => Algorithm::Russian,
        "es" => Algorithm::Spanish,
        "sv" => Algorithm::Swedish,
        "ta" => Algorithm::Tamil,
        "tr" => Algorithm::Turkish,
        _ => return None,
    };
    Some(Stemmer::new(algorithm))
}

/// Returns a word in lower case, in compatibility form.
fn lower(word: &str) -> String {
    word.nfkc().flat_map(char::to_lowercase).map(|c| if c == '\u{2019}' { '\'' } else { c }).take(WORD_CHARS).collect()
}

/// Removes the combining marks of European scripts.
fn folded(word: &str) -> String {
    if word.is_ascii() {
        return word.to_owned();
    }
    let marks = '\u{300}'..='\u{36f}';
    let plain: String = word.nfd().filter(|c| !marks.contains(c)).nfc().collect();
    plain.replace('ß', "ss")
}

/// Returns a word and its different stems, folded.
fn forms(word: &str, stemmers: &[Stemmer]) -> BTreeSet<String> {
    let lower = lower(word);
    let stems = stemmers.iter().map(|stemmer| folded(&stemmer.stem(&lower)));
    let forms = stems.filter(|stem| !stem.is_empty());
    std::iter::once(folded(&lower)).chain(forms).collect()
}

/// Returns the terms of a text in the order of its words. Equal words are repeated.
pub fn terms(text: &str, language: Option<&str>) -> Vec<String> {
    let stemmers: Vec<_> = language.and_then(stemmer).into_iter().collect();
    text.unicode_words().flat_map(|word| forms(word, &stemmers)).collect()
}

/// Returns the different words of a search, each with its forms in the languages.
pub fn search_words<'a>(text: &str, languages: impl Iterator<Item = &'a str>) -> Vec<BTreeSet<String>> {
    let stemmers: Vec<_> = languages.filter_map(stemmer).collect();
    let mut known = BTreeSet::new();
    let words = text.unicode_words().filter(|word| known.insert(lower(word))).take(WORDS_MAX);
    let words = without_stop_words(words.collect());
    words.into_iter().map(|word| forms(word, &stemmers)).collect()
}

/// Returns the words of a search without the stop words of its language, unless it has no other word: a passage that has only
/// such words in common with a question is no answer. The language is the one with most stop words in the search, at least
/// two. A word such as `war` is therefore a stop word of German searches only.
fn without_stop_words(words: Vec<&str>) -> Vec<&str> {
    let known: Vec<String> = words.iter().map(|word| lower(word)).collect();
    let Some(list) = STOP_WORDS.iter().max_by_key(|list| common(list, &known)) else { return words };
    let count = common(list, &known);
    if count < STOP_WORDS_MIN || count == words.len() {
        return words;
    }
    let content = words.into_iter().zip(&known).filter(|(_, known)| !list.contains(known.as_str()));
    content.map(|(word, _)| word).collect()
}

/// Returns the number of words that a list contains.
fn common(list: &HashSet<&str>, words: &[String]) -> usize {
    words.iter().filter(|word| list.contains(word.as_str())).count()
}

/// Returns the words of a text that match words of a search, as indexes of characters, at most `most`. `language` is
/// that of the text. Adjacent words are separate.
pub fn highlights(text: &str, search: &str, language: Option<&str>, most: usize) -> Vec<Range<u32>> {
    let stemmers: Vec<_> = language.and_then(stemmer).into_iter().collect();
    let wanted: BTreeSet<String> = search_words(search, language.into_iter()).into_iter().flatten().collect();
    let mut found = Vec::new();
    let (mut bytes, mut chars) = (0usize, 0u32);
    let count = |text: &str| u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
    for (at, word) in text.unicode_word_indices() {
        if found.len() >= most {
            break;
        }
        if forms(word, &stemmers).is_disjoint(&wanted) {
            continue;
        }
        let start = chars.saturating_add(count(text.get(bytes..at).unwrap_or_default()));
        (bytes, chars) = (at.saturating_add(word.len()), start.saturating_add(count(word)));
        found.push(start..chars);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        terms(text, None)
    }

    #[test]
    fn case_forms_and_diacritics_do_not_distinguish_words() {
        for (left, right) in
            [("Überweisung", "uberweisung"), ("STRASSE", "straße"), ("ﬁnal", "Final"), ("don’t", "don't")]
        {
            assert_eq!(words(left), words(right));
        }
        assert_eq!(words("한국"), ["한국"]);
        assert_ne!(words("कि"), words("क"), "marks of other scripts distinguish words");
    }

    #[test]
    fn scripts_without_spaces_are_split() {
        assert_eq!(words("請求書"), ["請", "求", "書"]);
        assert_eq!(words("INV-2024/001"), ["inv", "2024", "001"]);
    }

    #[test]
    fn stems_are_those_of_the_language() {
        assert_eq!(terms("invoices", Some("en")), ["invoic", "invoices"]);
        assert_eq!(terms("invoices", Some("en-gb")), terms("invoices", Some("en")));
        assert_eq!(terms("invoices", Some("xx")), ["invoices"]);
        let word = |text: &str, languages: &[&str]| search_words(text, languages.iter().copied());
        assert!(word("invoice", &["en"])[0].contains("invoic"));
        assert!(!word("Rechnungen", &["de"])[0].is_disjoint(&terms("Rechnung", Some("de")).into_iter().collect()));
    }

    #[test]
    fn operators_have_no_meaning_and_sizes_are_bounded() {
        let flat = |text: &str| search_words(text, [].into_iter()).into_iter().flatten().collect::<Vec<_>>();
        assert_eq!(flat("+foo* -\"bar\" AND title^baz~2 [a TO b]"), ["foo", "bar", "title", "baz", "2", "b"]);
        assert!(flat("*?\"~^()").is_empty());
        assert_eq!(flat("a A a").len(), 1);
        let many: String = (0..1_000).map(|at| format!("w{at} ")).collect();
        assert_eq!(flat(&many).len(), WORDS_MAX);
        assert_eq!(flat(&"a".repeat(10_000))[0].len(), WORD_CHARS);
    }

    #[test]
    fn stop_words_of_the_language_of_a_search_are_left_out() {
        let has = |text: &str, word: &str| search_words(text, [].into_iter()).iter().any(|forms| forms.contains(word));
        let question = "What does the pump do?";
        assert!(has(question, "pump") && !has(question, "the") && !has(question, "what"));
        assert!(has("Wer war in der Werkstatt?", "werkstatt") && !has("Wer war in der Werkstatt?", "war"));
        assert!(!has("Où est la clé de la pompe ?", "la"));
        // A stop word of German, in a search in English.
        assert!(has("What was the cause of the war?", "war"));
        assert!(has("die Pumpe", "die"), "one stop word states no language");
        assert!(has("to be or not to be", "be"), "a search of stop words only");
        let pump = highlights("the pump of the car", "What is the pump of it?", Some("en"), 10);
        assert_eq!((pump.first(), pump.len()), (Some(&(4..8)), 1));
    }

    #[test]
    fn matching_words_are_highlighted_by_characters() {
        let text = "Größe: die Rechnungen und die Rechnung";
        let found = highlights(text, "rechnung GROSSE", Some("de"), 10);
        let chars: Vec<char> = text.chars().collect();
        let shown: Vec<String> =
            found.iter().map(|range| chars[range.start as usize..range.end as usize].iter().collect()).collect();
        assert_eq!(shown, ["Größe", "Rechnungen", "Rechnung"]);
        assert_eq!(highlights(text, "die", None, 1).len(), 1);
        assert!(highlights("", "a", None, 10).is_empty());
    }
}
