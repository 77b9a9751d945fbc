use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[test]
fn a_key_at_its_bound_evicts_its_own_oldest_holder() {
    let mut holders = Holders::new(10, 2);
    let (first, none) = holders.insert(&"a", 1);
    assert_eq!(none, None);
    assert_eq!(holders.insert(&"b", 2).1, None);
    assert_eq!(holders.insert(&"a", 3).1, None);
    assert_eq!(holders.insert(&"a", 4).1, Some(1));
    assert_eq!(holders.remove(&"a", first), None, "it was evicted");
    assert_eq!(holders.count, 3);
}

#[test]
fn a_full_set_evicts_the_oldest_holder_of_the_largest_key() {
    let mut holders = Holders::new(4, 4);
    for (key, holder) in [("few", 1), ("many", 2), ("many", 3), ("many", 4)] {
        assert_eq!(holders.insert(&key, holder).1, None);
    }
    assert_eq!(holders.insert(&"new", 5).1, Some(2));
    assert_eq!(holders.insert(&"new", 6).1, Some(3), "among equals, the key with the oldest holder");
    assert_eq!(holders.insert(&"other", 7).1, Some(5));
    assert_eq!(holders.insert(&"other", 8).1, Some(1), "all keys are equal");
}

#[test]
fn a_permit_reports_its_eviction_and_frees_its_slot() {
    let permits = EvictingPermits::new(2, 2);
    let first = permits.acquire(&"a");
    let second = permits.acquire(&"a");
    assert!(!first.evicted().is_cancelled() && !second.has_evicted());
    let third = permits.acquire(&"b");
    assert!(first.evicted().is_cancelled() && !second.evicted().is_cancelled() && third.has_evicted());
    drop(first);
    assert_eq!(permits.load(), 2, "an evicted permit frees no second slot");
    drop((second, third));
    assert_eq!(permits.load(), 0);
}

proptest! {
    #[test]
    fn the_bounds_hold_and_only_a_key_at_its_bound_or_the_largest_loses(
        steps in proptest::collection::vec((0..5_u8, any::<bool>()), 0..200),
        total in 1..8_usize,
        per_key in 1..5_usize,
    ) {
        let mut holders = Holders::new(total, per_key);
        let mut occupied: BTreeSet<(u8, u64)> = BTreeSet::new();
        for (key, is_removed) in steps {
            if is_removed {
                let Some(&(key, number)) = occupied.first() else { continue };
                prop_assert_eq!(holders.remove(&key, number), Some((key, number)));
                occupied.remove(&(key, number));
                continue;
            }
            let size = |of: u8| occupied.iter().filter(|(key, _)| *key == of).count();
            let (own, largest) = (size(key), (0..5).map(size).max().unwrap());
            let number = holders.last + 1;
            let (inserted, evicted) = holders.insert(&key, (key, number));
            prop_assert_eq!(inserted, number);
            if let Some((loser, oldest)) = evicted {
                let is_due = if own >= per_key { loser == key } else { occupied.len() >= total && size(loser) == largest };
                prop_assert!(is_due);
                prop_assert!(occupied.iter().filter(|(key, _)| *key == loser).all(|(_, number)| *number >= oldest));
                occupied.remove(&(loser, oldest));
            } else {
                prop_assert!(own < per_key && occupied.len() < total);
            }
            occupied.insert((key, number));
            prop_assert_eq!(holders.count, occupied.len());
            prop_assert!(holders.keys.values().all(|of_key| !of_key.is_empty() && of_key.len() <= per_key));
        }
    }
}
