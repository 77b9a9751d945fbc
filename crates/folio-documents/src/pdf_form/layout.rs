//! Divides text into lines of a monospaced font, and lines into runs of one font.

use unicode_width::UnicodeWidthChar as _;

/// Number of columns of a line.
pub(super) const COLUMNS: usize = 90;
/// Number of columns between two stops of a tab.
const TAB: usize = 4;

/// A font of the PDF file. Viewers replace those of Chinese and Korean, which the file does not contain, by their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Font {
    /// The standard font Courier with the characters of Windows-1252.
    Courier,
    /// The collection Adobe-GB1 with Chinese, Japanese, Greek and Cyrillic characters.
    Chinese,
    /// The collection Adobe-Korea1.
    Korean,
}

/// Characters of a line with one font and one width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    /// The column of the first character, from 0.
    pub(super) column: usize,
    pub(super) font: Font,
    /// The columns of each character: 1 or 2.
    pub(super) width: usize,
    pub(super) text: String,
}

/// Returns the lines of a text, each with at most [`COLUMNS`] columns. A long line is divided at a space where possible.
pub(super) fn lines(text: &str) -> Vec<String> {
    text.lines().flat_map(|line| wrap(&printable(line))).collect()
}

/// Replaces tabs by spaces, and removes characters without a width.
fn printable(line: &str) -> String {
    let (mut printable, mut column) = (String::with_capacity(line.len()), 0);
    for c in line.chars() {
        let width = match c {
            '\t' => TAB - column % TAB,
            c => c.width().unwrap_or(0),
        };
        match c {
            '\t' => printable.extend(std::iter::repeat_n(' ', width)),
            c if width > 0 => printable.push(c),
            _ => {}
        }
        column += width;
    }
    printable.truncate(printable.trim_end().len());
    printable
}

fn wrap(line: &str) -> Vec<String> {
    let (mut lines, mut current, mut columns) = (Vec::new(), String::new(), 0);
    for c in line.chars() {
        let width = c.width().unwrap_or(0);
        if columns + width > COLUMNS {
            let words = current.rfind(' ').filter(|at| !current.get(..*at).unwrap_or_default().trim().is_empty());
            let rest = words.map(|at| current.split_off(at + 1)).unwrap_or_default();
            columns = rest.chars().map(|c| c.width().unwrap_or(0)).sum();
            lines.push(std::mem::replace(&mut current, rest).trim_end().to_owned());
        }
        current.push(c);
        columns += width;
    }
    lines.push(current);
    lines
}

/// Divides a line into runs.
pub(super) fn runs(line: &str) -> Vec<Run> {
    let (mut runs, mut column): (Vec<Run>, usize) = (Vec::new(), 0);
    for c in line.chars() {
        let (font, width) = (font(c), c.width().unwrap_or(1));
        match runs.last_mut() {
            Some(last) if last.font == font && last.width == width => last.text.push(c),
            _ => runs.push(Run { column, font, width, text: c.to_string() }),
        }
        column += width;
    }
    runs
}

fn font(c: char) -> Font {
    match c {
        c if windows_1252(c).is_some() => Font::Courier,
        '\u{1100}'..='\u{11ff}' | '\u{3130}'..='\u{318f}' | '\u{ac00}'..='\u{d7af}' => Font::Korean,
        _ => Font::Chinese,
    }
}

/// The characters of Windows-1252 from 0x80 to 0x9f. A space: the code has no character.
const FROM_0X80: &str = "€ ‚ƒ„…†‡ˆ‰Š‹Œ Ž  ‘’“”•–—˜™š›œ žŸ";

/// Returns the code of a character in Windows-1252. None: the encoding lacks the character.
pub(super) fn windows_1252(c: char) -> Option<u8> {
    match c {
        ' '..='~' | '\u{a0}'..='ÿ' => u8::try_from(u32::from(c)).ok(),
        c => FROM_0X80.chars().zip(0x80..).find(|(known, _)| *known == c).map(|(_, code)| code),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn long_lines_are_divided_at_spaces_or_at_the_last_column() {
        let words = "word ".repeat(30);
        let divided = lines(&words);
        assert_eq!(divided.len(), 2);
        assert!(divided[0].len() <= COLUMNS && divided.iter().all(|line| line.ends_with("word")));
        let solid = "x".repeat(COLUMNS + 1);
        assert_eq!(lines(&solid), ["x".repeat(COLUMNS), "x".to_owned()]);
        let indented = format!("    {solid}");
        assert_eq!(lines(&indented).len(), 2, "spaces at the beginning are no place to divide a line");
        assert_eq!(lines("a\n\nb"), ["a", "", "b"]);
        assert_eq!(lines("a\tb\u{301}\u{0}  "), ["a   b"]);
    }

    #[test]
    fn a_line_consists_of_runs_of_one_font_and_width() {
        let run = |column, font, width, text: &str| Run { column, font, width, text: text.to_owned() };
        assert_eq!(
            runs("Ä€ Ωж漢字한a"),
            [
                run(0, Font::Courier, 1, "Ä€ "),
                run(3, Font::Chinese, 1, "Ωж"),
                run(5, Font::Chinese, 2, "漢字"),
                run(9, Font::Korean, 2, "한"),
                run(11, Font::Courier, 1, "a"),
            ]
        );
    }

    #[test]
    fn the_codes_of_windows_1252_are_those_of_the_standard() {
        for (c, code) in
            [('A', 0x41), ('€', 0x80), ('‚', 0x82), ('Ž', 0x8e), ('‘', 0x91), ('ž', 0x9e), ('Ÿ', 0x9f), ('ÿ', 0xff)]
        {
            assert_eq!(windows_1252(c), Some(code), "{c}");
        }
        assert_eq!(FROM_0X80.chars().count(), 32);
        assert_eq!(['Ω', '\u{81}', '\n', '漢'].map(windows_1252), [None; 4]);
    }

    proptest! {
        #[test]
        fn lines_lose_no_visible_character_and_fit(text in "[aäß漢 \t\n-]{0,400}") {
            let lines = lines(&text);
            let visible = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(visible(&lines.concat()), visible(&text));
            for line in lines {
                let columns: usize = runs(&line).iter().map(|run| run.width * run.text.chars().count()).sum();
                prop_assert!(columns <= COLUMNS);
            }
        }
    }
}
