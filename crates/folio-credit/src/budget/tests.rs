use super::*;

fn budget(credits: u64) -> Budget {
    Budget::open(None, 1, credits).unwrap()
}

fn is_exhausted(result: Result<()>) -> bool {
    matches!(result, Err(error) if error.reason == Reason::BudgetExhausted && !error.is_retriable())
}

#[test]
fn a_call_whose_maximum_cost_exceeds_the_rest_is_refused() {
    let mut budget = budget(10);
    budget.reserve(None, "a", 6).unwrap();
    assert!(is_exhausted(budget.reserve(None, "b", 5)));
    budget.reserve(None, "a", 6).unwrap();
    assert_eq!(budget.rest(), 4, "a repeated reservation counts once");
    budget.settle(None, "a", 2);
    budget.settle(None, "a", 2);
    assert_eq!((budget.own.used, budget.rest()), (2, 8));
    budget.reserve(None, "b", 8).unwrap();
    budget.settle(None, "b", 100);
    assert_eq!((budget.own.used, budget.rest()), (10, 0), "a call never costs more than its reservation");
    budget.reserve(None, "free", 0).unwrap();
}

#[test]
fn a_child_spends_its_part_and_returns_the_rest() {
    let mut budget = budget(10);
    budget.grant("a", 3).unwrap();
    budget.grant("a", 1).unwrap();
    assert_eq!((budget.parts["a"].credits, budget.rest()), (3, 7), "a part is fixed");
    assert!(is_exhausted(budget.reserve(Some("a"), "a1", 4)));
    assert!(is_exhausted(budget.reserve(Some("b"), "b1", 1)), "a child without a part makes no call");
    budget.reserve(Some("a"), "a1", 3).unwrap();
    budget.settle(Some("a"), "a1", 1);
    budget.reserve(Some("a"), "a2", 1).unwrap();
    budget.take_back("a");
    budget.take_back("a");
    assert_eq!((budget.own.used, budget.rest()), (2, 8), "a call in flight counts as used");
    budget.settle(Some("a"), "a2", 0);
    assert_eq!(budget.rest(), 8);
}

#[test]
fn open_children_receive_equal_parts_and_the_last_one_the_whole_rest() {
    let mut budget = budget(10);
    for (child, part) in [("a", 3), ("b", 3), ("c", 4)] {
        budget.grant(child, 3).unwrap();
        assert_eq!(budget.parts[child].credits, part, "{child}");
    }
    budget.grant("d", 0).unwrap();
    assert_eq!(budget.parts["d"].credits, 0);
    budget.take_back("a");
    budget.take_back("b");
    budget.grant("e", 4).unwrap();
    assert_eq!(budget.parts["e"].credits, 3, "two of the four open children have parts");
}

#[test]
fn parts_and_reservations_are_bounded() {
    let mut budget = budget(1_000);
    for child in 0..PARTS_MAX {
        budget.grant(&child.to_string(), 1_000).unwrap();
    }
    assert_eq!(budget.grant("more", 1_000).unwrap_err().reason, Reason::Overloaded);
    let mut budget = Budget::open(None, 1, 1_000).unwrap();
    for call in 0..=RESERVED_MAX {
        budget.reserve(None, &call.to_string(), 1).unwrap();
    }
    assert_eq!((budget.own.reserved.len(), budget.own.used), (RESERVED_MAX, 1));
    assert_eq!(budget.own.spent(), u64::try_from(RESERVED_MAX).unwrap() + 1);
}

#[test]
fn the_next_turn_of_a_thread_replaces_the_budget() {
    let mut first = budget(10);
    first.reserve(None, "a", 6).unwrap();
    assert_eq!(Budget::open(Some(first.clone()), 1, 99).unwrap(), first, "the first amount counts");
    let second = Budget::open(Some(first), 2, 5).unwrap();
    assert_eq!((second.number, second.rest()), (2, 5));
    assert_eq!(Budget::open(Some(second), 1, 10).unwrap_err().reason, Reason::VersionConflict);
}
