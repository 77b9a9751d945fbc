//! Tables in text that is not Markdown: consecutive lines whose parts form columns.

use folio_resources::Table;
use folio_storage::NewPage;

use super::lines::{Cell, cells, lines};
use super::{area_of, grid, word_number};

/// Minimum number of columns and of rows of a table.
const COLUMNS_MIN: usize = 2;
const ROWS_MIN: usize = 2;
/// Minimum number of rows of a table without positions, where columns are uncertain.
const ROWS_MIN_WITHOUT_POSITIONS: usize = 3;
/// Maximum number of columns. Lines with more parts belong to no table.
const COLUMNS_MAX: usize = 64;
/// Maximum average length of a cell in words. Text in two columns has longer parts.
const WORDS_PER_CELL: usize = 8;
/// Part of the page by which the cells of a column may overlap those of the next one.
const OVERLAP: f64 = 0.004;

/// Returns the tables of a page whose words have positions.
pub(super) fn with_positions(page: &NewPage) -> Vec<Table> {
    tables(page, |row| Columns::of(page, row), ROWS_MIN)
}

/// Returns the tables of a page without positions: lines with the same number of parts.
pub(super) fn without_positions(page: &NewPage) -> Vec<Table> {
    tables(page, |row| Some(Columns::by_order(row)), ROWS_MIN_WITHOUT_POSITIONS)
}

type Row<'t> = Vec<Cell<'t>>;

/// Collects rows while `start` and [`Columns::add`] accept them.
fn tables<'t>(page: &'t NewPage, start: impl Fn(&Row<'t>) -> Option<Columns<'t>>, rows_min: usize) -> Vec<Table> {
    let (mut tables, mut open): (Vec<Table>, Option<Columns<'t>>) = (Vec::new(), None);
    let mut close =
        |open: &mut Option<Columns<'t>>| tables.extend(open.take().and_then(|columns| columns.table(page, rows_min)));
    for line in lines(page) {
        let row = cells(&line);
        let is_row = row.len() >= COLUMNS_MIN && row.len() <= COLUMNS_MAX;
        if is_row && open.as_mut().is_some_and(|columns| columns.add(page, &row)) {
            continue;
        }
        close(&mut open);
        if is_row {
            open = start(&row);
        }
    }
    close(&mut open);
    tables
}

/// The rows of a table that is being read.
struct Columns<'t> {
    /// Left and right end of each column from left to right, in fractions of the page. Empty: the cells have no positions.
    spans: Vec<(f64, f64)>,
    rows: Vec<Row<'t>>,
}

impl<'t> Columns<'t> {
    /// None: a cell has no position, or cells overlap.
    fn of(page: &NewPage, row: &Row<'t>) -> Option<Self> {
        let spans = merged(&[], &spans(page, row)?)?;
        Some(Self { spans, rows: vec![row.clone()] })
    }

    fn by_order(row: &Row<'t>) -> Self {
        Self { spans: Vec::new(), rows: vec![row.clone()] }
    }

    /// Adds a row. False: the row does not fit into the columns.
    fn add(&mut self, page: &NewPage, row: &Row<'t>) -> bool {
        if self.spans.is_empty() {
            if self.rows.first().is_none_or(|first| first.len() != row.len()) {
                return false;
            }
        } else {
            let Some(merged) = spans(page, row).and_then(|spans| merged(&self.spans, &spans)) else { return false };
            self.spans = merged;
        }
        self.rows.push(row.clone());
        true
    }

    /// None: the rows are no table.
    fn table(self, page: &NewPage, rows_min: usize) -> Option<Table> {
        let first = self.rows.first()?.first()?.words.start;
        let end = self.rows.last()?.last()?.words.end;
        let count: usize = self.rows.iter().map(Vec::len).sum();
        let words: usize = self.rows.iter().flatten().map(|cell| cell.words.len()).sum();
        if self.rows.len() < rows_min || words > count * WORDS_PER_CELL {
            return None;
        }
        let area = area_of(page, first..end);
        let rows = self.rows.iter().map(|row| self.cells(page, row)).collect();
        let (rows, is_cut) = grid(rows);
        let (word, words) = (word_number(first), word_number(end - first));
        (!rows.is_empty()).then_some(Table { word, words, rows, area, is_cut })
    }

    /// Returns the texts of a row in the order of the columns. Columns without a cell are empty.
    fn cells(&self, page: &NewPage, row: &Row<'t>) -> Vec<String> {
        if self.spans.is_empty() {
            return row.iter().map(|cell| cell.text.to_owned()).collect();
        }
        let mut texts = vec![String::new(); self.spans.len()];
        for (cell, span) in row.iter().zip(spans(page, row).unwrap_or_default()) {
            let column = self.spans.iter().position(|column| overlaps(*column, span));
            if let Some(text) = column.and_then(|column| texts.get_mut(column)) {
                cell.text.clone_into(text);
            }
        }
        texts
    }
}

/// Returns left and right end of each cell. None: a word has no position.
fn spans(page: &NewPage, row: &[Cell<'_>]) -> Option<Vec<(f64, f64)>> {
    let span =
        |cell: &Cell<'_>| area_of(page, cell.words.clone()).map(|area| (area.fractions().left, area.fractions().right));
    row.iter().map(span).collect()
}

fn overlaps(column: (f64, f64), cell: (f64, f64)) -> bool {
    column.0 + OVERLAP < cell.1 && cell.0 + OVERLAP < column.1
}

/// Returns the columns after a row was added: a column contains at most one cell of the row, and a cell belongs to one column. None:
/// a cell spans several columns, or a column has several cells of the row.
fn merged(columns: &[(f64, f64)], row: &[(f64, f64)]) -> Option<Vec<(f64, f64)>> {
    let mut columns: Vec<(f64, f64, bool)> = columns.iter().map(|(left, right)| (*left, *right, false)).collect();
    let mut added = Vec::new();
    for cell in row {
        // A cell that is narrower than the tolerance overlaps nothing.
        let cell = (cell.0, cell.1.max(cell.0 + 3.0 * OVERLAP));
        let mut found = columns.iter_mut().filter(|(left, right, _)| overlaps((*left, *right), cell));
        match (found.next(), found.next()) {
            (None, _) => added.push((cell.0, cell.1, true)),
            (Some((left, right, is_taken)), None) if !*is_taken => {
                (*left, *right, *is_taken) = (left.min(cell.0), right.max(cell.1), true);
            }
            _ => return None,
        }
    }
    columns.extend(added);
    columns.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
    let has_overlap = columns.windows(2).any(|pair| match pair {
        [a, b] => overlaps((a.0, a.1), (b.0, b.1)),
        _ => false,
    });
    (!has_overlap && columns.len() <= COLUMNS_MAX)
        .then(|| columns.into_iter().map(|(left, right, _)| (left, right)).collect())
}

#[cfg(test)]
mod tests {
    use folio_resources::{BoundingBox, WordBoxes};

    use super::*;

    /// A page of lines of words with the left end of each word, in hundredths of the page. A space precedes each word, two a column.
    fn page(lines: &[&[(&str, u32)]]) -> NewPage {
        let (mut text, mut boxes) = (String::new(), Vec::new());
        for (number, line) in (1_u32..).zip(lines) {
            for (word, left) in *line {
                let top = f64::from(number) * 0.05;
                let left = f64::from(*left) / 100.0;
                boxes.push(BoundingBox { left, top, right: left + 0.08, bottom: top + 0.02 });
                text.push_str(word);
                text.push_str("  ");
            }
            text.push('\n');
        }
        NewPage { boxes: WordBoxes::new(1.0, 1.0, boxes), ..NewPage::of_text(1, text) }
    }

    #[test]
    fn words_in_columns_are_a_table() {
        let page = page(&[
            &[("Invoice", 10)],
            &[("Item", 10), ("Count", 40), ("Price", 70)],
            &[("Screw", 10), ("7", 44), ("1.50", 72)],
            &[("Shipping", 12), ("3.00", 71)],
            &[("Total", 50)],
        ]);
        let found = with_positions(&page);
        assert_eq!(found.len(), 1);
        let expected = [["Item", "Count", "Price"], ["Screw", "7", "1.50"], ["Shipping", "", "3.00"]];
        assert_eq!(found[0].rows, expected);
        assert_eq!((found[0].word, found[0].words), (1, 8));
        let area = found[0].area.unwrap().fractions();
        assert!((area.top - 0.1).abs() < 1e-3 && (area.right - 0.8).abs() < 1e-3, "{area:?}");
    }

    #[test]
    fn a_cell_that_spans_columns_ends_a_table() {
        let page =
            page(&[&[("a", 10), ("b", 20)], &[("c", 10), ("d", 20)], &[("x", 15), ("y", 60)], &[("e", 10), ("f", 60)]]);
        let rows: Vec<usize> = with_positions(&page).iter().map(|table| table.rows.len()).collect();
        assert_eq!(rows, [2, 2]);
    }

    #[test]
    fn text_without_positions_needs_three_equal_rows() {
        let table = |text: &str| without_positions(&NewPage::of_text(1, text)).pop().map(|table| table.rows);
        let expected = [["a", "1"], ["b b", "2"], ["c", "3"]].map(|row| row.map(str::to_owned).to_vec()).to_vec();
        assert_eq!(table("a   1\nb b\t2\n\nc  3\nend"), Some(expected));
        assert_eq!(table("a  1\nb  2\n"), None);
        let long =
            "one two three four five six seven eight nine  ten\n".repeat(2) + "a b c d e f g h i  j k l m n o p q\n";
        assert_eq!(
            table(&long),
            Some(long.lines().map(|line| line.split("  ").map(str::to_owned).collect()).collect())
        );
        assert_eq!(table(&"a b c d e f g h i  a b c d e f g h i\n".repeat(3)), None, "text in two columns");
    }
}
