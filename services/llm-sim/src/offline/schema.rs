//! Proposes a schema for similar documents: a property per labelled value, a list per table.

use serde_json::{Map, Value, json};

use super::reading::{Kind, Reading, canonical, property_name, value_kind};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Proposal {
    /// Kind of the document, such as `Invoice`.
    pub(super) kind: String,
    /// Response format with a strict schema.
    pub(super) format: Value,
    /// Content of the prompt.
    pub(super) prompt: String,
}

/// Kinds of documents with folded words that identify them. The first match wins.
const KINDS: [(&str, &[&str]); 16] = [
    ("Credit note", &["credit note", "gutschrift", "avoir"]),
    ("Invoice", &["invoice", "rechnung", "facture", "factura", "fattura", "factuur", "faktura"]),
    ("Receipt", &["receipt", "kassenbon", "quittung", "kassabon", "ticket de caisse", "recibo"]),
    ("Utility bill", &["electricity bill", "gas bill", "water bill", "utility bill", "energy bill", "stromrechnung"]),
    ("Delivery note", &["delivery note", "lieferschein", "packing slip", "bon de livraison"]),
    ("Purchase order", &["purchase order", "bestellung", "bon de commande"]),
    ("Bank statement", &["bank statement", "account statement", "kontoauszug"]),
    ("Payslip", &["payslip", "pay slip", "gehaltsabrechnung", "lohnabrechnung"]),
    ("Quotation", &["quotation", "quote", "angebot", "devis", "estimate"]),
    ("Contract", &["contract", "agreement", "vertrag", "contrat"]),
    ("Order confirmation", &["order confirmation", "auftragsbestaetigung"]),
    ("Certificate", &["certificate", "bescheinigung", "zertifikat"]),
    ("Bill", &["bill"]),
    ("Statement", &["statement"]),
    ("Report", &["report", "bericht"]),
    ("Letter", &["dear", "sehr geehrte", "sincerely"]),
];

pub(super) fn propose(reading: &Reading, file_name: Option<&str>, text: &str) -> Proposal {
    let kind = kind(reading, file_name, text);
    let mut properties = Map::new();
    for field in &reading.fields {
        let name = unused(&properties, property_name(&field.label));
        properties.insert(name, scalar(reading, &field.label, &field.value));
    }
    let amounts = properties.values().any(|property| property.pointer("/type/0") == Some(&json!("number")));
    if reading.currency.is_some() && amounts && !reading.fields.iter().any(|f| canonical(&f.label) == Some("currency"))
    {
        properties
            .entry("currency")
            .or_insert_with(|| json!({"type": ["string", "null"], "description": "ISO 4217 code of the amounts"}));
    }
    for (number, table) in reading.tables.iter().enumerate() {
        let name = unused(&properties, if number == 0 { "items".to_owned() } else { format!("items_{}", number + 1) });
        let mut columns = Map::new();
        for (index, column) in table.columns.iter().enumerate() {
            let cell = table.rows.iter().filter_map(|row| row.get(index)).find(|cell| !cell.is_empty());
            let name = unused(&columns, property_name(column));
            columns.insert(name, scalar(reading, column, cell.map_or("", String::as_str)));
        }
        properties
            .insert(name, json!({"type": "array", "description": "The rows of the table", "items": object(columns)}));
    }
    let name = property_name(&kind);
    let name = if name.is_empty() { "document".to_owned() } else { name };
    let format =
        json!({"type": "json_schema", "json_schema": {"name": name, "schema": object(properties), "strict": true}});
    Proposal { prompt: prompt(&kind), kind, format }
}

fn object(properties: Map<String, Value>) -> Value {
    let required: Vec<&String> = properties.keys().collect();
    json!({"type": "object", "required": required, "additionalProperties": false, "properties": properties})
}

/// Returns the property of a labelled value. Its description contains the label, which filling matches.
fn scalar(reading: &Reading, label: &str, value: &str) -> Value {
    let printed = format!("As printed under {label:?}");
    match value_kind(reading.style, label, value) {
        Kind::Number => {
            json!({"type": ["number", "null"], "description": format!("{printed}; without currency and unit")})
        }
        Kind::Date => json!({"type": ["string", "null"], "description": format!("{printed}; as YYYY-MM-DD")}),
        Kind::Text => json!({"type": ["string", "null"], "description": printed}),
    }
}

/// Returns the name, or a variation that is not used yet.
fn unused(used: &Map<String, Value>, name: String) -> String {
    let name = if name.is_empty() { "field".to_owned() } else { name };
    if !used.contains_key(&name) {
        return name;
    }
    (2..).map(|number| format!("{name}_{number}")).find(|other| !used.contains_key(other)).unwrap_or(name)
}

fn prompt(kind: &str) -> String {
    format!(
        "You read documents of the kind \"{kind}\". Extract the fields of the schema. Each description names the label under \
         which the value is printed. Write dates as YYYY-MM-DD and amounts as numbers without thousands separators or \
         currency. A value that the document does not have is null; never guess."
    )
}

fn kind(reading: &Reading, file_name: Option<&str>, text: &str) -> String {
    let top: String = text.chars().take(400).collect();
    let labels: Vec<&str> = reading.fields.iter().map(|field| field.label.as_str()).collect();
    let sources = [
        reading.title.clone().unwrap_or_default(),
        top,
        file_name.unwrap_or_default().replace(['_', '-', '.'], " "),
        labels.join(" . "),
        text.chars().take(20_000).collect(),
    ];
    for source in sources {
        let words = format!(" {} ", super::reading::tokens(&source).join(" "));
        let found = KINDS.iter().find(|(_, names)| names.iter().any(|name| words.contains(&format!(" {name} "))));
        if let Some((kind, _)) = found {
            return (*kind).to_owned();
        }
    }
    reading.title.clone().or_else(|| file_name.and_then(kind_of_file_name)).unwrap_or_else(|| "Document".to_owned())
}

/// Derives a kind from the file name: `Meter readings` from `meter_readings-2026.md`. None if the name is not
/// meaningful.
fn kind_of_file_name(file_name: &str) -> Option<String> {
    let stem = file_name.rsplit_once('.').map_or(file_name, |(stem, _)| stem);
    let words = stem.split(|c: char| !c.is_alphabetic()).filter(|word| word.chars().count() > 1);
    let mut name = words.take(6).collect::<Vec<_>>().join(" ").to_lowercase();
    let first = name.chars().next()?;
    name.replace_range(..first.len_utf8(), &first.to_uppercase().to_string());
    (!["Scan", "Img", "Image", "Document", "Untitled", "File"].contains(&name.as_str())).then_some(name)
}
