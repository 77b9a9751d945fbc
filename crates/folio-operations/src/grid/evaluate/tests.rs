use super::*;
use crate::grid::GridSort;

const COLUMNS: &[Column] = &[
    Column { name: "name", kind: ColumnKind::Text },
    Column { name: "create_time", kind: ColumnKind::Time },
    Column { name: "tag_ids", kind: ColumnKind::Reference },
];

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Returns rows with a name, a day of January 2026 on which they were created, and tags.
fn rows(grid: &CheckedGrid, values: &[(&str, u8, &[&str])]) -> Vec<Row> {
    let row = |(name, day, tags): &(&str, u8, &[&str])| {
        let created_at = at(&format!("2026-01-{day:02}T12:00:30Z"));
        let cell = |column: &Column| match column.name {
            "name" => Cell::Text((*name).to_owned()),
            "create_time" => Cell::Time(created_at),
            _ => Cell::References(tags.iter().map(|tag| (*tag).to_owned()).collect()),
        };
        Row {
            id: format!("{name}-{day}"),
            name: (*name).to_owned(),
            created_at,
            cells: grid.columns.iter().map(cell).collect(),
        }
    };
    values.iter().map(row).collect()
}

/// Returns the names of the rows that a grid selects, in order.
fn select(grid: &Grid, values: &[(&str, u8, &[&str])]) -> Vec<String> {
    let names = [("tag_1", "Invoice"), ("tag_2", "paid")].map(|(id, name)| (id.to_owned(), name.to_owned()));
    let grid = CheckedGrid::new(grid, &[], COLUMNS).unwrap();
    let rows = rows(&grid, values);
    grid.select(&rows, &names.into()).into_iter().map(|position| rows[position].name.clone()).collect()
}

fn filter(field: &str, operator: GridOperator, values: &[&str]) -> GridFilter {
    GridFilter { field: field.to_owned(), operator, values: values.iter().map(|&value| value.to_owned()).collect() }
}

fn grid(filters: Vec<GridFilter>) -> Grid {
    Grid { filters, ..Grid::default() }
}

#[test]
fn the_operators_of_texts_ignore_case_except_those_of_equality() {
    use GridOperator as Op;
    let values: &[(&str, u8, &[&str])] = &[("Alpha", 4, &[]), ("alpha", 3, &[]), ("Über", 2, &[]), ("", 1, &[])];
    for (operator, texts, expected) in [
        (Op::Contains, &["LPH"][..], &["Alpha", "alpha"][..]),
        (Op::DoesNotContain, &["LPH"], &["Über", ""]),
        (Op::Equals, &["Alpha"], &["Alpha"]),
        (Op::DoesNotEqual, &["Alpha"], &["alpha", "Über", ""]),
        (Op::StartsWith, &["üB"], &["Über"]),
        (Op::EndsWith, &["HA"], &["Alpha", "alpha"]),
        (Op::IsEmpty, &[], &[""]),
        (Op::IsNotEmpty, &[], &["Alpha", "alpha", "Über"]),
        (Op::IsAnyOf, &["alpha", "Über", "x"], &["alpha", "Über"]),
    ] {
        assert_eq!(select(&grid(vec![filter("name", operator, texts)]), values), expected, "{operator:?}");
    }
}

#[test]
fn texts_match_the_names_of_references_and_lists_also_their_ids() {
    use GridOperator as Op;
    let values: &[(&str, u8, &[&str])] =
        &[("both", 4, &["tag_1", "tag_2"]), ("one", 3, &["tag_1"]), ("none", 2, &[]), ("deleted", 1, &["tag_9"])];
    for (operator, texts, expected) in [
        (Op::Contains, &["VOI"][..], &["both", "one"][..]),
        (Op::DoesNotContain, &["VOI"], &["none", "deleted"]),
        (Op::Equals, &["INVOICE"], &["both", "one"]),
        (Op::DoesNotEqual, &["Paid"], &["one", "none", "deleted"]),
        (Op::StartsWith, &["p"], &["both"]),
        (Op::EndsWith, &["ICE"], &["both", "one"]),
        (Op::IsEmpty, &[], &["none"]),
        (Op::IsNotEmpty, &[], &["both", "one", "deleted"]),
        (Op::IsAnyOf, &["tag_9", "PAID"], &["both", "deleted"]),
        (Op::Contains, &["tag_1"], &[]),
    ] {
        assert_eq!(select(&grid(vec![filter("tag_ids", operator, texts)]), values), expected, "{operator:?}");
    }
}

#[test]
fn a_time_is_compared_with_the_period_that_a_value_names() {
    use GridOperator as Op;
    let values: &[(&str, u8, &[&str])] = &[("third", 3, &[]), ("second", 2, &[]), ("first", 1, &[])];
    for (operator, time, expected) in [
        (Op::On, "2026-01-02", &["second"][..]),
        (Op::NotOn, "2026-01-02", &["third", "first"]),
        (Op::After, "2026-01-02", &["third"]),
        (Op::OnOrAfter, "2026-01-02", &["third", "second"]),
        (Op::Before, "2026-01-02", &["first"]),
        (Op::OnOrBefore, "2026-01-02", &["second", "first"]),
        (Op::On, "2026-01-02T12:00", &["second"]),
        (Op::On, "2026-01-02T12:00:30Z", &["second"]),
        (Op::On, "2026-01-02T12:00:31", &[]),
        (Op::On, "2026-01-02T13:00:30+01:00", &["second"]),
        (Op::Before, "2026-01-02T12:00:30", &["first"]),
    ] {
        assert_eq!(
            select(&grid(vec![filter("create_time", operator, &[time])]), values),
            expected,
            "{operator:?} {time}"
        );
    }
}

#[test]
fn a_date_is_a_day_and_a_time_without_seconds_a_minute() {
    let lasts = |text: &str| period(text).map(|(start, end)| end.duration_since(start).as_secs());
    for (text, seconds) in [
        ("2026-01-31", Some(86_400)),
        ("2026-01-31T08:15", Some(60)),
        ("2026-01-31T08:15Z", Some(60)),
        ("2026-01-31T08:15:01", Some(1)),
        ("2026-01-31T08:15:01.5-02:30", Some(1)),
        ("2026-01-31 08:15:01", Some(1)),
        ("2026-02-30", None),
        ("yesterday", None),
        ("", None),
        ("9999-12-31", None),
    ] {
        assert_eq!(lasts(text), seconds, "{text}");
    }
    assert_eq!(period("2026-01-31T01:00:00+02:00").unwrap().0, at("2026-01-30T23:00:00Z"));
}

#[test]
fn all_filters_must_hold_or_any_of_them() {
    use GridOperator as Op;
    let values: &[(&str, u8, &[&str])] = &[("a", 3, &["tag_1"]), ("ab", 2, &[]), ("b", 1, &["tag_1"])];
    let filters = vec![filter("name", Op::Contains, &["a"]), filter("tag_ids", Op::IsNotEmpty, &[])];
    assert_eq!(select(&grid(filters.clone()), values), ["a"]);
    assert_eq!(select(&Grid { filters, any: true, ..Grid::default() }, values), ["a", "ab", "b"]);
    assert_eq!(select(&Grid { any: true, ..Grid::default() }, values), ["a", "ab", "b"], "no filter");
}

#[test]
fn a_required_filter_holds_for_each_row_that_any_filter_selects() {
    use GridOperator as Op;
    let filters = vec![filter("name", Op::Equals, &["a"]), filter("name", Op::Equals, &["b"])];
    let required = [filter("tag_ids", Op::IsNotEmpty, &[])];
    let grid = CheckedGrid::new(&Grid { filters, any: true, ..Grid::default() }, &required, COLUMNS).unwrap();
    let rows = rows(&grid, &[("a", 3, &["tag_1"]), ("b", 2, &[]), ("c", 1, &["tag_1"])]);
    assert_eq!(grid.select(&rows, &Names::new()), [0]);
}

#[test]
fn rows_are_ordered_by_relevance_then_by_the_sort_keys_then_newest_first() {
    let values: &[(&str, u8, &[&str])] = &[
        ("b", 1, &["tag_2"]),
        ("A", 2, &["tag_1"]),
        ("b", 3, &["tag_1"]),
        ("xb", 4, &[]),
        ("B", 5, &["tag_2"]),
        ("bx", 6, &[]),
    ];
    let sort = |keys: &[(&str, bool)], name_search: &str| {
        let key = |(field, descending): &(&str, bool)| GridSort { field: (*field).to_owned(), descending: *descending };
        let sort = keys.iter().map(key).collect();
        select(&Grid { sort, name_search: name_search.to_owned(), ..Grid::default() }, values)
    };
    assert_eq!(sort(&[], ""), ["bx", "B", "xb", "b", "A", "b"], "newest first");
    assert_eq!(sort(&[("name", false)], ""), ["A", "B", "b", "b", "bx", "xb"]);
    assert_eq!(sort(&[("name", true)], ""), ["xb", "bx", "B", "b", "b", "A"]);
    assert_eq!(sort(&[("tag_ids", false), ("create_time", false)], ""), ["xb", "bx", "A", "b", "b", "B"]);
    assert_eq!(sort(&[], "B"), ["B", "b", "b", "bx", "xb"]);
    assert_eq!(sort(&[("create_time", false)], "b"), ["b", "b", "B", "bx", "xb"]);
    assert_eq!(sort(&[], "nothing"), Vec::<String>::new());
}

#[test]
fn an_invalid_grid_is_refused_with_the_path_of_the_problem() {
    use GridOperator as Op;
    let refused = |grid: Grid| CheckedGrid::new(&grid, &[], COLUMNS).unwrap_err().violations[0].field.clone();
    let long = "x".repeat(limits::SEARCH_CHARS + 1);
    let many: Vec<&str> = vec!["x"; VALUES_MAX + 1];
    for (bad, path) in [
        (filter("color", Op::Equals, &["x"]), "grid.filters[0].field"),
        (filter("name", Op::On, &["2026-01-01"]), "grid.filters[0].operator"),
        (filter("create_time", Op::Contains, &["2026"]), "grid.filters[0].operator"),
        (filter("create_time", Op::On, &["soon"]), "grid.filters[0].values"),
        (filter("name", Op::Equals, &[]), "grid.filters[0].values"),
        (filter("name", Op::Equals, &["a", "b"]), "grid.filters[0].values"),
        (filter("name", Op::IsAnyOf, &[]), "grid.filters[0].values"),
        (filter("name", Op::IsEmpty, &["x"]), "grid.filters[0].values"),
        (filter("name", Op::Contains, &[" "]), "grid.filters[0].values"),
        (filter("name", Op::Contains, &[&long]), "grid.filters[0].values"),
        (filter("name", Op::IsAnyOf, &many), "grid.filters[0].values"),
    ] {
        assert_eq!(refused(grid(vec![bad.clone()])), path, "{bad:?}");
    }
    let key = |field: &str| GridSort { field: field.to_owned(), descending: false };
    assert_eq!(refused(Grid { sort: vec![key("name"), key("size")], ..Grid::default() }), "grid.sort[1].field");
    assert_eq!(refused(Grid { sort: vec![key("name"); SORT_KEYS_MAX + 1], ..Grid::default() }), "grid.sort");
    assert_eq!(refused(grid(vec![filter("name", Op::IsEmpty, &[]); FILTERS_MAX + 1])), "grid.filters");
    assert_eq!(refused(Grid { name_search: long, ..Grid::default() }), "grid.name_search");
}
