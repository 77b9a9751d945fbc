use std::time::Duration;

use futures::FutureExt as _;

use super::*;

const FLOOD: &str = "flood";
const QUIET: &str = "quiet";

fn later() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn counts(permits: &Permits<&'static str>) -> (usize, usize) {
    (permits.load().permits, permits.waiting())
}

#[test]
fn permits_are_bounded_in_total_and_per_key() {
    let permits = Permits::without_queue(Amount::permits(3), Amount::permits(2));
    let first = permits.try_acquire(&"a", 0).unwrap();
    let _second = permits.try_acquire(&"a", 0).unwrap();
    assert_eq!(permits.try_acquire(&"a", 0).unwrap_err(), RefusalReason::KeyBound);
    let third = permits.try_acquire(&"b", 0).unwrap();
    assert_eq!(permits.try_acquire(&"c", 0).unwrap_err(), RefusalReason::TotalBound);
    drop(third);
    drop(first);
    let _third = permits.try_acquire(&"c", 0).unwrap();
    let _fourth = permits.try_acquire(&"a", 0).unwrap();
    assert!(permits.try_acquire(&"a", 0).is_err() && permits.try_acquire(&"b", 0).is_err());
}

#[test]
fn bytes_are_bounded_in_total_and_per_key() {
    let bound = |permits, bytes| Amount { permits, bytes };
    let permits = Permits::without_queue(bound(3, 100), bound(2, 60));
    let first = permits.try_acquire(&"one", 50).unwrap();
    assert_eq!(permits.try_acquire(&"one", 11).unwrap_err(), RefusalReason::KeyBound);
    let second = permits.try_acquire(&"one", 10).unwrap();
    assert_eq!(permits.try_acquire(&"two", 41).unwrap_err(), RefusalReason::TotalBound);
    let third = permits.try_acquire(&"two", 40).unwrap();
    assert_eq!((permits.load(), permits.load_of(&"one")), (bound(3, 100), bound(2, 60)));
    drop((first, second, third));
    assert_eq!((permits.load(), permits.load_of(&"one")), (Amount::default(), Amount::default()));
}

#[test]
fn one_of_several_permits_is_left_to_other_keys() {
    for (total, most) in [(1, 1), (2, 1), (4, 3)] {
        let permits = Permits::leaving_one(total, 8);
        let taken: Vec<_> = std::iter::from_fn(|| permits.try_acquire(&FLOOD, 0).ok()).collect();
        assert_eq!(taken.len(), most, "{total}");
        assert_eq!(permits.try_acquire(&QUIET, 0).is_ok(), total > 1, "{total}");
    }
}

#[tokio::test]
async fn a_key_at_its_bound_waits_while_another_one_takes_the_last_permit() {
    let permits = Permits::leaving_one(2, 8);
    let first = permits.acquire(&FLOOD, 1, later()).await.unwrap();
    let mut second = Box::pin(permits.acquire(&FLOOD, 1, later()));
    assert!(second.as_mut().now_or_never().is_none());
    let other = permits.acquire(&QUIET, 1, later()).now_or_never().unwrap().unwrap();
    drop(other);
    assert!(second.as_mut().now_or_never().is_none());
    drop(first);
    drop(second.now_or_never().unwrap().unwrap());
}

#[tokio::test]
async fn a_dropped_permit_is_handed_to_the_next_key() {
    let permits = Permits::with_queue(1, 8);
    let first = permits.acquire(&FLOOD, 1, later()).await.unwrap();
    let mut second = Box::pin(permits.acquire(&FLOOD, 1, later()));
    let mut third = Box::pin(permits.acquire(&FLOOD, 1, later()));
    let mut other = Box::pin(permits.acquire(&QUIET, 1, later()));
    for waiter in [&mut second, &mut third, &mut other] {
        assert!(waiter.as_mut().now_or_never().is_none());
    }
    assert_eq!(counts(&permits), (1, 3));
    drop(first);
    let second = second.now_or_never().unwrap().unwrap();
    assert!(third.as_mut().now_or_never().is_none());
    drop(second);
    drop(other.now_or_never().unwrap().unwrap());
    drop(third.now_or_never().unwrap().unwrap());
    assert_eq!(counts(&permits), (0, 0));
}

#[tokio::test]
async fn a_cancelled_caller_releases_its_position_and_its_permit() {
    let permits = Permits::with_queue(1, 8);
    let first = permits.acquire(&FLOOD, 1, later()).await.unwrap();
    let mut cancelled = Box::pin(permits.acquire(&FLOOD, 1, later()));
    let mut sent = Box::pin(permits.acquire(&QUIET, 1, later()));
    let mut last = Box::pin(permits.acquire(&QUIET, 1, later()));
    for waiter in [&mut cancelled, &mut sent, &mut last] {
        assert!(waiter.as_mut().now_or_never().is_none());
    }
    drop(cancelled);
    assert_eq!(counts(&permits), (1, 2));
    drop(first);
    // The permit is in the channel; the caller has not received it yet.
    assert_eq!(counts(&permits), (1, 1));
    drop(sent);
    assert!(last.now_or_never().unwrap().is_ok());
    assert_eq!(counts(&permits), (0, 0));
}

#[tokio::test]
async fn waiting_has_a_deadline_and_a_bound() {
    let permits = Permits::with_queue(1, 1);
    let _first = permits.acquire(&FLOOD, 1, later()).await.unwrap();
    assert_eq!(permits.acquire(&QUIET, 1, Instant::now()).await.unwrap_err(), RefusalReason::DeadlinePassed);
    assert_eq!(counts(&permits), (1, 0));
    let mut waiter = Box::pin(permits.acquire(&FLOOD, 1, later()));
    assert!(waiter.as_mut().now_or_never().is_none());
    assert_eq!(permits.acquire(&FLOOD, 1, later()).await.unwrap_err(), RefusalReason::QueueFull);
    assert_eq!(permits.acquire(&QUIET, 1, later()).await.unwrap_err(), RefusalReason::QueueFull, "one waiter per key");
}

/// Callers on several threads cancel at different times.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_permit_is_lost_when_callers_cancel() {
    let permits = Permits::with_queue(3, 64);
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..200_u64 {
        let permits = permits.clone();
        callers.spawn(async move {
            let timeout = Duration::from_micros(caller * 37 % 900);
            let key = ["a", "b", "c", "d", "e"][usize::try_from(caller % 5).unwrap()];
            let taken = tokio::time::timeout(timeout, permits.acquire(&key, 1, later())).await;
            if let Ok(Ok(permit)) = taken {
                tokio::task::yield_now().await;
                drop(permit);
            }
        });
    }
    while callers.join_next().await.is_some() {}
    assert_eq!(counts(&permits), (0, 0));
}
