//! Divides a record into the rows of tables. Pure.
//!
//! | part of the record | table | cells |
//! |---|---|---|
//! | the record, and the values of its data outside arrays of objects | `extractions` | one for each path |
//! | an array of objects | the path of the array without indexes, such as `data.items` | one for each path in the item |
//! | citations, confidences, reviews | `citations`, `confidences`, `reviews` | one for each member |
//!
//! Each row starts with the id of its extraction; the rows of arrays also have the indexes of the item, such as `0.2`. Other
//! arrays, and empty objects, are JSON texts. The names of members are hostile input: a column that the row already has, such
//! as a member `extraction_id` of an item, gets a suffix, such as `~2`.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::Record;

/// The name of the table with a row for each extraction.
pub(crate) const EXTRACTIONS: &str = "extractions";
/// The column with the id of the extraction, the first one of each table.
pub(crate) const ID: &str = "extraction_id";
const INDEX: &str = "index";

/// A row of a table: columns with their values, in order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) table: String,
    pub(crate) cells: Vec<(String, Value)>,
}

pub(crate) fn rows(record: &Record) -> Vec<Row> {
    let id = Value::from(record.extraction_id.clone());
    let text = |text: &str| Value::from(text);
    let cells = vec![
        (ID.to_owned(), id.clone()),
        ("document".to_owned(), text(&record.document)),
        ("document_id".to_owned(), text(&record.document_id)),
        ("prompt_revid".to_owned(), text(&record.prompt_revid)),
        ("schema_revid".to_owned(), Value::from(record.schema_revid.clone())),
        ("model".to_owned(), text(&record.model)),
        ("verified".to_owned(), Value::from(record.verified)),
        ("create_time".to_owned(), text(&record.create_time)),
        ("update_time".to_owned(), text(&record.update_time)),
        ("state".to_owned(), text(record.state)),
    ];
    let mut found = vec![Row { table: EXTRACTIONS.to_owned(), cells }];
    add("data", "data", "", &record.data, 0, &id, &mut found);
    let facts = [("citations", &record.citations), ("confidences", &record.confidences), ("reviews", &record.reviews)];
    for (table, items) in facts {
        for item in items.iter().flatten() {
            let members = item.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.clone()));
            let cells = std::iter::once((ID.to_owned(), id.clone())).chain(members).collect();
            found.push(Row { table: table.to_owned(), cells });
        }
    }
    found.iter_mut().for_each(Row::rename_equal_columns);
    found
}

/// Adds a value to the row `row`, and the items of arrays of objects to rows of their own. `column`: the column of the
/// value. `table`: the path of the value without indexes. `index`: the indexes of the items that contain the value.
fn add(column: &str, table: &str, index: &str, value: &Value, row: usize, id: &Value, found: &mut Vec<Row>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                let column = if column.is_empty() { name.clone() } else { format!("{column}.{name}") };
                add(&column, &format!("{table}.{name}"), index, member, row, id, found);
            }
        }
        Value::Array(items) if !items.is_empty() && items.iter().all(Value::is_object) => {
            for (at, item) in items.iter().enumerate() {
                let index = if index.is_empty() { at.to_string() } else { format!("{index}.{at}") };
                let cells = vec![(ID.to_owned(), id.clone()), (INDEX.to_owned(), Value::from(index.clone()))];
                found.push(Row { table: table.to_owned(), cells });
                let row = found.len() - 1;
                add("", table, &index, item, row, id, found);
            }
        }
        Value::Array(_) | Value::Object(_) => push(found, row, column, Value::from(value.to_string())),
        simple => push(found, row, column, simple.clone()),
    }
}

fn push(found: &mut [Row], row: usize, column: &str, value: Value) {
    if let Some(row) = found.get_mut(row) {
        let column = if column.is_empty() { "value" } else { column };
        row.cells.push((column.to_owned(), value));
    }
}

impl Row {
    /// Returns the names of the columns, in order.
    pub(crate) fn columns(&self) -> Vec<String> {
        self.cells.iter().map(|(column, _)| column.clone()).collect()
    }

    /// Gives a suffix to each column whose name another column has.
    pub(crate) fn rename_equal_columns(&mut self) {
        let mut names: HashSet<String> = HashSet::with_capacity(self.cells.len());
        for (column, _) in &mut self.cells {
            let mut number = 1_u32;
            while !names.insert(numbered(column, number)) {
                number += 1;
            }
            *column = numbered(column, number);
        }
    }

    /// Returns the cells as a JSON object.
    pub(crate) fn into_object(self) -> Map<String, Value> {
        self.cells.into_iter().collect()
    }
}

fn numbered(column: &str, number: u32) -> String {
    if number == 1 { column.to_owned() } else { format!("{column}~{number}") }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn record(data: Value) -> Record {
        Record {
            extraction_id: "ext_1".to_owned(),
            document_id: "doc_1".to_owned(),
            document: "a.pdf".to_owned(),
            prompt_revid: "prm_1.1".to_owned(),
            schema_revid: None,
            model: "model".to_owned(),
            verified: true,
            create_time: "2026-01-01T00:00:00Z".to_owned(),
            update_time: "2026-01-01T00:00:00Z".to_owned(),
            state: "completed",
            data,
            citations: None,
            confidences: None,
            reviews: None,
        }
    }

    fn found(data: Value) -> Vec<(String, Value)> {
        let rows = rows(&record(data)).into_iter();
        rows.map(|row| {
            let table = row.table.clone();
            let mut cells = row.into_object();
            cells.retain(|name, _| name.starts_with("data") || table != EXTRACTIONS);
            (table, Value::Object(cells))
        })
        .collect()
    }

    #[test]
    fn arrays_of_objects_are_tables_and_other_values_are_cells() {
        let data = json!({
            "total": 5, "seller": {"name": "x", "empty": {}}, "tags": ["a", 1],
            "items": [{"name": "p", "taxes": [{"rate": 7}]}, {"name": "q", "taxes": [{"rate": 19}, {"rate": 7}]}],
        });
        let expected = [
            (
                "extractions",
                json!({"data.total": 5, "data.seller.name": "x", "data.seller.empty": "{}", "data.tags": "[\"a\",1]"}),
            ),
            ("data.items", json!({"extraction_id": "ext_1", "index": "0", "name": "p"})),
            ("data.items.taxes", json!({"extraction_id": "ext_1", "index": "0.0", "rate": 7})),
            ("data.items", json!({"extraction_id": "ext_1", "index": "1", "name": "q"})),
            ("data.items.taxes", json!({"extraction_id": "ext_1", "index": "1.0", "rate": 19})),
            ("data.items.taxes", json!({"extraction_id": "ext_1", "index": "1.1", "rate": 7})),
        ];
        assert_eq!(found(data), expected.map(|(table, cells)| (table.to_owned(), cells)));
    }

    #[test]
    fn data_that_is_no_object_is_one_cell_or_a_table() {
        assert_eq!(found(json!(5)), [("extractions".to_owned(), json!({"data": 5}))]);
        assert_eq!(found(json!([])), [("extractions".to_owned(), json!({"data": "[]"}))]);
        let rows = found(json!([{"a": 1}, {}]));
        assert_eq!(rows[1], ("data".to_owned(), json!({"extraction_id": "ext_1", "index": "0", "a": 1})));
        assert_eq!(rows[2], ("data".to_owned(), json!({"extraction_id": "ext_1", "index": "1", "value": "{}"})));
    }

    #[test]
    fn no_member_replaces_another_column() {
        let rows = found(json!({
            "a.b": 1, "a": {"b": 2, "b~2": 3},
            "items": [{"extraction_id": "ext_2", "index": 7, "total": 5}],
        }));
        let cells = json!({"data.a.b": 1, "data.a.b~2": 2, "data.a.b~2~2": 3});
        assert_eq!(rows[0], ("extractions".to_owned(), cells));
        let cells =
            json!({"extraction_id": "ext_1", "index": "0", "extraction_id~2": "ext_2", "index~2": 7, "total": 5});
        assert_eq!(rows[1], ("data.items".to_owned(), cells));
    }

    #[test]
    fn citations_and_reviews_are_tables() {
        let citations = Some(vec![json!({"path": "total", "page": 2})]);
        let rows = rows(&Record { citations, reviews: Some(Vec::new()), ..record(json!({})) });
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[1].table.as_str(), rows[1].cells.len()), ("citations", 3));
        let confidences = Some(vec![json!({"path": "total", "confidence": 0.5})]);
        let rows = super::rows(&Record { confidences, ..record(json!({})) });
        assert_eq!((rows[1].table.as_str(), &rows[1].cells[2].1), ("confidences", &json!(0.5)));
    }
}
