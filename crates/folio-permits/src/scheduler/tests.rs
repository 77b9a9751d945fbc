use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

type Key = &'static str;

/// Creates a scheduler without a bound per key.
fn scheduler<W>(total: usize, waiters: usize) -> Scheduler<Key, W> {
    Scheduler::new(Bounds { total: Amount::permits(total), per_key: Amount::UNBOUNDED, waiters })
}

/// Queues a waiter. Panics if a permit is free.
fn queue(scheduler: &mut Scheduler<Key, String>, key: Key, weight: u32, name: &str) -> Ticket {
    match scheduler.request(&key, weight, name.to_owned()) {
        RequestOutcome::Queued(ticket, None) => ticket,
        other => panic!("{name}: {other:?}"),
    }
}

/// Releases the only permit until no waiter is left. Returns the waiters in the order in which they received it.
fn order(scheduler: &mut Scheduler<Key, String>, mut holder: Key) -> Vec<String> {
    let mut served = Vec::new();
    while let Some((key, name)) = scheduler.release(&holder, 0) {
        holder = key;
        served.push(name);
    }
    served
}

fn is_empty<W>(scheduler: &Scheduler<Key, W>) -> bool {
    let Scheduler { used, used_by, waiting, queues, ring, .. } = scheduler;
    *used == Amount::default() && used_by.is_empty() && *waiting == 0 && queues.is_empty() && ring.is_empty()
}

#[test]
fn a_burst_gets_one_permit_in_each_round() {
    let mut scheduler = scheduler(1, 100);
    assert_eq!(scheduler.request(&"flood", 1, String::new()), RequestOutcome::Granted);
    for at in 0..6 {
        queue(&mut scheduler, "flood", 1, &format!("flood {at}"));
    }
    for at in 0..2 {
        queue(&mut scheduler, "quiet", 1, &format!("quiet {at}"));
    }
    let expected =
        ["flood 0", "quiet 0", "flood 1", "quiet 1", "flood 2", "flood 3", "flood 4", "flood 5"].map(str::to_owned);
    assert_eq!(order(&mut scheduler, "flood"), expected);
    assert!(is_empty(&scheduler));
}

#[test]
fn a_key_takes_its_weight_in_each_round() {
    let mut scheduler = scheduler(1, 100);
    assert_eq!(scheduler.request(&"a", 1, String::new()), RequestOutcome::Granted);
    for at in 0..6 {
        queue(&mut scheduler, "a", 1, &format!("a{at}"));
        queue(&mut scheduler, "b", 3, &format!("b{at}"));
    }
    let expected = ["a0", "b0", "b1", "b2", "a1", "b3", "b4", "b5", "a2", "a3", "a4", "a5"].map(str::to_owned);
    assert_eq!(order(&mut scheduler, "a"), expected);
}

/// Two permits, each used for one second of virtual time. A caller that arrives during the burst of another key waits
/// for one permit, not for the burst.
#[test]
fn a_late_caller_waits_for_the_next_permit_only() {
    let mut scheduler = scheduler(2, 100);
    let mut ends: Vec<(u64, Key)> = Vec::new();
    let mut started: BTreeMap<String, u64> = BTreeMap::new();
    let mut arrivals: Vec<(u64, Key, String)> = (0..20).map(|at| (0, "flood", format!("flood {at}"))).collect();
    arrivals.extend([(2_500, "quiet", "quiet 0".to_owned()), (2_600, "quiet", "quiet 1".to_owned())]);
    for now in 0..20_000 {
        for (_, key, name) in arrivals.iter().filter(|(at, ..)| *at == now) {
            if scheduler.request(key, 1, name.clone()) == RequestOutcome::Granted {
                started.insert(name.clone(), now);
                ends.push((now + 1_000, key));
            }
        }
        for at in (0..ends.len()).rev().filter(|at| ends[*at].0 == now).collect::<Vec<_>>() {
            let (_, ended) = ends.remove(at);
            if let Some((key, name)) = scheduler.release(&ended, 0) {
                started.insert(name, now);
                ends.push((now + 1_000, key));
            }
        }
    }
    assert_eq!((started["quiet 0"], started["quiet 1"]), (3_000, 4_000), "{started:?}");
    assert_eq!(started["flood 19"], 10_000, "every call of the burst was served");
    assert!(is_empty(&scheduler));
}

#[test]
fn a_cancelled_waiter_leaves_the_queue() {
    let mut scheduler = scheduler(1, 10);
    assert_eq!(scheduler.request(&"a", 1, String::new()), RequestOutcome::Granted);
    let first = queue(&mut scheduler, "a", 1, "a0");
    queue(&mut scheduler, "b", 1, "b0");
    assert!(scheduler.cancel(&"a", first));
    assert!(!scheduler.cancel(&"a", first) && !scheduler.cancel(&"b", 99));
    assert_eq!(order(&mut scheduler, "a"), ["b0"]);
}

#[test]
fn a_full_queue_evicts_from_the_key_with_the_most_waiters() {
    let mut full = scheduler(1, 5);
    assert_eq!(full.request(&"flood", 1, String::new()), RequestOutcome::Granted);
    for at in 0..5 {
        queue(&mut full, "flood", 1, &at.to_string());
    }
    assert_eq!(full.request(&"flood", 1, "5".into()), RequestOutcome::QueueFull);
    let evicted = |requested| if let RequestOutcome::Queued(_, evicted) = requested { evicted } else { None };
    assert_eq!(evicted(full.request(&"quiet", 1, "q0".into())), Some("4".into()), "the newest waiter");
    assert_eq!(evicted(full.request(&"quiet", 1, "q1".into())), Some("3".into()));
    assert_eq!(full.request(&"quiet", 1, "q2".into()), RequestOutcome::QueueFull, "it would have as many");
    assert!(evicted(full.request(&"heavy", 2, "h0".into())).is_some());
    assert_eq!(full.waiting(), 5);
    assert_eq!(scheduler(0, 0).request(&"a", 1, ()), RequestOutcome::QueueFull);
}

#[test]
fn a_key_at_its_own_bound_is_skipped_and_served_when_it_releases() {
    let bounds = Bounds { total: Amount::permits(3), per_key: Amount::permits(1), waiters: 8 };
    let mut scheduler = Scheduler::new(bounds);
    for key in ["a", "b"] {
        assert_eq!(scheduler.request(&key, 1, String::new()), RequestOutcome::Granted);
    }
    queue(&mut scheduler, "a", 1, "a0");
    assert_eq!(scheduler.request(&"c", 1, String::new()), RequestOutcome::Granted, "another key does not wait");
    queue(&mut scheduler, "c", 1, "c0");
    assert_eq!(scheduler.release(&"b", 0), None, "both waiters belong to keys at their bound");
    assert_eq!(scheduler.release(&"c", 0), Some(("c", "c0".to_owned())), "a is skipped");
    assert_eq!(scheduler.release(&"a", 0), Some(("a", "a0".to_owned())));
    assert_eq!((scheduler.release(&"a", 0), scheduler.release(&"c", 0)), (None, None));
    assert!(is_empty(&scheduler));
}

#[derive(Debug, Clone)]
enum Step {
    Request(usize),
    Release(usize),
    Cancel(usize),
}

const KEYS: [Key; 4] = ["a", "b", "c", "d"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..KEYS.len()).prop_map(Step::Request),
        3 => (0..64usize).prop_map(Step::Release),
        1 => (0..64usize).prop_map(Step::Cancel),
    ];
    vec(step, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Permits and waiters are bounded, no permit is free while a caller may have it, and a waiter waits for a bounded
    /// number of permits of other keys (without a bound of each key).
    #[test]
    fn any_history_keeps_the_bounds_and_the_fair_shares(
        steps in steps(), weights in vec(1..4u32, KEYS.len()), total in 1..4usize, per_key_max in 1..5usize, waiters_max in 0..12usize,
    ) {
        // `total` is at most 3, so 4 permits per key mean no bound per key.
        let (per_key, is_unbounded) = if per_key_max == 4 { (Amount::UNBOUNDED, true) } else { (Amount::permits(per_key_max), false) };
        let mut scheduler: Scheduler<Key, usize> =
            Scheduler::new(Bounds { total: Amount::permits(total), per_key, waiters: waiters_max });
        // For each waiter: its key, its ticket, and how many permits other waiters may still take before it.
        let mut waiting: BTreeMap<usize, (usize, Ticket, u32)> = BTreeMap::new();
        let mut holders: Vec<Key> = Vec::new();
        let round: u32 = weights.iter().sum();
        let permits_of = |holders: &[Key], key: Key| holders.iter().filter(|holder| **holder == key).count();
        let has_free_permit = |holders: &[Key], key: Key| holders.len() < total && permits_of(holders, key) < per_key.permits;
        for (call, step) in steps.into_iter().enumerate() {
            match step {
                Step::Request(of) => match scheduler.request(&KEYS[of], weights[of], call) {
                    RequestOutcome::Granted => {
                        prop_assert!(has_free_permit(&holders, KEYS[of]));
                        holders.push(KEYS[of]);
                    }
                    RequestOutcome::Queued(ticket, evicted) => {
                        prop_assert!(!has_free_permit(&holders, KEYS[of]), "a caller waits though a permit is free for it");
                        if let Some(evicted) = evicted {
                            prop_assert!(waiting.remove(&evicted).is_some());
                        }
                        let before = waiting.values().filter(|(other, ..)| *other == of).count();
                        let rounds = u32::try_from(before).unwrap() / weights[of] + 2;
                        waiting.insert(call, (of, ticket, rounds * round));
                    }
                    RequestOutcome::QueueFull => {
                        prop_assert!(!has_free_permit(&holders, KEYS[of]));
                        prop_assert_eq!(waiting.len(), waiters_max);
                    }
                },
                Step::Release(_) if holders.is_empty() => {}
                Step::Release(at) => {
                    let ended = holders.remove(at % holders.len());
                    match scheduler.release(&ended, 0) {
                        None => {
                            let served = waiting.values().all(|(of, ..)| !has_free_permit(&holders, KEYS[*of]));
                            prop_assert!(served, "a permit is free though a waiter may have it");
                        }
                        Some((key, next)) => {
                            let (of, ticket, _) = waiting.remove(&next).unwrap();
                            prop_assert!(KEYS[of] == key && has_free_permit(&holders, key));
                            let first = waiting.values().all(|(other, later, _)| *other != of || *later > ticket);
                            prop_assert!(first, "waiters of one key are served in order");
                            holders.push(key);
                            for (_, _, left) in waiting.values_mut().filter(|_| is_unbounded) {
                                prop_assert!(*left > 0, "a caller waits for too many others");
                                *left -= 1;
                            }
                        }
                    }
                }
                Step::Cancel(at) => {
                    if let Some(call) = waiting.keys().nth(at).copied() {
                        let (of, ticket, _) = waiting.remove(&call).unwrap();
                        prop_assert!(scheduler.cancel(&KEYS[of], ticket));
                    }
                }
            }
            prop_assert!(waiting.len() <= waiters_max && holders.len() <= total);
            prop_assert_eq!((scheduler.used().permits, scheduler.waiting()), (holders.len(), waiting.len()));
            prop_assert_eq!(scheduler.ring.len(), scheduler.queues.len());
        }
        while let Some(ended) = holders.pop() {
            holders.extend(scheduler.release(&ended, 0).map(|(key, _)| key));
        }
        prop_assert!(is_empty(&scheduler), "every waiter was served");
    }
}
