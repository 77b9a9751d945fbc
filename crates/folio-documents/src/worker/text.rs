//! Text of a plain text file, in the child process.

use std::io;

use super::{Line, Output};
use crate::plain;

/// Returns the number of bytes at the beginning of a file that contain more than `document_chars` characters in every
/// encoding, or the whole text.
pub(super) fn needed_bytes(document_chars: usize) -> u64 {
    // A character takes at most four bytes; a byte order mark and one more character follow.
    (document_chars as u64).saturating_add(2).saturating_mul(4)
}

pub(super) fn read(input: &[u8], max_pages: u32, document_chars: usize, output: &mut Output) -> io::Result<()> {
    let plain::Pages { texts, is_cut } = plain::pages(&plain::decode(input), max_pages, document_chars);
    let count = texts.len();
    if count > max_pages as usize {
        return output.refused(format!("the file has {count} pages; at most {max_pages} are accepted"));
    }
    for (number, text) in (1..).zip(texts) {
        output.page(text, is_cut && number == count)?;
    }
    output.line(&Line::End)
}
