//! The event of a row of a stack whose cells begin to wait for a person.

use folio_resources::StackRow;
use folio_types::op::OpKey;
use serde_json::json;

use super::{Event, EventType, Source};

/// Returns the event of a change of a row. `before` is None if the change creates the row. Returns None if the row waits for no
/// decision, or has waited before the change.
pub(crate) fn of_stack_row(op: &OpKey, before: Option<&StackRow>, after: &StackRow) -> Option<Event> {
    if before.is_some_and(StackRow::is_waiting) || !after.is_waiting() {
        return None;
    }
    let data = json!({
        "organization_id": after.org, "stack_row_id": after.id, "stack_id": after.stack, "document_id": after.document,
        "version": after.version, "state": "awaiting_review", "kind": "cell_review",
    });
    let source = Source::StackRow { row: after.id.clone(), op: op.clone() };
    let key = [after.id.as_str(), &op.to_string()];
    Some(Event::new(EventType::InboxWaiting, &after.org, &key, after.updated_at, data, source))
}

#[cfg(test)]
mod tests {
    use folio_resources::{
        CellRule, Column, ColumnType, FieldDecision, FilledCell, NewColumn, Resource as _, StackRowChange, StackRowId,
    };
    use folio_types::op::{Expected, Write};
    use folio_types::{DocumentId, OrgId, StackId, Timestamp, UserId};

    use super::*;

    #[test]
    fn a_row_waits_in_the_inbox_from_its_first_waiting_cell_until_its_last_decision() {
        let (org, stack, document) = (OrgId::derive(&["o"]), StackId::derive(&["s"]), DocumentId::derive(&["d"]));
        let id = StackRowId::of(&stack, &document);
        let column = |number, name: &str| Column {
            number,
            revision: 1,
            definition: NewColumn {
                name: name.to_owned(),
                kind: ColumnType::Text,
                description: String::new(),
                required: false,
                unit: None,
                values: Vec::new(),
            },
        };
        let columns = vec![column(1, "Vendor"), column(2, "State")];
        let write = |change| {
            Write::by_platform(org.clone(), "key".parse().unwrap(), Timestamp::UNIX_EPOCH, Expected::Absent, change)
        };
        let apply = |change, before: Option<&StackRow>| {
            StackRow::apply(&id, &write(change), before.cloned()).unwrap().after.unwrap()
        };
        let fill = |number, confidence| StackRowChange::Fill {
            stack: stack.clone(),
            document: document.clone(),
            cells: vec![FilledCell {
                column: number,
                revision: 1,
                value: Some(json!("secret")),
                confidence: Some(confidence),
                citation: None,
            }],
            columns: columns.clone(),
            rule: Some(CellRule { min_confidence: 0.9, requires_citation: false }),
            text_generation: None,
        };
        let op = OpKey::Request { user: UserId::platform(), request: "key".parse().unwrap() };
        let approved = apply(fill(1, 1.0), None);
        assert_eq!(of_stack_row(&op, None, &approved), None, "the review rule approved the value");
        let waiting = apply(fill(2, 0.1), Some(&approved));
        let event = of_stack_row(&op, Some(&approved), &waiting).unwrap();
        assert_eq!((event.name.as_str(), &event.data["kind"]), ("inbox.waiting", &json!("cell_review")));
        assert!(!event.body().unwrap().contains("secret"));
        assert_eq!(event.source, Some(Source::StackRow { row: id.clone(), op: op.clone() }));
        let more = apply(fill(1, 0.1), Some(&waiting));
        assert_eq!(of_stack_row(&op, Some(&waiting), &more), None, "the row waits already");
        let decision = Some(FieldDecision::Rejected);
        let decided = apply(StackRowChange::Review { columns: vec![1, 2], decision }, Some(&more));
        assert_eq!(of_stack_row(&op, Some(&more), &decided), None);
        let again = apply(StackRowChange::Review { columns: vec![2], decision: None }, Some(&decided));
        assert!(of_stack_row(&op, Some(&decided), &again).is_some(), "a decision was withdrawn");
    }
}
