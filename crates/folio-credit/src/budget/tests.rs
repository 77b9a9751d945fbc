use super::*;

const ROOT: &str = "";

fn budget(credits: u64) -> Budget {
    Budget::new(1, credits)
}

fn is_exhausted(result: Result<()>) -> bool {
    matches!(result, Err(error) if error.reason == Reason::BudgetExhausted && !error.is_retriable())
}

#[test]
fn a_call_whose_maximum_cost_exceeds_the_rest_is_refused() {
    let mut budget = budget(10);
    budget.reserve(ROOT, "a", 6).unwrap();
    assert!(is_exhausted(budget.reserve(ROOT, "b", 5)));
    budget.reserve(ROOT, "a", 6).unwrap();
    assert_eq!(budget.rest(), 4, "a repeated reservation counts once");
    budget.settle(ROOT, "a", 2);
    budget.settle(ROOT, "a", 2);
    assert_eq!((budget.own.used, budget.rest()), (2, 8));
    budget.reserve(ROOT, "b", 8).unwrap();
    budget.settle(ROOT, "b", 100);
    assert_eq!((budget.own.used, budget.rest()), (10, 0), "a call never costs more than its reservation");
    budget.reserve(ROOT, "free", 0).unwrap();
}

#[test]
fn a_child_spends_its_part_and_returns_the_rest() {
    let mut budget = budget(10);
    budget.grant("a", Share::Equal { open: 3 }).unwrap();
    budget.grant("a", Share::Equal { open: 1 }).unwrap();
    assert_eq!((budget.parts["a"].credits, budget.rest()), (3, 7), "a part is fixed");
    assert!(is_exhausted(budget.reserve("a", "a1", 4)));
    assert!(is_exhausted(budget.reserve("b", "b1", 1)), "a child without a part makes no call");
    budget.reserve("a", "a1", 3).unwrap();
    budget.settle("a", "a1", 1);
    budget.reserve("a", "a2", 1).unwrap();
    budget.take_back("a");
    budget.take_back("a");
    assert_eq!((budget.own.used, budget.rest()), (2, 8), "a call in flight counts as used");
    budget.settle("a", "a2", 0);
    assert_eq!(budget.rest(), 8);
}

#[test]
fn open_children_receive_equal_parts_and_the_last_one_the_whole_rest() {
    let mut budget = budget(10);
    for (child, part) in [("a", 3), ("b", 3), ("c", 4)] {
        budget.grant(child, Share::Equal { open: 3 }).unwrap();
        assert_eq!(budget.parts[child].credits, part, "{child}");
    }
    budget.grant("d", Share::Equal { open: 0 }).unwrap();
    assert_eq!(budget.parts["d"].credits, 0);
    budget.take_back("a");
    budget.take_back("b");
    budget.grant("e", Share::Equal { open: 4 }).unwrap();
    assert_eq!(budget.parts["e"].credits, 3, "two of the four open children have parts");
}

#[test]
fn a_job_of_a_turn_receives_half_of_the_rest() {
    let mut budget = budget(11);
    for (job, part, rest) in [("a", 5, 6), ("b", 3, 3), ("c", 1, 2)] {
        budget.grant(job, Share::Half).unwrap();
        assert_eq!((budget.parts[job].credits, budget.rest()), (part, rest), "{job}");
    }
}

#[test]
fn the_items_of_a_group_share_its_part_and_return_with_it() {
    let mut budget = budget(20);
    budget.reserve(ROOT, "own", 2).unwrap();
    budget.grant("job", Share::Half).unwrap();
    assert!(is_exhausted(budget.grant("other/1", Share::Half)), "a group without a part has no items");
    for item in ["job/1", "job/2"] {
        budget.grant(item, Share::Equal { open: 2 }).unwrap();
    }
    budget.grant("jobs", Share::Half).unwrap();
    let parts: Vec<_> = budget.parts.iter().map(|(path, part)| (path.as_str(), part.credits)).collect();
    assert_eq!(parts, [("job", 9), ("job/1", 4), ("job/2", 5), ("jobs", 4)]);
    assert!(is_exhausted(budget.reserve("job", "group", 1)), "the items have the whole part of their group");

    budget.reserve("job/1", "a", 4).unwrap();
    budget.settle("job/1", "a", 1);
    budget.take_back_ended("job/3", |item| item == "1");
    assert_eq!(budget.use_of("job"), Some(BudgetUse { credits: 9, used: 1, rest: 3 }));
    budget.reserve("job/2", "b", 5).unwrap();
    assert_eq!(budget.use_of("job"), Some(BudgetUse { credits: 9, used: 6, rest: 3 }));
    assert_eq!(budget.use_of(ROOT), Some(BudgetUse { credits: 20, used: 8, rest: 5 }));
    budget.take_back("job");
    assert_eq!(budget.use_of("job"), None);
    assert_eq!(budget.use_of(ROOT), Some(BudgetUse { credits: 20, used: 8, rest: 8 }), "the call of item 2 is used");
    assert!(budget.parts.contains_key("jobs"), "another job with a similar name keeps its part");
    assert!(is_exhausted(budget.grant("job/3", Share::Half)), "a late item of an ended job receives no part");
    budget.take_back(ROOT);
    assert_eq!(budget.use_of(ROOT), Some(BudgetUse { credits: 20, used: 8, rest: 12 }));
}

#[test]
fn parts_and_reservations_are_bounded() {
    let mut budget = budget(1_000);
    for child in 0..PARTS_MAX {
        budget.grant(&child.to_string(), Share::Equal { open: 1_000 }).unwrap();
    }
    assert_eq!(budget.grant("more", Share::Half).unwrap_err().reason, Reason::Overloaded);
    for child in 0..PARTS_IN_ALL_MAX - PARTS_MAX {
        budget.grant(&format!("{child}/1"), Share::Half).unwrap();
    }
    assert_eq!(budget.grant("0/2", Share::Half).unwrap_err().reason, Reason::Overloaded);
    budget.take_back("1");
    budget.grant("0/2", Share::Half).unwrap();
    let mut budget = Budget::new(1, 1_000);
    for call in 0..=RESERVED_MAX {
        budget.reserve(ROOT, &call.to_string(), 1).unwrap();
    }
    assert_eq!((budget.own.reserved.len(), budget.own.used), (RESERVED_MAX, 1));
    assert_eq!(budget.own.spent(), u64::try_from(RESERVED_MAX).unwrap() + 1);
}
