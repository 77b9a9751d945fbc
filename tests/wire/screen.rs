//! A small terminal emulator: renders the output of a program as the text that a user sees, without styles.
//!
//! It knows the control sequences that the line editor, the progress bars and the previews of the chat use: relative
//! movements of the cursor and deletions. Lines that scroll out of the window are kept.

/// The distance of two tab stops.
const TAB_COLUMNS: usize = 8;

/// The lines so far and the cursor.
struct Screen {
    columns: usize,
    lines: Vec<Vec<char>>,
    row: usize,
    /// Equal to the number of columns after the last column was written: the next character starts a new line.
    column: usize,
}

/// Returns the lines that the output shows on a terminal of this width, without spaces at their ends.
pub(crate) fn render(output: &str, columns: usize) -> String {
    let mut screen = Screen { columns, lines: vec![Vec::new()], row: 0, column: 0 };
    screen.feed(output);
    let lines = screen.lines.iter().map(|line| line.iter().collect::<String>().trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

impl Screen {
    fn feed(&mut self, output: &str) {
        let mut chars = output.chars();
        while let Some(c) = chars.next() {
            match c {
                '\u{1b}' => match chars.next() {
                    Some('[') => self.control(&mut chars),
                    // A title ends with a bell, or with an escape and a backslash.
                    Some(']') => drop(chars.find(|c| matches!(c, '\u{7}' | '\\'))),
                    _ => {}
                },
                '\r' => self.column = 0,
                '\n' => self.move_down(1),
                '\u{8}' => self.column = self.column.saturating_sub(1),
                '\t' => self.column = ((self.column / TAB_COLUMNS + 1) * TAB_COLUMNS).min(self.columns - 1),
                c if c.is_control() => {}
                c => self.put(c),
            }
        }
    }

    /// Executes a control sequence after its introducer. A missing parameter is 1 for movements and 0 for deletions.
    fn control(&mut self, chars: &mut std::str::Chars<'_>) {
        let mut parameters = String::new();
        let Some(command) = chars.find(|c| {
            let is_final = matches!(c, '@'..='~');
            if !is_final {
                parameters.push(*c);
            }
            is_final
        }) else {
            return;
        };
        let number = parameters.split(';').next().and_then(|text| text.parse::<usize>().ok());
        let count = number.unwrap_or(1).max(1);
        match command {
            'A' => self.row = self.row.saturating_sub(count),
            'B' => self.move_down(count),
            'C' => self.column = (self.column + count).min(self.columns - 1),
            'D' => self.column = self.column.saturating_sub(count),
            'G' => self.column = (count - 1).min(self.columns - 1),
            'J' if number.unwrap_or(0) == 0 => {
                self.lines.truncate(self.row + 1);
                self.lines[self.row].truncate(self.column);
            }
            'K' => match number.unwrap_or(0) {
                0 => self.lines[self.row].truncate(self.column),
                2 => self.lines[self.row].clear(),
                _ => {}
            },
            // Styles and modes.
            _ => {}
        }
    }

    fn move_down(&mut self, rows: usize) {
        self.row += rows;
        if self.lines.len() <= self.row {
            self.lines.resize(self.row + 1, Vec::new());
        }
    }

    fn put(&mut self, c: char) {
        if self.column == self.columns {
            self.column = 0;
            self.move_down(1);
        }
        let line = &mut self.lines[self.row];
        if line.len() <= self.column {
            line.resize(self.column + 1, ' ');
        }
        line[self.column] = c;
        self.column += 1;
    }
}

#[test]
fn the_emulator_shows_what_a_terminal_shows() {
    for (output, shown) in [
        ("one\r\ntwo  \r\n", "one\ntwo"),
        ("\u{1b}[1;32mgreen\u{1b}[0m", "green"),
        ("you> helo\u{8}lo", "you> hello"),
        ("waiting\r\u{1b}[2Kdone", "done"),
        ("a\r\nb\r\n\u{1b}[2A\u{1b}[Jc", "c"),
        ("abc\u{1b}[2Dx\u{1b}[K", "ax"),
        ("a\u{1b}[3Cb\u{1b}[2Gc", "ac  b"),
        ("12345678901x", "1234567890\n1x"),
        ("1234567890\r\nx", "1234567890\nx"),
        ("\u{1b}]0;title\u{7}\u{1b}[?2004htext\u{1b}[?25l\tx", "text    x"),
    ] {
        assert_eq!(render(output, 10), shown, "{output:?}");
    }
}
