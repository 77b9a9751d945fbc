//! Proposes a schema for similar documents: a property for each labelled value, a list for each table.

use serde_json::{Map, Value, json};

use super::reading::{Reading, date, is_number, snake};

/// A proposed schema and prompt.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Proposal {
    /// Kind of the document, such as `Invoice`.
    pub(super) kind: String,
    /// Response format with a strict schema.
    pub(super) format: Value,
    /// Content of the prompt.
    pub(super) prompt: String,
}

/// Kinds of documents, recognized by their names near the beginning of the text. The first match wins.
const KINDS: [&str; 8] =
    ["Credit note", "Invoice", "Receipt", "Purchase order", "Delivery note", "Quotation", "Contract", "Bill"];

/// Returns the proposal for a document.
pub(super) fn propose(reading: &Reading, text: &str) -> Proposal {
    let top: String = text.chars().take(400).collect::<String>().to_lowercase();
    let known = KINDS.iter().find(|kind| top.contains(&kind.to_lowercase())).map(|kind| (*kind).to_owned());
    let kind = known.or_else(|| reading.title.clone()).unwrap_or_else(|| "Document".to_owned());
    let fields = reading.fields.iter().map(|(label, value)| (snake(label), scalar(label, value)));
    let mut properties: Map<String, Value> = fields.collect();
    for (index, table) in reading.tables.iter().enumerate() {
        let name = if index == 0 { "items".to_owned() } else { format!("items_{}", index + 1) };
        let cells = table.rows.first().into_iter().flatten();
        let columns = table.columns.iter().zip(cells).map(|(column, cell)| (snake(column), scalar(column, cell)));
        let items = object(columns.collect());
        properties.insert(name, json!({"type": "array", "description": "The rows of the table", "items": items}));
    }
    let schema = json!({"name": snake(&kind), "schema": object(properties), "strict": true});
    let prompt = format!(
        "You read documents of the kind \"{kind}\". Extract the fields of the schema. Each description names the label under \
         which the value is printed. Write dates as YYYY-MM-DD and amounts as numbers without thousands separators or \
         currency. A value that the document does not have is null; never guess."
    );
    Proposal { kind, format: json!({"type": "json_schema", "json_schema": schema}), prompt }
}

fn object(properties: Map<String, Value>) -> Value {
    let required: Vec<&String> = properties.keys().collect();
    json!({"type": "object", "required": required, "additionalProperties": false, "properties": properties})
}

/// Returns the property of a labelled value. Its description contains the label, which filling matches.
fn scalar(label: &str, value: &str) -> Value {
    let (kind, note) = match () {
        () if date(value).is_some() => ("string", "; as YYYY-MM-DD"),
        () if is_number(label, value) => ("number", "; without currency and unit"),
        () => ("string", ""),
    };
    json!({"type": [kind, "null"], "description": format!("As printed under {label:?}{note}")})
}
