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
    let (mut offsets, of_shared) = tokio::join!(durable.clock_offsets(clock), shared.clock_offsets(clock));
    offsets.extend(of_shared);
    clock.compare(offsets);
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
