//! The columns of the lists that have a grid.

use folio_resources::{Document, Prompt, Resource, Schema, Tag, TextState, folded};
use folio_types::Timestamp;

/// A column of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// The name of the field in the API.
    pub name: &'static str,
    pub(crate) kind: ColumnKind,
}

/// The kind of the values of a column, which decides the operators that it permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    Text,
    Time,
    /// Ids, which texts match by the names of their resources.
    Reference,
}

/// The value of a column in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    /// Empty: the row has no value.
    Text(String),
    Time(Timestamp),
    References(Vec<String>),
}

impl Column {
    /// Returns the text by which a text of the column is ordered: the number of a state, otherwise the text without
    /// regard to case.
    pub(super) fn sort_text(&self, text: &str) -> String {
        let state = STAGES.iter().position(|stage| *stage == text && matches!(self.name, STATE | STAGE));
        state.map_or_else(|| folded(text), |number| number.to_string())
    }
}

/// A kind whose list has a grid.
pub(crate) trait GridRows: Resource {
    const COLUMNS: &'static [Column];

    /// Returns the value of a column. An unknown column is empty.
    fn cell(&self, column: &str) -> Cell;
}

const fn text(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Text }
}

const fn time(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Time }
}

const fn reference(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Reference }
}

fn references<T: ToString>(ids: impl IntoIterator<Item = T>) -> Cell {
    Cell::References(ids.into_iter().map(|id| id.to_string()).collect())
}

fn absent() -> Cell {
    Cell::Text(String::new())
}

pub(crate) const STATE: &str = "state";
/// The state of a document, in which documents with an extraction differ from others whose text is ready.
pub(crate) const STAGE: &str = "stage";
pub(crate) const READY: &str = "ready";
/// The stage of a document whose text is ready, and that has an extraction.
pub(crate) const EXTRACTED: &str = "extracted";

/// The states of a document, as filters and grids name them.
pub(crate) const STATES: [&str; 5] = ["uploaded", "processing", READY, "no_text", "failed"];

/// The stages of a document in the order in which they are sorted: as the document passes them.
const STAGES: [&str; 6] = ["uploaded", "processing", "failed", "no_text", READY, EXTRACTED];

/// Returns the name of a state in filters and grids.
fn state(state: &TextState) -> &'static str {
    match state {
        TextState::Uploaded => "uploaded",
        TextState::Processing => "processing",
        TextState::Ready => READY,
        TextState::NoText(_) => "no_text",
        TextState::Failed(_) => "failed",
    }
}

impl GridRows for Document {
    const COLUMNS: &'static [Column] = &[
        text("name"),
        reference("created_by"),
        text(STATE),
        text(STAGE),
        time("create_time"),
        time("update_time"),
        reference("tag_ids"),
    ];

    /// The stage lacks the extractions, which other rows contain.
    fn cell(&self, column: &str) -> Cell {
        match column {
            "name" => Cell::Text(self.name.clone()),
            "created_by" => references([&self.created_by]),
            STATE | STAGE => Cell::Text(state(&self.state).to_owned()),
            "create_time" => Cell::Time(self.created_at),
            "update_time" => Cell::Time(self.updated_at),
            "tag_ids" => references(&self.tags),
            _ => absent(),
        }
    }
}

impl GridRows for Schema {
    const COLUMNS: &'static [Column] =
        &[text("name"), reference("created_by"), text("schema_id"), text("schema_revid"), time("create_time")];

    fn cell(&self, column: &str) -> Cell {
        match column {
            "name" => Cell::Text(self.latest.name.clone()),
            "created_by" => references([&self.latest.created_by]),
            "schema_id" => Cell::Text(self.id.to_string()),
            "schema_revid" => Cell::Text(self.latest.revid.to_string()),
            "create_time" => Cell::Time(self.created_at),
            _ => absent(),
        }
    }
}

impl GridRows for Prompt {
    const COLUMNS: &'static [Column] = &[
        text("name"),
        text("model"),
        reference("schema_id"),
        reference("tag_ids"),
        reference("created_by"),
        text("prompt_id"),
        text("prompt_revid"),
        time("create_time"),
    ];

    fn cell(&self, column: &str) -> Cell {
        match column {
            "name" => Cell::Text(self.latest.name.clone()),
            "model" => Cell::Text(self.latest.model.clone().unwrap_or_default()),
            "schema_id" => references(self.latest.schema.iter().map(|schema| &schema.of)),
            "tag_ids" => references(&self.latest.tags),
            "created_by" => references([&self.latest.created_by]),
            "prompt_id" => Cell::Text(self.id.to_string()),
            "prompt_revid" => Cell::Text(self.latest.revid.to_string()),
            "create_time" => Cell::Time(self.created_at),
            _ => absent(),
        }
    }
}

impl GridRows for Tag {
    const COLUMNS: &'static [Column] = &[
        text("name"),
        text("tag_id"),
        text("description"),
        text("color"),
        reference("created_by"),
        time("create_time"),
        time("update_time"),
    ];

    fn cell(&self, column: &str) -> Cell {
        match column {
            "name" => Cell::Text(self.name.clone()),
            "tag_id" => Cell::Text(self.id.to_string()),
            "description" => Cell::Text(self.description.clone().unwrap_or_default()),
            "color" => Cell::Text(self.color.clone().unwrap_or_default()),
            "created_by" => references([&self.created_by]),
            "create_time" => Cell::Time(self.created_at),
            "update_time" => Cell::Time(self.updated_at),
            _ => absent(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_sorted_as_a_document_passes_them() {
        assert!(STATES.iter().all(|state| STAGES.contains(state)));
        for name in [STATE, STAGE] {
            let sorted = STAGES.map(|stage| text(name).sort_text(stage));
            assert!(sorted.is_sorted() && sorted[0] == "0", "{sorted:?}");
        }
        assert_eq!(text("name").sort_text("Failed"), "failed");
    }
}
