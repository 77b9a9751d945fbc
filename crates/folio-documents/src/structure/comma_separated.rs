//! The table of a page of comma-separated values.

use csv::ReaderBuilder;
use folio_resources::Table;

use super::{grid, word_number};

/// Characters that separate the values of a row.
const SEPARATORS: [u8; 3] = *b",;\t";

/// Returns the rows of a page. None: the page has no row with several values.
pub(super) fn table(text: &str) -> Option<Table> {
    let first = text.lines().find(|line| !line.trim().is_empty())?;
    let count = |separator: u8| first.bytes().filter(|byte| *byte == separator).count();
    let separator =
        SEPARATORS.into_iter().max_by_key(|separator| count(*separator)).filter(|found| count(*found) > 0)?;
    let mut reader =
        ReaderBuilder::new().delimiter(separator).has_headers(false).flexible(true).from_reader(text.as_bytes());
    let rows = reader.records().map_while(Result::ok);
    let rows = rows.map(|row| row.iter().map(|cell| cell.trim().to_owned()).collect()).collect();
    let (rows, is_cut) = grid(rows);
    let words = word_number(text.split_whitespace().count());
    (!rows.is_empty()).then_some(Table { word: 0, words, rows, area: None, is_cut })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_separator_is_that_of_the_first_row() {
        let found = table("name;price\n\"a; b\";1,50\nlast\n").unwrap();
        assert_eq!(found.rows, [["name", "price"], ["a; b", "1,50"], ["last", ""]]);
        assert_eq!((found.word, found.words, found.is_cut), (0, 4, false));
        assert_eq!(table("one\ntwo\n"), None);
        assert_eq!(table(""), None);
    }
}
