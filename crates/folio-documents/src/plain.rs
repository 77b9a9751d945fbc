//! Text files: detection, encoding, and division into pages.

use std::borrow::Cow;

/// Characters per page of a file without form feeds, unless the file would have too many pages.
const PAGE_CHARS: usize = 4_000;

/// Characters of Windows-1252 that differ from Latin-1 (0x80 to 0x9F). None: unassigned.
const WINDOWS_1252: [Option<char>; 32] = [
    Some('€'),
    None,
    Some('‚'),
    Some('ƒ'),
    Some('„'),
    Some('…'),
    Some('†'),
    Some('‡'),
    Some('ˆ'),
    Some('‰'),
    Some('Š'),
    Some('‹'),
    Some('Œ'),
    None,
    Some('Ž'),
    None,
    None,
    Some('‘'),
    Some('’'),
    Some('“'),
    Some('”'),
    Some('•'),
    Some('–'),
    Some('—'),
    Some('˜'),
    Some('™'),
    Some('š'),
    Some('›'),
    Some('œ'),
    None,
    Some('ž'),
    Some('Ÿ'),
];

/// Returns true if a text may begin with these bytes: UTF-16 with a byte order mark, or no control characters except
/// those of text.
pub(crate) fn looks_like_text(beginning: &[u8]) -> bool {
    if beginning.starts_with(&[0xff, 0xfe]) || beginning.starts_with(&[0xfe, 0xff]) {
        return decode(beginning).chars().all(|c| c != '\u{fffd}' && is_text_char(c));
    }
    let control = |byte: &u8| matches!(byte, 0..=8 | 11 | 14..=26 | 28..=31 | 127);
    if beginning.iter().any(control) {
        return false;
    }
    match std::str::from_utf8(beginning) {
        Ok(_) => true,
        // The beginning may end within a character.
        Err(error) if error.error_len().is_none() => true,
        // Text in a single-byte encoding consists mostly of ASCII and contains no byte that Windows-1252 leaves
        // unassigned.
        Err(_) => {
            let high = beginning.iter().filter(|byte| **byte >= 0x80).count();
            high * 3 <= beginning.len() && !beginning.iter().any(|byte| unassigned(*byte))
        }
    }
}

fn is_text_char(c: char) -> bool {
    !c.is_control() || matches!(c, '\n' | '\r' | '\t' | '\u{c}' | '\u{1b}')
}

fn unassigned(byte: u8) -> bool {
    (0x80..0xa0).contains(&byte) && single_byte(byte).is_none()
}

fn single_byte(byte: u8) -> Option<char> {
    match byte {
        0x80..=0x9f => WINDOWS_1252.get(usize::from(byte - 0x80)).copied().flatten(),
        _ => Some(char::from(byte)),
    }
}

/// Decodes a text file: UTF-16 or UTF-8 by its byte order mark, otherwise UTF-8 if it is valid (except for an
/// incomplete last character), otherwise Windows-1252.
pub(crate) fn decode(bytes: &[u8]) -> Cow<'_, str> {
    match bytes {
        [0xff, 0xfe, rest @ ..] => Cow::Owned(utf16(rest, u16::from_le_bytes)),
        [0xfe, 0xff, rest @ ..] => Cow::Owned(utf16(rest, u16::from_be_bytes)),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest),
        _ => match std::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(error) if error.error_len().is_none() => String::from_utf8_lossy(bytes),
            Err(_) => Cow::Owned(bytes.iter().map(|byte| single_byte(*byte).unwrap_or('\u{fffd}')).collect()),
        },
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let (pairs, _) = bytes.as_chunks::<2>();
    char::decode_utf16(pairs.iter().map(|pair| unit(*pair))).map(|c| c.unwrap_or('\u{fffd}')).collect()
}

/// The pages of a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pages {
    pub(crate) texts: Vec<String>,
    /// True if the text was cut. The last page then ends with a mark.
    pub(crate) is_cut: bool,
}

/// Returns the pages of the first `document_chars` characters of a text, with a mark if the text was cut. Pages are
/// longer than [`PAGE_CHARS`] if there would be more than `max_pages`. Only form feeds can cause more pages.
pub(crate) fn pages(text: &str, max_pages: u32, document_chars: usize) -> Pages {
    let (kept, mark) = keep(text, document_chars);
    let mut page_chars = PAGE_CHARS;
    let mut split = paginate(kept, page_chars);
    while split.len() > max_pages as usize && page_chars < kept.len() {
        page_chars = page_chars.saturating_mul(2);
        split = paginate(kept, page_chars);
    }
    let mut texts: Vec<String> = split.into_iter().map(str::to_owned).collect();
    let is_cut = mark.is_some();
    if let (Some(mark), Some(last)) = (mark, texts.last_mut()) {
        last.push_str(&mark);
    }
    Pages { texts, is_cut }
}

/// Returns the kept part of a text and the mark after it. None: the text is short enough.
fn keep(text: &str, document_chars: usize) -> (&str, Option<String>) {
    if text.char_indices().nth(document_chars).is_none() {
        return (text, None);
    }
    let mark = format!("\n[… cut here: the document has more than {document_chars} characters]");
    let kept = document_chars.saturating_sub(mark.chars().count());
    let end = text.char_indices().nth(kept).map_or(text.len(), |(end, _)| end);
    (text.get(..end).unwrap_or(text), Some(mark))
}

/// Splits a text at form feeds, and pages longer than `page_chars` at the last line end, otherwise at the last blank.
fn paginate(text: &str, page_chars: usize) -> Vec<&str> {
    let mut pages = Vec::new();
    for mut rest in text.split('\u{c}') {
        while let Some((end, _)) = rest.char_indices().nth(page_chars) {
            let (head, tail) = rest.split_at(best_break(rest, end));
            pages.push(head);
            rest = tail;
        }
        pages.push(rest);
    }
    while pages.len() > 1 && pages.last().is_some_and(|page| page.trim().is_empty()) {
        pages.pop();
    }
    pages
}

fn best_break(text: &str, end: usize) -> usize {
    let head = text.get(..end).unwrap_or(text);
    let after = |at: Option<usize>| at.map(|at| at + 1).filter(|at| *at > end / 2);
    after(head.rfind('\n')).or_else(|| after(head.rfind(' '))).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn encodings_are_detected() {
        assert_eq!(decode("Grüße".as_bytes()), "Grüße");
        assert_eq!(decode(b"\xef\xbb\xbfGr\xc3\xbc\xc3\x9fe"), "Grüße");
        assert_eq!(decode(b"Gr\xfc\xdfe \x80 5"), "Grüße € 5");
        assert_eq!(decode(b"\xff\xfeG\0r\0\xfc\0"), "Grü");
        assert_eq!(decode(b"\xfe\xff\0G\0r\0\xfc"), "Grü");
        assert_eq!(decode("abc€".as_bytes().get(..5).unwrap()), "abc\u{fffd}");
    }

    #[test]
    fn form_feeds_and_length_make_pages() {
        assert_eq!(paginate("one\u{c}two\u{c}", PAGE_CHARS), ["one", "two"]);
        assert_eq!(paginate("", PAGE_CHARS), [""]);
        let long = "word ".repeat(3_000);
        let split = paginate(&long, PAGE_CHARS);
        assert!(split.len() >= 4 && split.iter().all(|page| page.chars().count() <= PAGE_CHARS));
        assert_eq!(split.concat(), long.as_str());
    }

    #[test]
    fn pages_are_longer_if_there_would_be_too_many() {
        let line = "4711;Lindqvist & Partners AB;957.00\n";
        let long = line.repeat(10 * 1024 * 1024 / line.len());
        let Pages { texts: all, is_cut } = pages(&long, 2_000, 8_000_000);
        assert!(is_cut);
        assert!((1_000..=2_000).contains(&all.len()), "{}", all.len());
        assert!(all.iter().all(|page| page.chars().count() <= 2 * PAGE_CHARS));
        assert!(all.last().unwrap().ends_with("[… cut here: the document has more than 8000000 characters]"));
        assert_eq!(all.iter().map(|page| page.chars().count()).sum::<usize>(), 8_000_000);
        assert_eq!(pages(&long, 1, 100_000).texts.len(), 1);
        let fed = pages("one\u{c}two\u{c}three", 2, 100);
        assert_eq!((fed.texts, fed.is_cut), (["one", "two", "three"].map(str::to_owned).to_vec(), false));
    }

    proptest! {
        #[test]
        fn pages_lose_nothing_but_form_feeds_and_an_empty_end(segments in prop::collection::vec("[aäß€ \n\u{c}]{0,12}", 0..8), times in 1..300_usize) {
            let text = segments.concat().repeat(times);
            let split = paginate(&text, PAGE_CHARS);
            let kept: String = split.concat();
            let complete: String = text.chars().filter(|c| *c != '\u{c}').collect();
            prop_assert!(complete.starts_with(&kept) && complete[kept.len()..].trim().is_empty());
            prop_assert!(split.iter().all(|page| page.chars().count() <= PAGE_CHARS));
        }

        #[test]
        fn any_bytes_decode(bytes: Vec<u8>) {
            let _ = decode(&bytes);
            let _ = looks_like_text(&bytes);
        }
    }
}
