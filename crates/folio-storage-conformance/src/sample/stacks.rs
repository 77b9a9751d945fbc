//! Samples of stacks and of their rows.

use folio_resources::{
    AutoFill, CellState, FilledCell, MemberRule, NewStack, Stack, StackChange, StackFilter, StackMembers, StackPatch,
    StackRow, StackRowChange, StackRowFilter,
};
use folio_types::StackId;
use serde_json::json;

use super::{Sample, Seed};

/// Returns true for one of the resources that the suite lists.
fn is_one(seed: &Seed) -> bool {
    seed.name == "Alpha"
}

/// Returns the members of a stack: documents with all linked tags and a value.
fn members(seed: &Seed) -> StackMembers {
    StackMembers::Rule(MemberRule { tags: seed.all(), metadata: seed.metadata("Köln") })
}

impl Sample for Stack {
    fn create(seed: &Seed) -> StackChange {
        StackChange::Create(Box::new(NewStack {
            name: seed.name.clone(),
            description: seed.content.to_string(),
            members: members(seed),
            model: None,
            review_rule: None,
            auto_fill: None,
        }))
    }

    fn update(seed: &Seed) -> StackChange {
        StackChange::Update(Box::new(StackPatch {
            name: Some(seed.name.clone()),
            description: Some(seed.content.to_string()),
            members: Some(members(seed)),
            auto_fill: Some(is_one(seed).then(AutoFill::default)),
            ..StackPatch::default()
        }))
    }

    fn filters(seed: &Seed) -> Vec<StackFilter> {
        let all = StackFilter::default();
        vec![
            all.clone(),
            StackFilter { name_search: Some(seed.name.clone()), ..all.clone() },
            StackFilter { name: Some(seed.name.clone()), ..all.clone() },
            StackFilter { tag: seed.all().into_iter().next(), ..all.clone() },
            StackFilter { has_auto_fill: true, ..all },
        ]
    }
}

/// Returns the stack of a row.
fn stack(seed: &Seed) -> StackId {
    seed.all().into_iter().next().unwrap_or_else(|| StackId::derive(&["missing"]))
}

impl Sample for StackRow {
    fn create(seed: &Seed) -> StackRowChange {
        StackRowChange::Create { stack: stack(seed), document: seed.document() }
    }

    fn update(seed: &Seed) -> StackRowChange {
        let cell = FilledCell {
            column: 1,
            revision: 1,
            value: (!is_one(seed)).then(|| json!({ "name": seed.name, "content": seed.content })),
            confidence: Some(0.5),
            citation: None,
        };
        StackRowChange::Fill {
            stack: stack(seed),
            document: seed.document(),
            cells: vec![cell],
            columns: Vec::new(),
            rule: None,
            text_generation: None,
        }
    }

    fn filters(seed: &Seed) -> Vec<StackRowFilter> {
        let all = StackRowFilter { stack: Some(stack(seed)), ..StackRowFilter::default() };
        vec![
            all.clone(),
            StackRowFilter { document: Some(seed.document()), ..all.clone() },
            StackRowFilter { cell_state: Some(CellState::Filled), ..all },
        ]
    }
}
