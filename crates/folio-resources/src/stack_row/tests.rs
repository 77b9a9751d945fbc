use folio_types::op::Expected;
use folio_types::{CallId, ThreadId};
use serde_json::json;

use super::*;
use crate::golden::{assert_golden, at, document, org};
use crate::stack_column::tests::column;
use crate::{CitationKind, ColumnType, NewColumn, WordBoxes};

fn stack() -> StackId {
    StackId::derive(&["golden"])
}

fn write(change: StackRowChange) -> Write<StackRowChange> {
    Write::by_platform(org(), "change".parse().unwrap(), at(), Expected::Absent, change)
}

fn after(change: StackRowChange, before: Option<&StackRow>) -> Result<StackRow> {
    let id = StackRowId::of(&stack(), &document().id);
    StackRow::apply(&id, &write(change), before.cloned()).map(|plan| plan.after.unwrap())
}

fn total() -> Column {
    column(1, "total", ColumnType::Number)
}

fn citation() -> Citation {
    Citation {
        path: "total".into(),
        kind: CitationKind::Cited,
        page: 1,
        quote: "Total 957".into(),
        start: 3,
        section: None,
        cell: None,
        occurrences: 1,
        boxes: WordBoxes::default(),
    }
}

fn cell(value: Option<Value>, confidence: f64, is_cited: bool) -> FilledCell {
    let citation = is_cited.then(|| Box::new(citation()));
    FilledCell { column: 1, revision: 1, value, confidence: Some(confidence), citation }
}

fn fill(cells: Vec<FilledCell>, column: Column, rule: Option<CellRule>) -> StackRowChange {
    let (stack, document, columns) = (stack(), document().id, vec![column]);
    StackRowChange::Fill { stack, document, cells, columns, rule, text_generation: Some(at()) }
}

fn filled(value: Value) -> StackRow {
    after(fill(vec![cell(Some(value), 0.9, true)], total(), None), None).unwrap()
}

fn edit(row: &StackRow, value: Option<Value>) -> StackRow {
    let edit = CellEdit { column: 1, revision: 1, value, columns: vec![total()] };
    after(StackRowChange::Edit(edit), Some(row)).unwrap()
}

fn review(row: &StackRow, decision: Option<FieldDecision>) -> StackRow {
    after(StackRowChange::Review { columns: vec![1], decision }, Some(row)).unwrap()
}

fn state(row: &StackRow) -> CellState {
    row.cells[&1].state()
}

#[test]
fn a_cell_names_the_turn_that_wrote_it_until_a_person_edits_it() {
    let turn = TurnId::new(ThreadId::derive(&["row"]), 1);
    let change = fill(vec![cell(Some(json!(5)), 0.9, false)], total(), None);
    let write = Write { op: OpKey::Call(CallId::new(turn.clone(), 2, 1)), ..write(change) };
    let plan = StackRow::apply(&StackRowId::of(&stack(), &document().id), &write, None).unwrap();
    let row = plan.after.unwrap();
    assert_eq!(row.cells[&1].turn, Some(turn));
    assert_eq!(edit(&row, Some(json!(6))).cells[&1].turn, None);
}

#[test]
fn the_stored_format_is_that_of_the_golden_file() {
    let rule = CellRule { min_confidence: 0.8, requires_citation: true };
    let new = vec![cell(Some(json!(957.5)), 0.9, true), FilledCell { column: 2, ..cell(None, 0.5, false) }];
    let row = after(fill(new, total(), Some(rule)), None).unwrap();
    let edit = CellEdit { column: 3, revision: 2, value: Some(json!("x")), columns: Vec::new() };
    let edited = after(StackRowChange::Edit(edit), Some(&row));
    assert_golden("live", edited.unwrap());
    let create = StackRowChange::Create { stack: stack(), document: document().id };
    assert_golden("empty", after(create, None).unwrap());
}

#[test]
fn a_cell_is_filled_edited_approved_and_rejected() {
    let row = filled(json!(957));
    assert_eq!((state(&row), row.version, row.text_generation), (CellState::Filled, 1, Some(at())));
    let approved = review(&row, Some(FieldDecision::Approved));
    assert_eq!((state(&approved), approved.version), (CellState::Approved, 2));
    assert_eq!(review(&approved, Some(FieldDecision::Approved)), approved);
    assert_eq!(state(&review(&approved, Some(FieldDecision::Rejected))), CellState::Rejected);
    assert_eq!(state(&review(&approved, None)), CellState::Filled);
    let edited = edit(&approved, Some(json!(958)));
    assert_eq!((state(&edited), edited.cells[&1].citation.as_ref()), (CellState::Edited, None));
    assert_eq!(edit(&edited, Some(json!(958))), edited);
    assert_eq!(state(&edit(&edited, None)), CellState::Empty);
    let none = after(fill(vec![cell(None, 0.9, false)], total(), None), None).unwrap();
    assert_eq!(state(&none), CellState::Empty);
    let absent = StackRowChange::Review { columns: vec![7], decision: Some(FieldDecision::Approved) };
    assert!(after(absent, Some(&row)).is_err());
    assert!(after(StackRowChange::Review { columns: vec![1], decision: None }, None).is_err());
}

#[test]
fn an_agent_replaces_no_value_of_a_person() {
    let again = |row: &StackRow, column: Column| {
        after(fill(vec![cell(Some(json!(1)), 0.9, false)], column, None), Some(row)).unwrap().cells[&1].value.clone()
    };
    let row = filled(json!(957));
    assert_eq!(again(&row, total()), Some(json!(1)), "a value of an agent");
    for person in [
        edit(&row, Some(json!(958))),
        edit(&row, None),
        review(&row, Some(FieldDecision::Approved)),
        review(&row, Some(FieldDecision::Rejected)),
    ] {
        assert_eq!(again(&person, total()), person.cells[&1].value);
    }
    let text = Column { revision: 2, ..column(1, "total", ColumnType::Text) };
    assert_eq!(again(&edit(&row, Some(json!(958))), text), Some(json!(1)), "the value has another type");
}

#[test]
fn a_late_value_for_an_earlier_revision_replaces_no_newer_one() {
    let changed = Column { revision: 2, ..total() };
    let newer = FilledCell { revision: 2, ..cell(Some(json!(2)), 0.9, false) };
    let row = after(fill(vec![newer], changed.clone(), None), Some(&filled(json!(957)))).unwrap();
    let late = after(fill(vec![cell(Some(json!(1)), 0.9, false)], total(), None), Some(&row)).unwrap();
    assert_eq!((late.cells[&1].value.clone(), late.version), (Some(json!(2)), row.version));
    assert!(!late.is_missing(&changed));
}

#[test]
fn a_changed_column_is_missing_until_it_is_filled_again() {
    let (row, changed) = (filled(json!(957)), Column { revision: 2, ..total() });
    assert!(!row.is_missing(&total()));
    assert!(row.is_missing(&changed) && row.is_missing(&column(2, "other", ColumnType::Text)));
    assert!(!edit(&row, Some(json!(5))).is_missing(&changed), "the value of a person");
    assert!(!review(&row, Some(FieldDecision::Approved)).is_missing(&changed));
    assert!(review(&row, Some(FieldDecision::Rejected)).is_missing(&changed));
    assert!(!review(&row, Some(FieldDecision::Rejected)).is_missing(&total()));
    let date = Column { revision: 2, ..column(1, "total", ColumnType::Date) };
    assert!(edit(&row, Some(json!(5))).is_missing(&date), "the value of a person has another type");
}

#[test]
fn writes_remove_the_cells_of_removed_columns() {
    let of = |number: u32| FilledCell { column: number, ..cell(Some(json!(number)), 0.9, false) };
    let numbers = |row: &StackRow| row.cells.keys().copied().collect::<Vec<_>>();
    let row = after(fill(vec![of(1), of(2), of(3)], column(3, "c", ColumnType::Number), None), None).unwrap();
    assert_eq!(numbers(&row), [1, 2, 3]);
    let columns = vec![total(), column(3, "c", ColumnType::Number)];
    let edit = CellEdit { column: 3, revision: 1, value: Some(json!(5)), columns };
    assert_eq!(numbers(&after(StackRowChange::Edit(edit), Some(&row)).unwrap()), [1, 3]);
    let filled = after(fill(vec![of(2)], column(2, "b", ColumnType::Number), None), Some(&row)).unwrap();
    assert_eq!(numbers(&filled), [2, 3], "the third column may be newer than the columns that the writer read");
}

#[test]
fn a_review_rule_approves_confident_values_with_evidence() {
    let rule = CellRule { min_confidence: 0.8, requires_citation: true };
    for (confidence, is_cited, value, expected) in [
        (0.8, true, Some(json!(5)), (CellState::Approved, false)),
        (0.79, true, Some(json!(5)), (CellState::Filled, true)),
        (0.9, false, Some(json!(5)), (CellState::Filled, true)),
        (0.9, true, None, (CellState::Empty, false)),
    ] {
        let row = after(fill(vec![cell(value, confidence, is_cited)], total(), Some(rule.clone())), None).unwrap();
        assert_eq!((state(&row), row.is_waiting()), expected, "{confidence} {is_cited}");
        let terms = row.list_row().terms;
        assert_eq!(terms.contains("review/waiting"), expected.1);
        assert!(terms.contains(&format!("cell/{}", expected.0.as_str())));
        let waiting = StackRowFilter { is_waiting_for_review: true, stack: Some(stack()), ..StackRowFilter::default() };
        assert_eq!(row.list_row().matches(&StackRow::conditions(&waiting)), expected.1);
    }
    let waiting = after(fill(vec![cell(Some(json!(5)), 0.1, true)], total(), Some(rule)), None).unwrap();
    assert!(!review(&waiting, Some(FieldDecision::Rejected)).is_waiting());
    assert!(CellRule { min_confidence: 1.5, requires_citation: false }.checked("review_rule").is_err());
}

#[test]
fn only_values_that_were_not_rejected_and_fit_their_column_count() {
    let row = filled(json!(957));
    let counted = |row: &StackRow, column: &Column| row.cells[&1].counted_value(column).cloned();
    assert_eq!(counted(&row, &total()), Some(json!(957)));
    assert_eq!(counted(&review(&row, Some(FieldDecision::Rejected)), &total()), None);
    assert_eq!(counted(&row, &column(1, "total", ColumnType::Text)), None);
    let renamed = NewColumn { name: "sum".to_owned(), ..total().definition };
    assert_eq!(counted(&row, &Column { definition: renamed, ..total() }), Some(json!(957)));
}
