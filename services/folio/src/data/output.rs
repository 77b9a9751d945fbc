//! Rendering of data for people and programs.

use serde_json::Value;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::terminal::printable;

/// Maximum width of a cell of a table, in terminal columns. Ids are never truncated.
const CELL_WIDTH: usize = 48;
/// The text between two columns of a table.
const GAP: &str = "  ";

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns for people.
    Table,
    /// One JSON document.
    Json,
    /// One JSON object in each line.
    Jsonl,
    /// CSV with a header.
    Csv,
}

/// The data of a command.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct View {
    /// The members that tables and CSV show, in order.
    columns: Vec<String>,
    /// JSON objects.
    rows: Vec<Value>,
    /// Minimum widths of the first columns of a table, in terminal columns.
    min_widths: &'static [usize],
    shape: Shape,
    /// The text that the table format shows. None: the rows.
    text: Option<String>,
    /// The note for people about a list without rows.
    empty: &'static str,
    /// The failure of a part of the command, which fails after its output. None: everything succeeded.
    pub(super) failure: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    List,
    /// Exactly one row.
    One,
}

impl View {
    /// A list of objects. JSON shows all of their members, tables and CSV show the columns.
    pub(crate) fn list<S: Into<String>>(columns: impl IntoIterator<Item = S>, rows: Vec<Value>) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        Self {
            columns,
            rows,
            min_widths: &[],
            shape: Shape::List,
            text: None,
            empty: "the list is empty",
            failure: None,
        }
    }

    /// An object with all of its members.
    pub(crate) fn one(row: Value) -> Self {
        let columns = row.as_object().map(|row| row.keys().cloned().collect()).unwrap_or_default();
        Self { columns, rows: vec![row], min_widths: &[], shape: Shape::One, text: None, empty: "", failure: None }
    }

    /// A list whose columns have minimum widths.
    pub(crate) fn min_widths(self, min_widths: &'static [usize]) -> Self {
        Self { min_widths, ..self }
    }

    /// Data that people read as a text.
    pub(crate) fn text(self, text: String) -> Self {
        Self { text: Some(text), ..self }
    }

    /// A list that tables show as another list. An empty list has its own columns and its note.
    pub(crate) fn table_of(self, table: Self) -> Self {
        match self.rows.is_empty() {
            true => self,
            false => self.text(table.render(Format::Table)),
        }
    }

    /// A list with its own note for people if it has no rows.
    pub(crate) fn empty(self, empty: &'static str) -> Self {
        Self { empty, ..self }
    }

    /// Returns the note for people about a list without rows. None: the list has rows, or a program reads the output.
    pub(super) fn empty_note(&self, format: Format) -> Option<&'static str> {
        let is_table = format == Format::Table && self.shape == Shape::List && self.text.is_none();
        (is_table && self.rows.is_empty()).then_some(self.empty)
    }

    /// The output of a command that failed in part.
    pub(crate) fn failing(self, failure: String) -> Self {
        Self { failure: Some(failure), ..self }
    }

    /// Returns the output. It ends with a line end unless it is empty.
    pub(crate) fn render(&self, format: Format) -> String {
        match (format, self.shape) {
            (Format::Table, shape) => match (&self.text, shape) {
                (Some(text), _) => with_line_end(printable(text)),
                (None, Shape::List) => self.table(),
                (None, Shape::One) => self.properties(),
            },
            (Format::Json, Shape::One) => self.rows.iter().map(|row| format!("{row:#}\n")).collect(),
            (Format::Json, Shape::List) => format!("{:#}\n", Value::from(self.rows.clone())),
            (Format::Jsonl, _) => self.rows.iter().map(|row| format!("{row}\n")).collect(),
            (Format::Csv, _) => self.csv(),
        }
    }

    fn table(&self) -> String {
        let header: Vec<String> = self.columns.iter().map(|column| column.to_uppercase()).collect();
        let rows = self.rows.iter().map(|row| self.columns.iter().map(|column| cell(column, row)).collect::<Vec<_>>());
        let lines: Vec<Vec<String>> = std::iter::once(header).chain(rows).collect();
        aligned(&lines, self.min_widths)
    }

    /// Renders one member per line, without empty ones. The lines of a long text follow its name.
    fn properties(&self) -> String {
        let mut lines = Vec::new();
        for (column, row) in self.rows.iter().flat_map(|row| self.columns.iter().map(move |column| (column, row))) {
            let text = printable(&readable(column, row));
            if text.is_empty() || text == "{}" {
                continue;
            }
            if text.contains('\n') {
                lines.push(vec![column.clone()]);
                lines.extend(text.lines().map(|line| vec![line.to_owned()]));
            } else {
                lines.push(vec![column.clone(), text]);
            }
        }
        aligned(&lines, self.min_widths)
    }

    fn csv(&self) -> String {
        let header = self.columns.iter().map(|column| csv_field(column)).collect::<Vec<_>>();
        let rows = self
            .rows
            .iter()
            .map(|row| self.columns.iter().map(|column| csv_field(&plain(row.get(column)))).collect::<Vec<_>>());
        std::iter::once(header).chain(rows).map(|fields| fields.join(",") + "\n").collect()
    }
}

fn with_line_end(text: String) -> String {
    if text.is_empty() || text.ends_with('\n') { text } else { text + "\n" }
}

/// Returns a value as text: texts unchanged, lists of simple values separated by commas, others as JSON.
fn plain(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) if items.iter().all(|item| !item.is_array() && !item.is_object()) => {
            items.iter().map(|item| plain(Some(item))).collect::<Vec<_>>().join(",")
        }
        Some(other) => other.to_string(),
    }
}

/// Returns a value as people read it: a time without fractions of a second.
fn readable(column: &str, row: &Value) -> String {
    let text = plain(row.get(column));
    match text.split_once('.') {
        Some((seconds, fraction)) if column.ends_with("_time") && fraction.ends_with('Z') => format!("{seconds}Z"),
        _ => text,
    }
}

/// Returns the cell of a table: one line without control characters, truncated unless it is an id.
fn cell(column: &str, row: &Value) -> String {
    let text = printable(&readable(column, row)).replace(['\n', '\t'], " ");
    if column.ends_with("id") || text.width() <= CELL_WIDTH {
        return text;
    }
    let mut width = 0;
    let kept = text.chars().take_while(|letter| {
        width += letter.width().unwrap_or(0);
        width < CELL_WIDTH
    });
    kept.chain(['…']).collect()
}

/// Aligns columns on the left. The last cell of a line has no width.
fn aligned(lines: &[Vec<String>], min_widths: &[usize]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = lines.iter().filter(|line| column + 1 < line.len()).filter_map(|line| line.get(column));
        cells.map(|cell| cell.width()).chain(min_widths.get(column).copied()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let mut padded = String::new();
        for (at, (cell, width)) in line.iter().zip(&widths).enumerate() {
            padded += cell;
            if at + 1 < line.len() {
                padded += &" ".repeat(width.saturating_sub(cell.width()));
                padded += GAP;
            }
        }
        text += padded.trim_end();
        text.push('\n');
    }
    text
}

/// Quotes a field of CSV where RFC 4180 requires it.
fn csv_field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tags() -> View {
        let rows = vec![
            json!({"tag_id": "tag_1", "name": "a, \"b\"", "color": null, "documents": 3}),
            json!({"tag_id": "tag_22", "name": "世界", "color": "#ff0000", "documents": [1, 2]}),
        ];
        View::list(["tag_id", "name", "color"], rows)
    }

    #[test]
    fn a_table_aligns_its_columns_by_their_width_on_a_terminal() {
        let table = tags().render(Format::Table);
        assert_eq!(
            table,
            "TAG_ID  NAME    COLOR\n\
             tag_1   a, \"b\"\n\
             tag_22  世界    #ff0000\n"
        );
        assert_eq!(View::list(["tag_id"], Vec::new()).render(Format::Table), "TAG_ID\n");
    }

    #[test]
    fn json_has_all_members() {
        let view = tags();
        let parsed: Value = serde_json::from_str(&view.render(Format::Json)).unwrap();
        assert_eq!(parsed, Value::from(view.rows.clone()));
        let lines = view.render(Format::Jsonl);
        let parsed: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(parsed, view.rows);
        let one = View::one(json!({"a": 1}));
        assert_eq!(one.render(Format::Json), "{\n  \"a\": 1\n}\n");
        assert_eq!(one.render(Format::Jsonl), "{\"a\":1}\n");
        assert_eq!(View::list(["a"], Vec::new()).render(Format::Json), "[]\n");
        assert_eq!(View::list(["a"], Vec::new()).render(Format::Jsonl), "");
    }

    #[test]
    fn an_empty_table_has_a_note_for_people() {
        let none = View::list(["a"], Vec::new());
        assert_eq!(none.empty_note(Format::Table), Some("the list is empty"));
        assert_eq!(none.clone().empty("no passage matches").empty_note(Format::Table), Some("no passage matches"));
        for (view, format) in [(none, Format::Json), (tags(), Format::Table), (View::one(json!({})), Format::Table)] {
            assert_eq!(view.empty_note(format), None);
        }
    }

    #[test]
    fn csv_quotes_what_would_end_a_field() {
        assert_eq!(tags().render(Format::Csv), "tag_id,name,color\ntag_1,\"a, \"\"b\"\"\",\ntag_22,世界,#ff0000\n");
        let lines = View::list(["a", "b"], vec![json!({"a": "1\n2", "b": [1, "x"]})]);
        assert_eq!(lines.render(Format::Csv), "a,b\n\"1\n2\",\"1,x\"\n");
    }

    #[test]
    fn one_object_is_shown_by_member_and_a_long_text_below_its_name() {
        let one = View::one(json!({"id": "x", "content": "first\nsecond", "nested": {"a": [1]}, "none": null}));
        assert_eq!(one.render(Format::Table), "id      x\ncontent\nfirst\nsecond\nnested  {\"a\":[1]}\n");
        let empty = json!({"id": "x", "tag_ids": [], "metadata": {}, "description": "", "count": 0, "agent": false});
        assert_eq!(View::one(empty).render(Format::Table), "id     x\ncount  0\nagent  false\n");
        assert_eq!(one.render(Format::Csv), "id,content,nested,none\nx,\"first\nsecond\",\"{\"\"a\"\":[1]}\",\n");
    }

    #[test]
    fn a_time_is_shown_to_people_without_its_fraction() {
        let row = json!({"create_time": "2026-05-04T09:30:00.094546337Z", "name": "1.5Z"});
        let one = View::one(row.clone());
        assert_eq!(one.render(Format::Table), "create_time  2026-05-04T09:30:00Z\nname         1.5Z\n");
        assert_eq!(one.render(Format::Jsonl), format!("{row}\n"));
        assert_eq!(cell("create_time", &row), "2026-05-04T09:30:00Z");
    }

    #[test]
    fn a_text_is_printed_for_people_and_its_rows_for_programs() {
        let pages =
            View::list(["number", "text"], vec![json!({"number": 1, "text": "a"})]).text("a\u{1b}[2J".to_owned());
        assert_eq!(pages.render(Format::Table), "a\u{fffd}[2J\n");
        assert_eq!(pages.render(Format::Jsonl), "{\"number\":1,\"text\":\"a\"}\n");
        let one = View::one(json!({"number": 1})).text("b".to_owned());
        assert_eq!(
            (one.render(Format::Table), one.render(Format::Json)),
            ("b\n".into(), "{\n  \"number\": 1\n}\n".into())
        );
    }

    #[test]
    fn a_long_cell_is_truncated_and_an_id_is_not() {
        let long = "x".repeat(100);
        let table = View::list(["name", "id"], vec![json!({"name": long, "id": long})]).render(Format::Table);
        let line = table.lines().nth(1).unwrap();
        assert_eq!(line, format!("{}…{GAP}{long}", "x".repeat(CELL_WIDTH - 1)));
        let wide = cell("name", &json!({"name": "世".repeat(50)}));
        assert!(wide.width() <= CELL_WIDTH && wide.ends_with('…'), "{wide}");
        assert_eq!(cell("name", &json!({"name": "a\n\u{1b}b"})), "a \u{fffd}b");
    }
}
