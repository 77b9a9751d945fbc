//! Estimates of token counts without a tokenizer.
//!
//! [`count_tokens`] returns an upper bound for the vocabularies of byte-pair encoding in use, so that model calls exceed
//! neither context windows nor credit reservations. On English text the bound exceeds the exact count by about a quarter.
//! `fewest_tokens` returns a lower bound. Both take linear time, do not allocate, and need no vocabulary file.

/// Tokens that a message adds to those of its text, for its role and the separators.
pub const MESSAGE_OVERHEAD_TOKENS: u64 = 6;

/// A class of characters that tokenizers treat alike.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// ASCII letter.
    Letter,
    /// ASCII digit.
    Digit,
    /// Any other visible ASCII character, and ASCII control characters.
    Punctuation,
    /// ASCII white space.
    Space,
    /// CJK, Indic scripts and symbols.
    Wide,
    /// Latin letters with diacritics, Greek, Cyrillic, Hebrew, Arabic and others.
    Other,
}

fn class(c: char) -> Class {
    match c {
        'a'..='z' | 'A'..='Z' => Class::Letter,
        '0'..='9' => Class::Digit,
        c if c.is_ascii_whitespace() => Class::Space,
        c if c.is_ascii() => Class::Punctuation,
        // Alphabets with code points before the Indic scripts: about two characters per token.
        '\u{80}'..='\u{8ff}' => Class::Other,
        _ => Class::Wide,
    }
}

/// Returns the tokens of `chars` consecutive characters of one class, rounded up: one per four letters or white space
/// characters, per three digits, per two punctuation marks and per two characters of other alphabets; one and a half per
/// wide character. The last white space character before `next` counts only if `next` is a digit, because vocabularies
/// join a space with the following word, but not with a number.
fn run_tokens(class: Class, chars: u64, next: Option<Class>) -> u64 {
    match class {
        Class::Letter => chars.div_ceil(4),
        Class::Digit => chars.div_ceil(3),
        Class::Punctuation | Class::Other => chars.div_ceil(2),
        Class::Space if next == Some(Class::Digit) => chars.div_ceil(4),
        Class::Space => chars.saturating_sub(1).div_ceil(4),
        Class::Wide => chars.saturating_mul(3).div_ceil(2),
    }
}

/// Returns an upper estimate of the tokens of a text.
pub fn count_tokens(text: &str) -> u64 {
    let mut total = 0u64;
    let mut run = (Class::Space, 0u64);
    for c in text.chars() {
        let class = class(c);
        if class == run.0 {
            run.1 = run.1.saturating_add(1);
        } else {
            total = total.saturating_add(run_tokens(run.0, run.1, Some(class)));
            run = (class, 1);
        }
    }
    total.saturating_add(run_tokens(run.0, run.1, None))
}

/// Width and height of the parts into which tile-based models divide an image, in pixels, and the tokens of a part and of the
/// whole image.
const TILE: (u32, u64, u64) = (512, 170, 85);
/// Width and height of the patches of patch-based models, in pixels: one token each.
const PATCH: u32 = 28;

/// Returns an upper estimate of the tokens of an image: the higher one of the rules of tile-based models (a base, and the tokens of
/// each tile) and of patch-based models (one token for each patch). A few models count many times more; the charge is that of the
/// tokens that the endpoint reports.
pub fn image_tokens(width: u32, height: u32) -> u64 {
    let parts = |size: u32| u64::from(width.div_ceil(size)).saturating_mul(height.div_ceil(size).into());
    let (size, each, base) = TILE;
    let tiles = parts(size).saturating_mul(each).saturating_add(base);
    tiles.max(parts(PATCH))
}

/// Maximum characters of a token in [`count_tokens`]: four letters, and the space before them.
const CHARS_PER_TOKEN_MAX: usize = 5;

/// Returns the longest prefix of a text with at most `max` tokens by the upper estimate.
pub fn prefix_within_tokens(text: &str, max: u64) -> &str {
    if count_tokens(text) <= max {
        return text;
    }
    let chars = usize::try_from(max).unwrap_or(usize::MAX).saturating_add(1).saturating_mul(CHARS_PER_TOKEN_MAX);
    let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).take(chars).chain([text.len()]).collect();
    // A longer prefix never has fewer tokens.
    let fitting = ends.partition_point(|end| text.get(..*end).is_some_and(|prefix| count_tokens(prefix) <= max));
    let end = fitting.checked_sub(1).and_then(|last| ends.get(last)).copied().unwrap_or_default();
    text.get(..end).unwrap_or_default()
}

/// Returns a lower estimate of the tokens of a text: one for each sequence of letters and digits, because no vocabulary in
/// use joins words, and one for three wide characters. Punctuation and white space do not count, because a sequence of
/// them may be part of another token.
pub(crate) fn fewest_tokens(text: &str) -> u64 {
    let (mut words, mut wide, mut in_word) = (0u64, 0u64, false);
    for c in text.chars() {
        let class = class(c);
        let is_word = matches!(class, Class::Letter | Class::Digit | Class::Other);
        words = words.saturating_add(u64::from(is_word && !in_word));
        wide = wide.saturating_add(u64::from(class == Class::Wide));
        in_word = is_word;
    }
    words.saturating_add(wide / 3)
}

/// Returns an upper bound of [`fewest_tokens`] without reading the text. A sequence of letters and digits has at least one
/// byte, and another byte separates it from the next sequence. Three wide characters have at least nine bytes.
pub(crate) fn fewest_tokens_max(text: &str) -> u64 {
    u64::try_from(text.len().div_ceil(2)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exact counts are those of the vocabulary `cl100k_base`.
    #[test]
    fn the_estimate_is_not_below_a_tokenizers_count_and_not_far_above() {
        for (text, exact) in [
            ("", 0),
            ("Hello, world!", 4),
            ("The quick brown fox jumps over the lazy dog.", 10),
            ("tiktoken is great!", 6),
            ("antidisestablishmentarianism", 6),
            ("2 + 2 = 4", 7),
            ("お誕生日おめでとう", 9),
        ] {
            let counted = count_tokens(text);
            assert!(counted >= exact, "{text:?}: {counted} < {exact}");
            assert!(counted <= exact * 2 + 1, "{text:?}: {counted} against {exact}");
            assert!(fewest_tokens(text) <= exact, "{text:?}");
        }
    }

    #[test]
    fn the_lower_estimate_ignores_runs_that_may_be_one_token() {
        for (text, fewest) in [
            ("", 0),
            (" \n\t.......... ----", 0),
            ("Total: 1,234.50 EUR", 5),
            ("a b c d", 4),
            ("für Größe A4", 3),
            ("お誕生日おめでとう", 3),
        ] {
            assert_eq!(fewest_tokens(text), fewest, "{text:?}");
            assert!(fewest <= count_tokens(text), "{text:?}");
            assert!(fewest <= fewest_tokens_max(text), "{text:?}");
        }
    }

    #[test]
    fn an_image_counts_by_its_tiles_or_patches() {
        for (size, tokens) in [((1, 1), 255), ((512, 512), 361), ((513, 512), 425), ((2_048, 2_048), 5_476)] {
            assert_eq!(image_tokens(size.0, size.1), tokens, "{size:?}");
        }
        assert_eq!(image_tokens(0, 0), 85);
        assert!(image_tokens(u32::MAX, u32::MAX) > 1 << 50);
    }

    #[test]
    fn a_longer_text_never_counts_less() {
        let text = "Invoice 4711: total 1,234.50 EUR — fällig am 3. März\n\n\t{\"a\": [1, 2]} 請求書";
        let mut last = 0;
        for (end, _) in text.char_indices() {
            let counted = count_tokens(&text[..end]);
            assert!(counted >= last);
            last = counted;
        }
    }

    #[test]
    fn a_prefix_is_the_longest_within_its_tokens() {
        let text = "Invoice 4711: total 1,234.50 EUR — fällig am 3. März\n\n\t請求書 and some more words";
        for max in 0..count_tokens(text) {
            let prefix = prefix_within_tokens(text, max);
            assert!(text.starts_with(prefix) && count_tokens(prefix) <= max, "{max}: {prefix:?}");
            let next = text[prefix.len()..].chars().next().unwrap().len_utf8();
            assert!(count_tokens(&text[..prefix.len() + next]) > max, "{max}: {prefix:?} is not the longest");
        }
        assert_eq!(prefix_within_tokens(text, count_tokens(text)), text);
        assert_eq!(prefix_within_tokens("", 0), "");
        assert_eq!(prefix_within_tokens(&"wide 漢 ".repeat(100_000), 7), "wide 漢 wide 漢 wide ");
    }
}
