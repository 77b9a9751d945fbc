//! Text of an HTML file. It runs in the child process, because the parser recurses as deeply as the file nests.

use std::io;
use std::panic::catch_unwind;

use super::{Line, Output};
use crate::plain;

/// Maximum number of characters of a line, unless the page specifies otherwise.
const LINE_CHARS: usize = 120;

pub(super) fn read(input: &[u8], max_pages: u32, document_chars: usize, output: &mut Output) -> io::Result<()> {
    let text = plain::decode(input);
    let rendered = catch_unwind(|| {
        html2text::config::plain_no_decorate()
            .no_table_borders()
            .allow_width_overflow()
            .no_link_wrapping()
            .string_from_read(text.as_bytes(), LINE_CHARS)
    });
    let Ok(Ok(rendered)) = rendered else {
        return output.refused("the HTML cannot be rendered as text");
    };
    for page in plain::pages(&rendered, max_pages, document_chars) {
        output.page(page)?;
    }
    output.line(&Line::End)
}
