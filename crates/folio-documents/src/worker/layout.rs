//! Converts characters with positions on a page to lines of text, in the order of the file. A move to another line
//! becomes a line end, and a wide horizontal gap becomes two blanks, so that table columns stay separate.

use std::fmt;

use pdf_extract::{MediaBox, OutputDev, OutputError, Transform};

/// Minimum vertical distance of a new line. All distances are in character sizes.
const NEW_LINE: f64 = 0.5;
/// Minimum vertical distance of an empty line.
const EMPTY_LINE: f64 = 2.2;
/// Minimum horizontal gap of a blank.
const BLANK: f64 = 0.1;
/// Minimum horizontal gap between columns.
const COLUMN: f64 = 1.0;

pub(super) struct Layout {
    text: String,
    chars_left: usize,
    full: bool,
    word_begins: bool,
    /// Horizontal end and line of the last character. None at the start.
    last_position: Option<(f64, f64)>,
}

impl Layout {
    pub(super) fn new(max_chars: usize) -> Self {
        Self { text: String::new(), chars_left: max_chars, full: false, word_begins: true, last_position: None }
    }

    /// Returns true if the page exceeded its maximum number of characters.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    fn separate(&mut self, x: f64, y: f64, size: f64) {
        let Some((end, line)) = self.last_position else { return };
        let (down, right) = ((y - line).abs(), x - end);
        if down > size * NEW_LINE {
            self.text.push_str(if down > size * EMPTY_LINE { "\n\n" } else { "\n" });
        } else if right > size * COLUMN || right < -2.0 * size {
            self.text.push_str(if self.text.ends_with(' ') { " " } else { "  " });
        } else if right > size * BLANK && !self.text.ends_with(' ') {
            self.text.push(' ');
        }
    }
}

impl OutputDev for Layout {
    fn begin_page(&mut self, _: u32, _: &MediaBox, _: Option<(f64, f64, f64, f64)>) -> Result<(), OutputError> {
        Ok(())
    }

    fn end_page(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn output_character(
        &mut self,
        transform: &Transform,
        width: f64,
        _spacing: f64,
        font_size: f64,
        character: &str,
    ) -> Result<(), OutputError> {
        let size = (transform.m11 * transform.m22 - transform.m12 * transform.m21).abs().sqrt() * font_size.abs();
        if std::mem::take(&mut self.word_begins) {
            self.separate(transform.m31, transform.m32, size);
        }
        self.last_position = Some((transform.m31 + width * size, transform.m32));
        let length = character.chars().count();
        if length > self.chars_left {
            self.full = true;
            return Err(OutputError::FormatError(fmt::Error));
        }
        self.chars_left -= length;
        self.text.push_str(character);
        Ok(())
    }

    fn begin_word(&mut self) -> Result<(), OutputError> {
        self.word_begins = true;
        Ok(())
    }

    fn end_word(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), OutputError> {
        Ok(())
    }
}
