//! The text of a sheet of a workbook: a Markdown table, in which the position of a word determines its cell.
//!
//! Each row of the sheet is one line, which starts with a vertical bar. A vertical bar that follows a backslash belongs to
//! a cell, and any other vertical bar of the table separates cells.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The position of a cell. Row and column count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellPosition {
    pub row: u32,
    pub column: u32,
}

impl fmt::Display for CellPosition {
    /// Writes the reference of the cell in the notation of spreadsheets, such as `B7`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut letters, mut left) = (Vec::new(), u64::from(self.column) + 1);
        while let Some(digit) = left.checked_sub(1) {
            letters.push(char::from(b'A' + u8::try_from(digit % 26).unwrap_or_default()));
            left = digit / 26;
        }
        letters.iter().rev().try_for_each(|letter| write!(f, "{letter}"))?;
        write!(f, "{}", u64::from(self.row) + 1)
    }
}

/// Returns the text of a sheet: its name as a heading, and its rows as a Markdown table. Line breaks in cells become blanks.
pub fn sheet_text(name: &str, rows: &[Vec<String>]) -> String {
    let mut text = format!("## {}\n\n", in_one_line(name));
    for (number, row) in rows.iter().enumerate() {
        text.push('|');
        for cell in row {
            text.push(' ');
            text.push_str(&in_one_line(cell).replace('|', "\\|"));
            text.push_str(" |");
        }
        text.push('\n');
        if number == 0 {
            text.push('|');
            text.push_str(&" --- |".repeat(row.len()));
            text.push('\n');
        }
    }
    text
}

fn in_one_line(text: &str) -> String {
    text.trim().chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect()
}

/// Returns the cell of the word that follows `before`, the start of the text of a sheet. `first`: the position of the first
/// cell of the table. None: the word is not in the table.
pub fn cell_at(before: &str, first: CellPosition) -> Option<CellPosition> {
    let (number, line) = before.split('\n').skip_while(|line| !line.starts_with('|')).enumerate().last()?;
    let row = match number {
        0 => 0,
        // The line below the first row contains dashes.
        1 => return None,
        number => number - 1,
    };
    let bars = line.starts_with('|').then(|| separators(line))?;
    let (row, column) = (u32::try_from(row).ok()?, u32::try_from(bars.checked_sub(1)?).ok()?);
    Some(CellPosition { row: first.row.checked_add(row)?, column: first.column.checked_add(column)? })
}

/// Returns the number of vertical bars between cells.
fn separators(line: &str) -> usize {
    let mut previous = ' ';
    let is_separator = |c: &char| std::mem::replace(&mut previous, *c) != '\\' && *c == '|';
    line.chars().filter(is_separator).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::words;

    #[test]
    fn a_cell_is_written_as_in_a_spreadsheet() {
        for (row, column, expected) in [
            (0, 0, "A1"),
            (6, 1, "B7"),
            (0, 25, "Z1"),
            (0, 26, "AA1"),
            (0, 51, "AZ1"),
            (0, 52, "BA1"),
            (0, 701, "ZZ1"),
            (0, 702, "AAA1"),
            (1_048_575, 16_383, "XFD1048576"),
            (u32::MAX, 0, "A4294967296"),
        ] {
            assert_eq!(CellPosition { row, column }.to_string(), expected);
        }
    }

    #[test]
    fn the_text_of_a_sheet_is_a_heading_and_a_table() {
        let rows = [vec!["Number".to_owned(), "Total\r\n(net)".to_owned()], vec!["a|b".to_owned(), String::new()]];
        let text = sheet_text("In\u{2028}voices", &rows);
        assert_eq!(text, "## In voices\n\n| Number | Total  (net) |\n| --- | --- |\n| a\\|b |  |\n");
        assert_eq!(sheet_text("Empty", &[]), "## Empty\n\n");
    }

    #[test]
    fn words_outside_the_table_have_no_cell() {
        let first = CellPosition { row: 4, column: 2 };
        let text = "## A | B\n\n| Number | Total |\n| --- | --- |\n| A-1 | 95\n[… cut here: 4 more characters]";
        let cell = |word: &str| cell_at(&text[..text.find(word).unwrap()], first).map(|cell| cell.to_string());
        for (word, expected) in
            [("A |", None), ("Total", Some("D5")), ("---", None), ("A-1", Some("C6")), ("95", Some("D6")), ("4", None)]
        {
            assert_eq!(cell(word).as_deref(), expected, "{word}");
        }
        assert_eq!(cell_at("Total: 5", first), None);
        let last = CellPosition { row: u32::MAX, column: u32::MAX };
        assert_eq!(cell_at(&text[..text.find("A-1").unwrap()], last), None, "a position beyond the maximum");
    }

    proptest! {
        #[test]
        fn each_word_of_a_table_has_its_cell(
            rows in (1..5_usize).prop_flat_map(|width| prop::collection::vec(prop::collection::vec("[a-c|\\\\ \n\u{2028}-]{0,6}", width), 1..6)),
            name in "[a-c| ]{0,5}",
            row in 0..100_u32,
            column in 0..100_u32,
        ) {
            let text = sheet_text(&name, &rows);
            let mut found = vec![vec![Vec::new(); rows[0].len()]; rows.len()];
            for (range, word) in words(&text).filter(|(_, word)| *word != "|") {
                if let Some(cell) = cell_at(&text[..range.start], CellPosition { row, column }) {
                    found[(cell.row - row) as usize][(cell.column - column) as usize].push(word.replace("\\|", "|"));
                }
            }
            let cell = |cell: &String| cell.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let expected: Vec<Vec<_>> = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
            prop_assert_eq!(found, expected, "{}", text);
        }
    }
}
