use folio_resources::{
    FilledCell, NewColumn, NewStack, Resource as _, StackChange, StackMembers, StackRowChange, StackRowId,
};
use folio_types::op::{Expected, Write};
use folio_types::{DocumentId, OrgId, StackId, Timestamp};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn write<C: std::fmt::Debug>(change: C) -> Write<C> {
    let (org, key) = (OrgId::derive(&["o"]), "key".parse().unwrap());
    Write::by_platform(org, key, Timestamp::UNIX_EPOCH, Expected::Absent, change)
}

/// Returns a stack with a column of each type.
pub(crate) fn stack() -> Stack {
    let column = |name: &str, kind, values: &[&str]| NewColumn {
        name: name.to_owned(),
        kind,
        description: String::new(),
        required: false,
        unit: None,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    };
    let new = NewStack {
        name: "s".to_owned(),
        description: String::new(),
        members: StackMembers::Documents(Vec::new()),
        model: None,
        review_rule: None,
        auto_fill: None,
    };
    let (id, create) = (StackId::derive(&["s"]), StackChange::Create(Box::new(new)));
    let stack = Stack::apply(&id, &write(create), None).unwrap().after;
    let columns = StackChange::DefineColumns(vec![
        column("vendor", ColumnType::Text, &[]),
        column("total", ColumnType::Number, &[]),
        column("pages", ColumnType::Integer, &[]),
        column("date", ColumnType::Date, &[]),
        column("paid", ColumnType::Boolean, &[]),
        column("state", ColumnType::Enum, &["open", "closed"]),
    ]);
    Stack::apply(&id, &write(columns), stack).unwrap().after.unwrap()
}

/// Returns the row of a document with the values of these columns.
pub(crate) fn row(document: &str, cells: &Value) -> StackRow {
    let (stack, document) = (stack(), DocumentId::derive(&[document]));
    let cell = |(name, value): (&String, &Value)| {
        let column = stack.column(name).unwrap();
        let value = Some(value.clone()).filter(|value| !value.is_null());
        FilledCell { column: column.number, revision: 1, value, confidence: Some(0.9), citation: None }
    };
    let fill = StackRowChange::Fill {
        stack: stack.id.clone(),
        document: document.clone(),
        cells: cells.as_object().unwrap().iter().map(cell).collect(),
        columns: stack.columns.clone(),
        rule: None,
        text_generation: None,
    };
    StackRow::apply(&StackRowId::of(&stack.id, &document), &write(fill), None).unwrap().after.unwrap()
}

fn aggregate(function: AggregateFunction, column: &str) -> Aggregate {
    Aggregate { function, column: Some(column.to_owned()).filter(|column| !column.is_empty()) }
}

fn answered(rows: &[StackRow], query: TableQuery) -> Result<Vec<AggregatedGroup>> {
    let mut aggregator = Aggregator::new(&stack(), query)?;
    rows.iter().try_for_each(|row| aggregator.add(row))?;
    aggregator.finish()
}

/// Returns the results of the aggregates without groups.
fn results(rows: &[Value], aggregates: &[(AggregateFunction, &str)]) -> Vec<Option<String>> {
    let rows: Vec<StackRow> = rows.iter().enumerate().map(|(at, cells)| row(&at.to_string(), cells)).collect();
    let aggregates = aggregates.iter().map(|(function, column)| aggregate(*function, column)).collect();
    let groups = answered(&rows, TableQuery { aggregates, ..TableQuery::default() }).unwrap();
    groups.into_iter().flat_map(|group| group.values).map(|value| value.value).collect()
}

use AggregateFunction::{Average, Count, Max, Min, Sum};

#[test]
fn each_function_is_computed_exactly() {
    let rows = [
        json!({ "total": 0.1, "pages": 3, "date": "2026-02-01", "paid": true }),
        json!({ "total": 0.2, "pages": 4, "date": "2025-12-31", "state": "open" }),
        json!({ "total": -5, "pages": 9_007_199_254_740_993_i64, "paid": false }),
        json!({ "vendor": "x", "total": null }),
    ];
    let expected = |texts: &[&str]| texts.iter().map(|text| Some((*text).to_owned())).collect::<Vec<_>>();
    let totals = [(Count, "total"), (Sum, "total"), (Average, "total"), (Min, "total"), (Max, "total")];
    let exact = ["3", "-4.7", "-1.566666666666666667", "-5", "0.2"];
    assert_eq!(results(&rows, &totals), expected(&exact));
    let pages = [(Count, "pages"), (Sum, "pages"), (Average, "pages"), (Min, "pages"), (Max, "pages")];
    let exact = ["3", "9007199254741000", "3002399751580333.333333333333333333", "3", "9007199254740993"];
    assert_eq!(results(&rows, &pages), expected(&exact));
    let others = [(Count, ""), (Count, "date"), (Min, "date"), (Max, "date"), (Count, "paid"), (Count, "state")];
    assert_eq!(results(&rows, &others), expected(&["4", "2", "2025-12-31", "2026-02-01", "2", "1"]));
}

#[test]
fn a_table_without_values_has_counts_only() {
    let all = [(Count, ""), (Count, "total"), (Sum, "total"), (Average, "total"), (Min, "date"), (Max, "pages")];
    let zero = || Some("0".to_owned());
    assert_eq!(results(&[], &all), [zero(), zero(), None, None, None, None]);
    let group = answered(
        &[row("a", &json!({}))],
        TableQuery { aggregates: vec![aggregate(Sum, "total")], ..TableQuery::default() },
    );
    let group = group.unwrap().remove(0);
    assert_eq!((group.rows, group.values[0].counted, group.values[0].skipped), (1, 0, 1));
}

#[test]
fn an_average_states_whether_it_is_rounded() {
    let of = |totals: &[f64]| {
        let rows: Vec<StackRow> =
            totals.iter().enumerate().map(|(at, total)| row(&at.to_string(), &json!({ "total": total }))).collect();
        let query = TableQuery { aggregates: vec![aggregate(Average, "total")], ..TableQuery::default() };
        let value = answered(&rows, query).unwrap().remove(0).values.remove(0);
        (value.value.unwrap(), value.is_exact)
    };
    assert_eq!(of(&[1.0, 2.0]), ("1.5".to_owned(), true));
    assert_eq!(of(&[1.0, 1.0, 2.0]), ("1.333333333333333333".to_owned(), false));
}

#[test]
fn rows_are_grouped_by_equal_values() {
    let rows = [
        row("a", &json!({ "vendor": "Acme", "total": 5, "state": "open" })),
        row("b", &json!({ "vendor": "Acme", "total": 5.0, "state": "closed" })),
        row("c", &json!({ "vendor": "Bolt", "total": 7 })),
        row("d", &json!({ "total": 1 })),
    ];
    let of = |group_by: &[&str]| {
        let group_by = group_by.iter().map(|name| (*name).to_owned()).collect();
        let query = TableQuery { group_by, aggregates: vec![aggregate(Sum, "total")], ..TableQuery::default() };
        let groups = answered(&rows, query).unwrap();
        groups.into_iter().map(|group| (group.key, group.rows, group.values[0].value.clone())).collect::<Vec<_>>()
    };
    let sum = |text: &str| Some(text.to_owned());
    assert_eq!(
        of(&["vendor"]),
        [
            (vec![None], 1, sum("1")),
            (vec![Some(json!("Acme"))], 2, sum("10")),
            (vec![Some(json!("Bolt"))], 1, sum("7"))
        ]
    );
    assert_eq!(of(&["total"]).len(), 3, "5 and 5.0 are equal");
    assert_eq!(of(&["vendor", "state"]).len(), 4);
}

#[test]
fn rejected_values_and_values_without_approval_are_skipped_as_requested() {
    let of = |row: &StackRow, approved_only| {
        let query = TableQuery { aggregates: vec![aggregate(Sum, "total")], approved_only, ..TableQuery::default() };
        answered(std::slice::from_ref(row), query).unwrap().remove(0).values.remove(0).value
    };
    let filled = row("a", &json!({ "total": 5 }));
    let review = |decision| {
        let change = StackRowChange::Review { columns: vec![2], decision: Some(decision) };
        StackRow::apply(&filled.id, &write(change), Some(filled.clone())).unwrap().after.unwrap()
    };
    let (approved, rejected) =
        (review(folio_resources::FieldDecision::Approved), review(folio_resources::FieldDecision::Rejected));
    let five = || Some("5".to_owned());
    assert_eq!([of(&filled, false), of(&approved, false), of(&rejected, false)], [five(), five(), None]);
    assert_eq!([of(&filled, true), of(&approved, true), of(&rejected, true)], [None, five(), None]);
}

#[test]
fn a_query_is_checked() {
    let new = |group_by: &[&str], aggregates: Vec<Aggregate>| {
        let group_by = group_by.iter().map(|name| (*name).to_owned()).collect();
        Aggregator::new(&stack(), TableQuery { group_by, aggregates, filter: BTreeMap::new(), approved_only: false })
            .map(drop)
    };
    let count = || aggregate(Count, "");
    new(&["VENDOR"], vec![count()]).unwrap();
    for (aggregates, field) in [
        (vec![], "aggregates"),
        (vec![count(); TABLE_AGGREGATES_MAX + 1], "aggregates"),
        (vec![aggregate(Sum, "")], "aggregates[0].column"),
        (vec![count(), aggregate(Sum, "vendor")], "aggregates[1].column"),
        (vec![aggregate(Average, "date")], "aggregates[0].column"),
        (vec![aggregate(Max, "paid")], "aggregates[0].column"),
    ] {
        assert_eq!(new(&[], aggregates).unwrap_err().violations[0].field, field);
    }
    assert!(new(&["missing"], vec![count()]).is_err() && new(&["vendor"; 5], vec![count()]).is_err());
    for &function in AggregateFunction::ALL {
        assert_eq!(AggregateFunction::from_name(function.as_str()), Some(function));
    }
}

#[test]
fn groups_and_numbers_are_bounded() {
    let many: Vec<StackRow> =
        (0..=TABLE_GROUPS_MAX).map(|pages| row(&pages.to_string(), &json!({ "pages": pages }))).collect();
    let query = |group_by: &[&str]| TableQuery {
        group_by: group_by.iter().map(|name| (*name).to_owned()).collect(),
        aggregates: vec![aggregate(Sum, "pages")],
        filter: BTreeMap::new(),
        approved_only: false,
    };
    assert_eq!(answered(&many, query(&["pages"])).unwrap_err().reason, Reason::TooLarge);
    assert_eq!(answered(&many, query(&[])).unwrap()[0].values[0].value.as_deref(), Some("500500"));
}

proptest! {
    #[test]
    fn a_sum_of_cents_is_exact(cents in prop::collection::vec(-1_000_000..1_000_000_i64, 1..50)) {
        let text = |cents: i64| {
            let sign = if cents < 0 { "-" } else { "" };
            format!("{sign}{}.{:02}", cents.abs() / 100, cents.abs() % 100)
        };
        let rows: Vec<Value> =
            cents.iter().map(|cents| json!({ "total": text(*cents).parse::<f64>().unwrap() })).collect();
        let found = results(&rows, &[(Sum, "total")]).remove(0).unwrap();
        let (found, expected) = (Rational::of_decimal(&found), Rational::of_decimal(&text(cents.iter().sum())));
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn a_filter_selects_rows_by_the_canonical_values_of_columns() {
    let rows: Vec<StackRow> = [
        json!({ "vendor": "A", "total": 1.50, "state": "open", "paid": true }),
        json!({ "vendor": "A", "total": 2.5, "state": "closed", "paid": false }),
        json!({ "vendor": "B", "total": 4, "state": "open" }),
        json!({ "total": 8 }),
    ]
    .iter()
    .enumerate()
    .map(|(at, cells)| row(&at.to_string(), cells))
    .collect();
    let sum = |filter: Value| {
        let filter = filter.as_object().unwrap().clone().into_iter().collect();
        let query = TableQuery { aggregates: vec![aggregate(Sum, "total")], filter, ..TableQuery::default() };
        answered(&rows, query).map(|mut groups| groups.remove(0).values.remove(0).value)
    };
    for (filter, expected) in [
        (json!({}), Some("16")),
        (json!({ "vendor": "A" }), Some("4")),
        (json!({ "Vendor": "A", "STATE": "OPEN" }), Some("1.5")),
        (json!({ "vendor": null }), Some("8")),
        (json!({ "paid": false }), Some("2.5")),
        (json!({ "total": 1.5 }), Some("1.5")),
        (json!({ "vendor": "C" }), None),
    ] {
        assert_eq!(sum(filter.clone()).unwrap().as_deref(), expected, "{filter}");
    }
    for (refused, reason) in [
        (json!({ "unknown": 1 }), Reason::NotFound),
        (json!({ "total": "many" }), Reason::InvalidField),
        (json!({ "state": "lost" }), Reason::InvalidField),
    ] {
        assert_eq!(sum(refused.clone()).unwrap_err().reason, reason, "{refused}");
    }
    let many: Value = (0..=TABLE_FILTER_COLUMNS_MAX).map(|at| (at.to_string(), json!(1))).collect();
    assert_eq!(sum(many).unwrap_err().violations[0].field, "filter");
}
