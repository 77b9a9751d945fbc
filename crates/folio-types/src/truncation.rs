//! Truncation of texts.

/// Truncates a text of more than `bytes` bytes at a character boundary, and appends `note`. The result has at most `bytes` bytes,
/// unless the note alone is longer.
pub fn truncate_bytes(text: &mut String, bytes: usize, note: &str) {
    if text.len() > bytes {
        text.truncate(text.floor_char_boundary(bytes.saturating_sub(note.len())));
        text.push_str(note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truncated(text: &str, bytes: usize) -> String {
        let mut text = text.to_owned();
        truncate_bytes(&mut text, bytes, "…");
        text
    }

    #[test]
    fn a_long_text_ends_at_a_character_with_the_note() {
        assert_eq!(truncated("abcdef", 6), "abcdef");
        assert_eq!(truncated("abcdefg", 6), "abc…");
        assert_eq!(truncated("aäöü", 6), "aä…");
        assert_eq!(truncated("abcdefg", 1), "…");
    }
}
