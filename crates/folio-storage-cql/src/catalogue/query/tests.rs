//! Tests of list queries.

use folio_types::Timestamp;

use super::*;

#[test]
fn the_period_of_a_query_includes_each_microsecond_that_its_conditions_permit() {
    let created = |start: Option<i64>, end: Option<i64>| {
        let at = |nanoseconds: i64| Timestamp::from_nanosecond(nanoseconds.into()).unwrap();
        Condition::Created(CreationPeriod { start: start.map(at), end: end.map(at) })
    };
    assert_eq!(period(&[]), ALL_TIMES);
    assert_eq!(period(&[created(None, None)]), ALL_TIMES);
    assert_eq!(period(&[created(Some(5_999), None)]), (5, i64::MAX));
    assert_eq!(period(&[created(Some(2_000), Some(7_001)), created(Some(1_000), Some(9_000))]), (2, 7));
}

#[test]
fn only_kinds_without_parents_are_listed_by_name() {
    for (kind, expected) in [("tag", true), ("thread", true), ("extraction", false)] {
        assert_eq!(Query::new(kind, &[], String::new()).has_names, expected, "{kind}");
    }
}
