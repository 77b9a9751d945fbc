use folio_types::op::Expected;

use super::*;
use crate::ColumnType;
use crate::golden::{assert_golden, at, document, org, tag};
use crate::stack_column::tests::column;

fn new(members: StackMembers) -> NewStack {
    NewStack {
        name: "Invoices".into(),
        description: "Invoices of 2026.".into(),
        members,
        model: Some("model".into()),
        review_rule: Some(CellRule { min_confidence: 0.8, requires_citation: true }),
        auto_fill: Some(AutoFill { credit_budget: Some(500) }),
    }
}

fn rule() -> StackMembers {
    let metadata = BTreeMap::from([("customer".to_owned(), "Äcme".to_owned())]);
    StackMembers::Rule(MemberRule { tags: vec![tag().id], metadata })
}

fn write(change: StackChange) -> Write<StackChange> {
    Write::by_platform(org(), "change".parse().unwrap(), at(), Expected::Absent, change)
}

fn after(change: StackChange, before: Option<&Stack>) -> Result<Stack> {
    Stack::apply(&StackId::derive(&["golden"]), &write(change), before.cloned()).map(|plan| plan.after.unwrap())
}

fn created(members: StackMembers) -> Stack {
    after(StackChange::Create(Box::new(new(members))), None).unwrap()
}

fn definition(name: &str, kind: ColumnType) -> NewColumn {
    column(1, name, kind).definition
}

fn with_columns(stack: &Stack, columns: &[(&str, ColumnType)]) -> Stack {
    let columns = columns.iter().map(|(name, kind)| definition(name, *kind)).collect();
    after(StackChange::DefineColumns(columns), Some(stack)).unwrap()
}

#[test]
fn the_stored_format_is_that_of_the_golden_file() {
    let stack = with_columns(&created(rule()), &[("total", ColumnType::Number), ("state", ColumnType::Enum)]);
    assert_golden("live", after(StackChange::Complete { rows: 7 }, Some(&stack)).unwrap());
    let listed = NewStack {
        description: String::new(),
        model: None,
        review_rule: None,
        auto_fill: None,
        ..new(StackMembers::Documents(vec![document().id]))
    };
    assert_golden("listed", after(StackChange::Create(Box::new(listed)), None).unwrap());
}

#[test]
fn columns_keep_their_numbers_and_a_number_is_used_once() {
    let numbers = |stack: &Stack| -> Vec<(u32, u32)> {
        stack.columns.iter().map(|column| (column.number, column.revision)).collect()
    };
    let stack = with_columns(&created(rule()), &[("total", ColumnType::Number), ("date", ColumnType::Date)]);
    assert_eq!(numbers(&stack), [(1, 1), (2, 1)]);
    let stack = with_columns(&stack, &[("date", ColumnType::Date), ("TOTAL", ColumnType::Text)]);
    assert_eq!(numbers(&stack), [(2, 1), (1, 2)]);
    let stack = with_columns(&stack, &[("date", ColumnType::Date)]);
    let stack = with_columns(&stack, &[("date", ColumnType::Date), ("total", ColumnType::Number)]);
    assert_eq!(numbers(&stack), [(2, 1), (3, 1)]);
    let update = |name: &str, new: NewColumn| {
        after(StackChange::UpdateColumn { name: name.to_owned(), column: Box::new(new) }, Some(&stack))
    };
    let renamed = update("Total", definition("sum", ColumnType::Number)).unwrap();
    assert_eq!((numbers(&renamed), renamed.column("SUM").unwrap().number), (vec![(2, 1), (3, 1)], 3));
    assert_eq!(numbers(&update("total", definition("total", ColumnType::Text)).unwrap()), [(2, 1), (3, 2)]);
    assert!(update("total", definition("date", ColumnType::Number)).is_err());
    assert!(update("missing", definition("x", ColumnType::Number)).is_err());
    assert!(renamed.column("total").unwrap_err().message.contains("\"sum\""));
}

#[test]
fn a_changed_table_is_not_complete() {
    let stack = with_columns(&created(rule()), &[("total", ColumnType::Number)]);
    let complete = after(StackChange::Complete { rows: 7 }, Some(&stack)).unwrap();
    assert_eq!(complete.completion.as_ref().map(|found| found.rows), Some(7));
    let update = |patch: StackPatch| after(StackChange::Update(Box::new(patch)), Some(&complete)).unwrap();
    let renamed = update(StackPatch { name: Some("Bills".into()), ..StackPatch::default() });
    assert!(renamed.completion.is_some() && renamed.version == 4);
    let other = StackMembers::Rule(MemberRule { tags: vec![tag().id], ..MemberRule::default() });
    assert!(update(StackPatch { members: Some(other), ..StackPatch::default() }).completion.is_none());
    assert!(with_columns(&complete, &[("total", ColumnType::Text)]).completion.is_none());
    assert_eq!(with_columns(&complete, &[("total", ColumnType::Number)]), complete);
}

#[test]
fn members_are_documents_or_those_that_fulfill_a_rule() {
    let by_rule = created(rule());
    assert!(by_rule.contains(&document()));
    assert!(!by_rule.contains(&Document { tags: Vec::new(), ..document() }));
    assert!(!by_rule.contains(&Document { metadata: BTreeMap::new(), ..document() }));
    assert_eq!(by_rule.references(), BTreeSet::from([tag().id.to_string()]));
    let (a, b) = (DocumentId::derive(&["a"]), DocumentId::derive(&["b"]));
    let listed = created(StackMembers::Documents(vec![a.clone()]));
    let add = StackPatch { add_documents: vec![b.clone(), a.clone()], ..StackPatch::default() };
    let grown = after(StackChange::Update(Box::new(add.clone())), Some(&listed)).unwrap();
    assert_eq!(grown.members, StackMembers::Documents(vec![a.clone(), b.clone()]));
    let remove = StackPatch { remove_documents: vec![a], ..StackPatch::default() };
    let rest = after(StackChange::Update(Box::new(remove)), Some(&grown)).unwrap();
    assert_eq!(rest.members, StackMembers::Documents(vec![b]));
    assert!(after(StackChange::Update(Box::new(add)), Some(&by_rule)).is_err());
    let many = (0..=STACK_ROWS_MAX).map(|number| DocumentId::derive(&[&number.to_string()])).collect();
    assert!(StackMembers::Documents(many).checked("stack.").is_err());
    assert!(StackMembers::Rule(MemberRule::default()).checked("stack.").is_err());
}

#[test]
fn other_columns_members_and_settings_start_the_filling() {
    let without = created(rule());
    let stack = with_columns(&without, &[("total", ColumnType::Number)]);
    assert!(Stack::starts_filling(Some(&without), &stack));
    assert!(!Stack::starts_filling(Some(&stack), &stack) && !Stack::starts_filling(None, &without));
    let off = Stack { auto_fill: None, ..stack.clone() };
    assert!(Stack::starts_filling(Some(&off), &stack) && !Stack::starts_filling(Some(&stack), &off));
    let filter = StackFilter { has_auto_fill: true, tag: Some(tag().id), ..StackFilter::default() };
    assert!(stack.list_row().matches(&Stack::conditions(&filter)));
    assert!(!off.list_row().matches(&Stack::conditions(&filter)));
}
