//! Normalization of stored text: no control characters, no redundant blanks, bounded length, with a mark where text was
//! cut.

use folio_storage::value::TextGap;

/// Removes control characters except line feed and tab, converts line ends to line feeds, and removes blanks at line
/// ends and repeated empty lines. Idempotent.
pub(crate) fn normalize(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(1 << 20));
    let mut blanks = String::new();
    let mut line_ends = 0_u32;
    let mut previous = '\0';
    for c in text.chars() {
        let was = std::mem::replace(&mut previous, c);
        match c {
            '\n' if was == '\r' => {}
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => {
                blanks.clear();
                line_ends += 1;
            }
            '\t' | ' ' => blanks.push(c),
            '\u{a0}' => blanks.push(' '),
            c if is_dropped(c) => {}
            c => {
                if !out.is_empty() {
                    out.extend(std::iter::repeat_n('\n', line_ends.min(2) as usize));
                }
                line_ends = 0;
                out.push_str(&blanks);
                blanks.clear();
                out.push(c);
            }
        }
    }
    out
}

/// Returns true for characters that [`normalize`] removes wherever they are: control characters except white space, the byte
/// order mark and the soft hyphen.
pub(crate) fn is_dropped(character: char) -> bool {
    matches!(character, '\u{feff}' | '\u{ad}') || (character.is_control() && !character.is_whitespace())
}

/// A text within its bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bounded {
    pub(crate) text: String,
    /// Number of words of the original text at its beginning.
    pub(crate) words: usize,
    /// None: the text is complete.
    pub(crate) gap: Option<TextGap>,
}

/// Cuts a text to `max` characters and appends a mark with the number of missing characters.
pub(crate) fn cut(text: String, max: usize) -> Bounded {
    let Some((end, _)) = text.char_indices().nth(max) else {
        return Bounded { words: words(&text), text, gap: None };
    };
    let (kept, rest) = text.split_at(end);
    let text = format!("{kept}\n[… cut here: {} more characters of this page were dropped]", rest.chars().count());
    Bounded { words: words(kept), text, gap: Some(TextGap::Cut) }
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// Cuts the pages to the limits of a page and of a document.
pub(crate) fn bound(pages: impl IntoIterator<Item = String>, page_chars: usize, document_chars: usize) -> Vec<Bounded> {
    let mut chars_left = document_chars;
    let mut bounded = Vec::new();
    for page in pages {
        let length = page.chars().count();
        let page = if chars_left == 0 && length > 0 {
            let text = format!("[… dropped: the document has more than {document_chars} characters]");
            Bounded { text, words: 0, gap: Some(TextGap::Missing) }
        } else {
            cut(page, page_chars.min(chars_left))
        };
        chars_left = chars_left.saturating_sub(length.min(page_chars));
        bounded.push(page);
    }
    bounded
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn blanks_and_control_characters_are_removed() {
        assert_eq!(normalize("\u{feff}a \r\nb\0\u{1b}[2J\tc\u{a0}d\n\n\n\n e  \n"), "a\nb[2J\tc d\n\n e");
        assert_eq!(normalize("  \n \n"), "");
    }

    #[test]
    fn cut_text_ends_with_a_mark() {
        assert_eq!(cut("a c".into(), 3), Bounded { text: "a c".to_owned(), words: 2, gap: None });
        let text = "äb\n[… cut here: 4 more characters of this page were dropped]".to_owned();
        assert_eq!(cut("äbcd e".into(), 2), Bounded { text, words: 1, gap: Some(TextGap::Cut) });
        let pages = bound(["aaaa".to_owned(), "bbbb".into(), "cccc".into(), String::new()], 10, 6);
        assert_eq!(pages[0].text, "aaaa");
        assert!(pages[1].text.starts_with("bb\n[… cut here: 2 more"), "{pages:?}");
        assert_eq!(pages[2].text, "[… dropped: the document has more than 6 characters]");
        assert_eq!(pages[3].text, "");
        assert_eq!(pages.iter().map(|page| page.words).collect::<Vec<_>>(), [1, 1, 0, 0]);
        let gaps: Vec<_> = pages.iter().map(|page| page.gap).collect();
        assert_eq!(gaps, [None, Some(TextGap::Cut), Some(TextGap::Missing), None]);
    }

    proptest! {
        #[test]
        fn normal_text_is_unchanged(text in ".{0,300}") {
            let once = normalize(&text);
            prop_assert!(!once.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
            prop_assert_eq!(normalize(&once), once);
        }
    }
}
