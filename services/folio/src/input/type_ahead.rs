//! Keys that are pressed while no prompt is shown.
//!
//! The terminal neither shows these keys nor completes lines, so that no key that is pressed during a turn answers a card
//! that the user has not seen. The keys remain in the buffer of the terminal and are read when the turn ends.

use std::io::{Read as _, stdin};

use nix::sys::termios::{LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr};

/// Maximum size of the kept text in bytes.
const TEXT_BYTES: usize = 64 * 1024;

/// The mode of the terminal before the keys were hidden.
pub(super) struct TypeAhead(Termios);

impl TypeAhead {
    /// Hides the keys. None: the mode of the terminal cannot be changed.
    pub(super) fn start() -> Option<Self> {
        let before = tcgetattr(stdin()).ok()?;
        let mut quiet = before.clone();
        // Ctrl-C still sends a signal, and keeps the keys before it.
        quiet.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
        quiet.local_flags.insert(LocalFlags::NOFLSH);
        // A read returns at once, with the keys so far.
        for index in [SpecialCharacterIndices::VMIN, SpecialCharacterIndices::VTIME] {
            *quiet.control_chars.get_mut(index as usize)? = 0;
        }
        tcsetattr(stdin(), SetArg::TCSADRAIN, &quiet).ok()?;
        Some(Self(before))
    }

    /// Adds the keys so far to a text and restores the mode.
    pub(super) fn end(self, text: &mut String) {
        let mut bytes = Vec::new();
        let mut buffer = [0; 4_096];
        // The lock is free: the line editor reads only while it shows a prompt.
        let mut stdin = stdin().lock();
        while let Ok(count @ 1..) = stdin.read(&mut buffer) {
            bytes.extend_from_slice(buffer.get(..count).unwrap_or_default());
            if bytes.len() > TEXT_BYTES {
                break;
            }
        }
        // The terminal may be closed.
        let _ = tcsetattr(&stdin, SetArg::TCSADRAIN, &self.0);
        apply(text, &String::from_utf8_lossy(&bytes));
    }
}

/// Applies keys to a text: Backspace removes a character, Enter starts a new line, and other control keys are ignored.
/// Keys beyond the maximum size are dropped.
fn apply(text: &mut String, keys: &str) {
    let mut keys = keys.chars().peekable();
    while let Some(key) = keys.next() {
        match key {
            '\u{8}' | '\u{7f}' => drop(text.pop()),
            '\r' | '\n' if text.len() < TEXT_BYTES => text.push('\n'),
            // An escape sequence ends with a letter or a tilde.
            '\u{1b}' => {
                if keys.next_if(|key| matches!(key, '[' | 'O')).is_some() {
                    while keys.next_if(|key| !key.is_ascii_alphabetic() && *key != '~').is_some() {}
                }
                let _ = keys.next();
            }
            key if key.is_control() => {}
            key if text.len() + key.len_utf8() <= TEXT_BYTES => text.push(key),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &str) -> String {
        let mut text = String::new();
        apply(&mut text, keys);
        text
    }

    #[test]
    fn keys_become_the_text_of_the_next_message() {
        assert_eq!(typed("helo\u{7f}lo\rnext"), "hello\nnext");
        assert_eq!(typed("\u{7f}a\u{4}\tb"), "ab");
        assert_eq!(typed("a\u{1b}[A\u{1b}[3~b\u{1b}OPc\u{1b}xd"), "abcd");
        assert_eq!(typed("\u{1b}"), "");
        assert_eq!(typed("\u{1b}[12"), "");
    }

    #[test]
    fn the_kept_text_is_bounded() {
        assert_eq!(typed(&"ä".repeat(TEXT_BYTES)).len(), TEXT_BYTES);
    }
}
