//! Compares the clock of the process with those of the stores, periodically and after a jump.

use std::sync::Arc;
use std::time::Duration;

use folio_process::clock::ProcessClock;
use folio_storage::StoreHealth;
use folio_types::Environment as _;

/// Interval of comparisons.
const INTERVAL: Duration = Duration::from_secs(30);
/// Interval in which a jump is detected, also in a process that writes nothing.
const JUMP_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) type StoreClocks = [Arc<dyn StoreHealth>; 2];

pub(crate) async fn compare(clock: &ProcessClock, stores: &StoreClocks) {
    let [durable, shared] = stores;
    let (offset, machine) = (clock.offset(), clock.machine());
    let (mut offsets, of_shared) = tokio::join!(durable.clock_offsets(machine), shared.clock_offsets(machine));
    offsets.extend(of_shared);
    clock.compare(offset, offsets);
}

/// Never returns.
pub(crate) async fn watch(clock: Arc<ProcessClock>, stores: StoreClocks) {
    let mut ticks = tokio::time::interval(JUMP_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut compared_at = tokio::time::Instant::now();
    loop {
        ticks.tick().await;
        if compared_at.elapsed() >= INTERVAL || clock.check_clock().is_err() {
            compare(&clock, &stores).await;
            compared_at = tokio::time::Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use async_trait::async_trait;
    use folio_types::{Environment, Result};

    use super::*;

    /// Servers of a store whose clocks differ by these seconds.
    struct Servers(Vec<i64>);

    /// A server of a store whose clock differs by a number of seconds that the test changes.
    struct Server(Arc<AtomicI64>);

    #[async_trait]
    impl StoreHealth for Server {
        async fn check(&self) -> Result<()> {
            Ok(())
        }

        async fn clock_offsets(&self, environment: &dyn Environment) -> Vec<i64> {
            Servers(vec![self.0.load(Ordering::Relaxed)]).clock_offsets(environment).await
        }
    }

    #[async_trait]
    impl StoreHealth for Servers {
        async fn check(&self) -> Result<()> {
            Ok(())
        }

        async fn clock_offsets(&self, _environment: &dyn Environment) -> Vec<i64> {
            self.0.iter().map(|seconds| seconds * 1_000_000_000).collect()
        }
    }

    #[tokio::test]
    async fn one_store_server_with_a_wrong_clock_stops_no_process() {
        const DAY: i64 = 86_400;
        for (durable, shared, is_right) in [
            (vec![0, 0, DAY], vec![0], true),
            (vec![0, 0, 0], vec![-DAY], true),
            (vec![DAY], vec![0], true),
            (vec![0], vec![DAY], true),
            // The majority is right, so the clock of the process is wrong.
            (vec![DAY, DAY, DAY], vec![0], false),
            (vec![DAY], vec![DAY], false),
        ] {
            let clock = ProcessClock::default();
            let offsets = format!("{durable:?} {shared:?}");
            let stores: StoreClocks = [Arc::new(Servers(durable)), Arc::new(Servers(shared))];
            compare(&clock, &stores).await;
            assert_eq!(clock.check_clock().is_ok(), is_right, "{offsets}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_is_compared_in_each_interval() {
        let (seconds, clock) = (Arc::new(AtomicI64::new(0)), Arc::new(ProcessClock::default()));
        let server = || Arc::new(Server(Arc::clone(&seconds)));
        let stores: StoreClocks = [server(), server()];
        compare(&clock, &stores).await;
        let watching = tokio::spawn(watch(Arc::clone(&clock), stores));
        for (offset, is_right) in [(0, true), (10, false), (0, true), (-10, false)] {
            seconds.store(offset, Ordering::Relaxed);
            tokio::time::sleep(INTERVAL + JUMP_INTERVAL).await;
            assert_eq!(clock.is_right(), is_right, "{offset} seconds");
        }
        watching.abort();
    }
}
