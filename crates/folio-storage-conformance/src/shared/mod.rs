//! The suites of the shared stores, which every adapter runs.
//!
//! The suites wait for time limits to pass, so the adapter is opened with [`options`]. The suite of nodes needs a store
//! without other nodes.

mod events;
mod jobs;
mod nodes;
mod rates;
mod slots;
mod turns;

use std::time::{Duration, Instant};

use futures::future::LocalBoxFuture;

use super::{Failure, Outcome};
use folio_storage::{SharedOptions, SharedStores};

/// Time limit of a wait for a condition.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns short times, so that a suite sees them pass, and low bounds. The calls that a suite makes within one of the times take less
/// time on a busy machine.
pub fn options() -> SharedOptions {
    SharedOptions {
        dead_after: Duration::from_millis(2_000),
        dead_listed_for: Duration::from_millis(3_000),
        events_ttl: Duration::from_millis(4_000),
        events_max: 8,
        events_bytes_max: 4_000,
        idle_turn_ttl: Duration::from_millis(3_000),
        jobs_max: 5,
        slot_lease: Duration::from_millis(5_000),
    }
}

type Suite = fn(SharedStores, String) -> LocalBoxFuture<'static, Outcome>;

const SUITES: &[(&str, Suite)] = &[
    ("events", |stores, nonce| Box::pin(async move { events::suite(&stores, &nonce).await })),
    ("jobs", |stores, nonce| Box::pin(async move { jobs::suite(&stores, &nonce).await })),
    ("nodes", |stores, nonce| Box::pin(async move { nodes::suite(&stores, &nonce).await })),
    ("rates", |stores, nonce| Box::pin(async move { rates::suite(&stores, &nonce).await })),
    ("slots", |stores, nonce| Box::pin(async move { slots::suite(&stores, &nonce).await })),
    ("turns", |stores, nonce| Box::pin(async move { turns::suite(&stores, &nonce).await })),
];

/// Returns the names of the suites.
pub fn names() -> impl Iterator<Item = &'static str> {
    SUITES.iter().map(|(name, _)| *name)
}

/// Runs one suite; `nonce` is part of the names of its data.
pub async fn run(name: &str, stores: SharedStores, nonce: &str) -> Outcome {
    let (_, suite) =
        SUITES.iter().find(|(suite, _)| *suite == name).ok_or_else(|| Failure(format!("no suite {name:?}")))?;
    let outcome = suite(stores, format!("{name} {nonce}")).await;
    outcome.map_err(|Failure(what)| Failure(format!("{name}: {what}")))
}

/// Runs all suites concurrently on one store.
pub async fn run_all(stores: SharedStores, nonce: &str) -> Outcome {
    stores.health.check().await?;
    let runs = names().map(|name| run(name, stores.clone(), nonce));
    futures::future::try_join_all(runs).await.map(drop)
}

/// Polls until the condition returns a value.
async fn eventually<T>(
    what: &str,
    mut condition: impl AsyncFnMut() -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = condition().await? {
            return Ok(found);
        }
        if Instant::now() > end {
            return Err(Failure(format!("timed out waiting for: {what}")));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
