use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

type Org = &'static str;

/// Asks for a place with a name for the call.
fn waits(shares: &mut Shares<Org, String>, of: Org, weight: u32, name: &str) -> Ticket {
    match shares.ask(&of, weight, name.to_owned()) {
        Asked::Waits(ticket, None) => ticket,
        other => panic!("{name}: {other:?}"),
    }
}

fn order(shares: &mut Shares<Org, String>) -> Vec<String> {
    std::iter::from_fn(|| shares.free()).collect()
}

#[test]
fn a_burst_is_one_turn_each_however_long_it_is() {
    let mut shares = Shares::new(1, 100);
    assert_eq!(shares.ask(&"flood", 1, String::new()), Asked::Taken);
    for at in 0..6 {
        waits(&mut shares, "flood", 1, &format!("flood {at}"));
    }
    for at in 0..2 {
        waits(&mut shares, "quiet", 1, &format!("quiet {at}"));
    }
    let expected =
        ["flood 0", "quiet 0", "flood 1", "quiet 1", "flood 2", "flood 3", "flood 4", "flood 5"].map(str::to_owned);
    assert_eq!(order(&mut shares), expected);
    assert_eq!((shares.taken(), shares.waiting(), shares.queues.len(), shares.circle.len()), (0, 0, 0, 0));
}

#[test]
fn a_weight_is_a_longer_turn() {
    let mut shares = Shares::new(1, 100);
    assert_eq!(shares.ask(&"a", 1, String::new()), Asked::Taken);
    for at in 0..6 {
        waits(&mut shares, "a", 1, &format!("a{at}"));
        waits(&mut shares, "b", 3, &format!("b{at}"));
    }
    let expected = ["a0", "b0", "b1", "b2", "a1", "b3", "b4", "b5", "a2", "a3", "a4", "a5"].map(str::to_owned);
    assert_eq!(order(&mut shares), expected);
}

/// Under virtual time: two places, calls of one second. Who comes in the midst of another one's burst waits for one place, and
/// not for the burst.
#[test]
fn who_comes_late_waits_for_the_next_place_only() {
    let mut shares = Shares::new(2, 100);
    let mut ends: Vec<(u64, String)> = Vec::new();
    let mut begun: BTreeMap<String, u64> = BTreeMap::new();
    let mut arrivals: Vec<(u64, Org, String)> = (0..20).map(|at| (0, "flood", format!("flood {at}"))).collect();
    arrivals.extend([(2_500, "quiet", "quiet 0".to_owned()), (2_600, "quiet", "quiet 1".to_owned())]);
    for now in 0..20_000 {
        for (_, of, name) in arrivals.iter().filter(|(at, ..)| *at == now) {
            if shares.ask(of, 1, name.clone()) == Asked::Taken {
                begun.insert(name.clone(), now);
                ends.push((now + 1_000, name.clone()));
            }
        }
        for at in (0..ends.len()).rev().filter(|at| ends[*at].0 == now).collect::<Vec<_>>() {
            ends.remove(at);
            if let Some(name) = shares.free() {
                begun.insert(name.clone(), now);
                ends.push((now + 1_000, name));
            }
        }
    }
    assert_eq!((begun["quiet 0"], begun["quiet 1"]), (3_000, 4_000), "{begun:?}");
    assert_eq!(begun["flood 19"], 10_000, "all of the flood came, too");
}

#[test]
fn who_leaves_gives_its_turn_back() {
    let mut shares = Shares::new(1, 10);
    assert_eq!(shares.ask(&"a", 1, String::new()), Asked::Taken);
    let first = waits(&mut shares, "a", 1, "a0");
    waits(&mut shares, "b", 1, "b0");
    assert!(shares.leave(&"a", first));
    assert!(!shares.leave(&"a", first) && !shares.leave(&"b", 99));
    assert_eq!(order(&mut shares), ["b0"]);
}

#[test]
fn a_full_queue_makes_room_for_who_has_less_of_it() {
    let mut shares = Shares::new(1, 4);
    assert_eq!(shares.ask(&"flood", 1, String::new()), Asked::Taken);
    for at in 0..4 {
        waits(&mut shares, "flood", 1, &at.to_string());
    }
    assert_eq!(shares.ask(&"flood", 1, "4".into()), Asked::Full);
    let put_out = |asked| if let Asked::Waits(_, out) = asked { out } else { None };
    assert_eq!(put_out(shares.ask(&"quiet", 1, "q0".into())), Some("3".into()), "the newest goes");
    assert_eq!(put_out(shares.ask(&"quiet", 1, "q1".into())), Some("2".into()));
    assert_eq!(shares.ask(&"quiet", 1, "q2".into()), Asked::Full, "half each");
    assert!(put_out(shares.ask(&"heavy", 2, "h0".into())).is_some());
    assert_eq!(shares.waiting(), 4);
    assert_eq!(Shares::new(0, 0).ask(&"a", 1, ()), Asked::Full);
}

#[derive(Debug, Clone)]
enum Step {
    Ask(usize),
    Free,
    Leave(usize),
}

const ORGS: [Org; 4] = ["a", "b", "c", "d"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..ORGS.len()).prop_map(Step::Ask),
        3 => Just(Step::Free),
        1 => (0..64usize).prop_map(Step::Leave),
    ];
    vec(step, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Work conserving, bounded, nobody starves, and what one waits for is bounded by the turns of the others.
    #[test]
    fn any_history_keeps_what_was_promised(
        steps in steps(), weights in vec(1..4u32, ORGS.len()), places in 1..4usize, most in 0..12usize,
    ) {
        let mut shares: Shares<Org, usize> = Shares::new(places, most);
        // Of each call that waits: whose it is, its ticket, and how many places others may still take before it.
        let mut waiting: BTreeMap<usize, (usize, Ticket, u32)> = BTreeMap::new();
        let mut taken = 0;
        let total: u32 = weights.iter().sum();
        for (call, step) in steps.into_iter().enumerate() {
            match step {
                Step::Ask(of) => match shares.ask(&ORGS[of], weights[of], call) {
                    Asked::Taken => {
                        prop_assert!(taken < places && waiting.is_empty());
                        taken += 1;
                    }
                    Asked::Waits(ticket, out) => {
                        prop_assert_eq!(taken, places, "nobody waits while a place is free");
                        if let Some(out) = out {
                            prop_assert!(waiting.remove(&out).is_some());
                        }
                        let before = waiting.values().filter(|(other, ..)| *other == of).count();
                        let turns = u32::try_from(before).unwrap() / weights[of] + 2;
                        waiting.insert(call, (of, ticket, turns * total));
                    }
                    Asked::Full => {
                        prop_assert_eq!(taken, places);
                        prop_assert_eq!(waiting.len(), most);
                    }
                },
                Step::Free if taken == 0 => {}
                Step::Free => match shares.free() {
                    None => {
                        prop_assert!(waiting.is_empty(), "a place is given to who waits");
                        taken -= 1;
                    }
                    Some(next) => {
                        let (of, ticket, _) = waiting.remove(&next).unwrap();
                        let first = waiting.values().all(|(other, later, _)| *other != of || *later > ticket);
                        prop_assert!(first, "within an organization the first is first");
                        for (_, _, left) in waiting.values_mut() {
                            prop_assert!(*left > 0, "a call waits for too many others");
                            *left -= 1;
                        }
                    }
                },
                Step::Leave(at) => {
                    if let Some(call) = waiting.keys().nth(at).copied() {
                        let (of, ticket, _) = waiting.remove(&call).unwrap();
                        prop_assert!(shares.leave(&ORGS[of], ticket));
                    }
                }
            }
            prop_assert!(waiting.len() <= most && taken <= places);
            prop_assert_eq!((shares.taken(), shares.waiting()), (taken, waiting.len()));
            prop_assert_eq!(shares.circle.len(), shares.queues.len());
        }
        while shares.free().is_some() {}
        for _ in 0..places { shares.free(); }
        prop_assert_eq!((shares.waiting(), shares.taken()), (0, 0), "all had their turn");
    }
}
