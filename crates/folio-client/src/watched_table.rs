//! The rows of a watched table across all its streams. No I/O.
//!
//! A stream sends the stack, and then only rows that change. Therefore the rows are listed when a stream starts, and after each change
//! of the stack, which may change the columns of the rows or remove rows.

use std::collections::{BTreeMap, BTreeSet};

use folio_proto::v1;
use v1::watch_table_response::Change;

#[derive(Debug, Default)]
pub(crate) struct WatchedTable {
    /// Version of the stack whose rows were listed.
    stack: String,
    /// Versions of the known rows by id. Empty: the row is sent again by the next list.
    rows: BTreeMap<String, String>,
    /// Ids of known rows that the list has not returned.
    unlisted: BTreeSet<String>,
    /// True if the rows were listed in the current stream.
    is_listed: bool,
}

impl WatchedTable {
    pub(crate) fn start_stream(&mut self) {
        self.is_listed = false;
    }

    /// Applies a change. Returns true if the rows must be listed after it.
    pub(crate) fn apply(&mut self, change: &Change) -> bool {
        match change {
            Change::Stack(stack) => {
                let has_changed = self.stack != stack.etag;
                if self.is_listed && !has_changed {
                    return false;
                }
                if has_changed {
                    self.rows.values_mut().for_each(String::clear);
                    self.stack.clone_from(&stack.etag);
                }
                self.is_listed = true;
                self.unlisted = self.rows.keys().cloned().collect();
                return true;
            }
            Change::Row(row) => {
                self.add(row);
            }
            Change::RemovedStackRowId(id) => {
                self.rows.remove(id);
                self.unlisted.remove(id);
            }
        }
        false
    }

    /// Applies a listed row. Returns true if the row is new or was changed.
    pub(crate) fn add(&mut self, row: &v1::StackRow) -> bool {
        self.unlisted.remove(&row.stack_row_id);
        self.rows.insert(row.stack_row_id.clone(), row.etag.clone()).as_ref() != Some(&row.etag)
    }

    /// Ends the list. Returns the ids of known rows that are no longer in the table.
    pub(crate) fn end_list(&mut self) -> BTreeSet<String> {
        let missing = std::mem::take(&mut self.unlisted);
        self.rows.retain(|id, _| !missing.contains(id));
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(etag: &str) -> Change {
        Change::Stack(v1::Stack { etag: etag.to_owned(), ..Default::default() })
    }

    fn row(id: &str, etag: &str) -> v1::StackRow {
        v1::StackRow { stack_row_id: id.to_owned(), etag: etag.to_owned(), ..Default::default() }
    }

    /// Lists rows. Returns the ids of those that are sent, and of those that are removed.
    fn listed(table: &mut WatchedTable, rows: &[v1::StackRow]) -> (Vec<String>, Vec<String>) {
        let sent = rows.iter().filter(|row| table.add(row)).map(|row| row.stack_row_id.clone()).collect();
        (sent, table.end_list().into_iter().collect())
    }

    fn ids<const N: usize>(ids: [&str; N]) -> Vec<String> {
        ids.map(str::to_owned).to_vec()
    }

    #[test]
    fn a_new_stream_lists_the_rows_and_sends_those_that_changed_meanwhile() {
        let mut table = WatchedTable::default();
        assert!(table.apply(&stack("1")));
        assert_eq!(listed(&mut table, &[row("a", "1"), row("b", "1"), row("c", "1")]), (ids(["a", "b", "c"]), ids([])));
        assert!(!table.apply(&stack("1")), "a keep-alive");
        assert!(!table.apply(&Change::Row(row("b", "2"))));
        assert!(!table.apply(&Change::RemovedStackRowId("c".to_owned())));
        table.start_stream();
        assert!(table.apply(&stack("1")));
        assert_eq!(listed(&mut table, &[row("b", "2"), row("d", "1")]), (ids(["d"]), ids(["a"])));
    }

    #[test]
    fn all_rows_are_sent_again_after_a_change_of_the_stack() {
        let mut table = WatchedTable::default();
        assert!(table.apply(&stack("1")));
        listed(&mut table, &[row("a", "1"), row("b", "1")]);
        assert!(table.apply(&stack("2")));
        assert_eq!(listed(&mut table, &[row("b", "1")]), (ids(["b"]), ids(["a"])));
    }
}
