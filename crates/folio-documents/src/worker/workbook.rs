//! Positions of cells in a workbook, in the child process. The reader of office documents returns the rows of a sheet without
//! their positions, so calamine, on which that reader is based, reads the workbook a second time.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use calamine::{DataRef, Reader as _, Sheets, open_workbook_auto_from_rs};
use folio_resources::CellPosition;

/// Returns true for the media types of workbooks.
pub(super) fn is_workbook(media_type: &str) -> bool {
    media_type.contains("spreadsheet") || media_type.contains("ms-excel")
}

/// A workbook in memory.
pub(super) struct Workbook(Sheets<Cursor<Arc<[u8]>>>);

impl Workbook {
    /// Opens a workbook of any format. None: the workbook cannot be read a second time. Calamine clones the file for each format
    /// that it tries.
    pub(super) fn open(file: Arc<[u8]>) -> Option<Self> {
        let opened = catch_unwind(AssertUnwindSafe(|| open_workbook_auto_from_rs(Cursor::new(file))));
        Some(Self(opened.ok()?.ok()?))
    }

    /// Returns the position of the first cell of `rows`, the cells that the other reader returned for a sheet. None: the used
    /// range of the sheet has another size, because the other reader left out empty rows and columns of a sparse sheet.
    pub(super) fn first_cell(&mut self, sheet: &str, rows: &[Vec<String>]) -> Option<CellPosition> {
        let used = catch_unwind(AssertUnwindSafe(|| self.used_range(sheet))).ok()??;
        let size = |first: u32, last: u32| usize::try_from(last.checked_sub(first)?).ok()?.checked_add(1);
        let columns = rows.first().map_or(0, Vec::len);
        let is_same = size(used.first.row, used.last.row) == Some(rows.len())
            && size(used.first.column, used.last.column) == Some(columns);
        is_same.then_some(used.first)
    }

    fn used_range(&mut self, sheet: &str) -> Option<UsedRange> {
        // The cells are read one by one, because the range of a sparse sheet may need more memory than the process has.
        if let Sheets::Xlsx(workbook) = &mut self.0 {
            let mut cells = workbook.worksheet_cells_reader(sheet).ok()?;
            let mut used: Option<UsedRange> = None;
            while let Some(cell) = cells.next_cell().ok()? {
                if !matches!(cell.get_value(), DataRef::Empty) {
                    let at = position(cell.get_position());
                    used = Some(used.map_or(UsedRange { first: at, last: at }, |used| used.with(at)));
                }
            }
            return used;
        }
        let range = self.0.worksheet_range(sheet).ok()?;
        Some(UsedRange { first: position(range.start()?), last: position(range.end()?) })
    }
}

fn position((row, column): (u32, u32)) -> CellPosition {
    CellPosition { row, column }
}

/// The smallest range that contains all cells with a value.
struct UsedRange {
    first: CellPosition,
    last: CellPosition,
}

impl UsedRange {
    fn with(self, CellPosition { row, column }: CellPosition) -> Self {
        let Self { first, last } = self;
        Self {
            first: CellPosition { row: first.row.min(row), column: first.column.min(column) },
            last: CellPosition { row: last.row.max(row), column: last.column.max(column) },
        }
    }
}
