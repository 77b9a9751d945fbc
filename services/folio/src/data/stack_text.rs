//! Stacks as people read them.

use std::collections::BTreeMap;

use folio_proto::v1;
use serde_json::{Value, json};

use super::output::{Format, View};
use super::{stack, time};

/// Returns a stack, for people with a table of its columns.
pub(super) fn view(stack: &v1::Stack) -> View {
    let row = stack::shown(stack);
    let mut members = row.clone();
    let columns = members.as_object_mut().and_then(|members| members.remove("columns"));
    let columns = columns.as_ref().and_then(Value::as_array).cloned().unwrap_or_default();
    let mut text = View::one(members).render(Format::Table);
    if !columns.is_empty() {
        let table = View::list(["name", "type", "unit", "required", "enum", "description"], columns);
        text = format!("{text}\n{}", table.render(Format::Table));
    }
    View::one(row).text(text)
}

/// Returns a table of stacks with the names of their columns and their members. `tags`: names by id.
pub(super) fn list(stacks: &[v1::Stack], tags: &BTreeMap<String, String>) -> View {
    let row = |stack: &v1::Stack| {
        let columns: Vec<&str> = stack.columns.iter().map(|column| column.name.as_str()).collect();
        json!({
            "stack_id": stack.stack_id, "name": stack.name, "columns": columns.join(", "), "members": members(stack, tags),
            "complete_time": time(stack.complete_time.as_ref()),
        })
    };
    View::list(["stack_id", "name", "columns", "members", "complete_time"], stacks.iter().map(row).collect())
}

/// Returns the tags and the metadata of the rule, otherwise the number of documents.
fn members(stack: &v1::Stack, tags: &BTreeMap<String, String>) -> String {
    let Some(rule) = &stack.rule else {
        return folio_types::counted(stack.document_count, "document");
    };
    let names = rule.tag_ids.iter().map(|id| tags.get(id).unwrap_or(id).clone());
    let values = rule.metadata.iter().map(|(key, value)| format!("{key}={value}"));
    names.chain(values).collect::<Vec<_>>().join(", ")
}

/// Returns a table of rows with the columns of their stack.
pub(super) fn rows(columns: &[v1::StackColumn], rows: &[Value]) -> View {
    let names = columns.iter().map(|column| column.name.as_str());
    let names: Vec<&str> = std::iter::once("document").chain(names).chain(["waiting"]).collect();
    let flat = rows.iter().map(|row| {
        let mut cells = row.get("values").and_then(Value::as_object).cloned().unwrap_or_default();
        for member in ["document", "waiting"] {
            cells.insert(member.to_owned(), row.get(member).cloned().unwrap_or_default());
        }
        Value::Object(cells)
    });
    View::list(names, flat.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<v1::StackColumn> {
        ["Vendor", "Total"].map(|name| v1::StackColumn { name: name.to_owned(), ..Default::default() }).to_vec()
    }

    #[test]
    fn rows_are_a_table_with_its_columns() {
        let row = json!({"document": "a.pdf", "values": {"Total": 9.5}, "waiting": 1});
        let table = rows(&columns(), &[row]).render(Format::Table);
        assert_eq!(table, "DOCUMENT  VENDOR  TOTAL  WAITING\na.pdf             9.5    1\n");
    }

    #[test]
    fn a_list_names_columns_and_tags() {
        let tags = BTreeMap::from([("tag_1".to_owned(), "invoices".to_owned())]);
        let rule = v1::StackMemberRule {
            tag_ids: vec!["tag_1".to_owned(), "tag_2".to_owned()],
            metadata: [("year".to_owned(), "2026".to_owned())].into(),
        };
        let mut stack = v1::Stack { columns: columns(), rule: Some(rule), ..v1::Stack::default() };
        let table = list(std::slice::from_ref(&stack), &tags).render(Format::Table);
        assert!(table.contains("Vendor, Total  invoices, tag_2, year=2026"), "{table}");
        (stack.rule, stack.document_count) = (None, 1);
        assert_eq!(members(&stack, &tags), "1 document");
    }

    #[test]
    fn a_stack_has_a_table_of_its_columns() {
        let stack = v1::Stack { name: "bills".to_owned(), columns: columns(), ..v1::Stack::default() };
        let shown = view(&stack);
        let table = shown.render(Format::Table);
        assert!(table.contains("\nNAME") && table.contains("\nVendor") && !table.contains("[{"), "{table}");
        assert!(shown.render(Format::Json).contains("\"columns\""), "programs get one document");
    }
}
