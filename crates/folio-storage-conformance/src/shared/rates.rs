//! Conformance suite of [`folio_storage::RateStore`].

use std::time::{Duration, Instant};

use folio_types::OrgId;

use super::super::{Outcome, check, same};
use super::eventually;
use folio_storage::{Rate, RateDecision, SharedStores, WindowLimit};

pub(super) async fn suite(stores: &SharedStores, nonce: &str) -> Outcome {
    windows(stores, nonce).await?;
    buckets(stores, nonce).await
}

/// A window counts the events of one organization and name, up to its limit within the period.
async fn windows(stores: &SharedStores, nonce: &str) -> Outcome {
    let (store, org) = (&stores.rates, OrgId::derive(&[nonce, "windows"]));
    let limit = WindowLimit { events: 2, period: Duration::from_secs(100) };
    let (first, last) = (RateDecision::Allowed { remaining: 1 }, RateDecision::Allowed { remaining: 0 });
    for allowed in [first, last] {
        same!(store.count(&org, "slow", limit).await?, allowed, "an event within the limit");
    }
    let RateDecision::Refused { retry_after } = store.count(&org, "slow", limit).await? else {
        return Err(super::super::Failure("a window counts more events than its limit".to_owned()));
    };
    check!((90..=100).contains(&retry_after.as_secs()), "the retry delay is wrong: {retry_after:?}");
    same!(store.count(&org, "other", limit).await?, first, "another window");
    let of_other = store.count(&OrgId::derive(&[nonce, "x"]), "slow", limit).await?;
    same!(of_other, first, "a window of another organization");
    store.uncount(&org, "slow").await?;
    same!(store.count(&org, "slow", limit).await?, last, "an event after the removal of another");
    check!(!is_allowed(store.count(&org, "slow", limit).await?), "a window that is full again");
    store.uncount(&org, "empty").await?;
    let quick = WindowLimit { events: 1, period: Duration::from_millis(500) };
    same!(store.count(&org, "quick", quick).await?, last, "an event in an empty window");
    eventually("an event leaves its window", async || {
        Ok(is_allowed(store.count(&org, "quick", quick).await?).then_some(()))
    })
    .await
}

async fn buckets(stores: &SharedStores, nonce: &str) -> Outcome {
    let (store, org) = (&stores.rates, OrgId::derive(&[nonce]));
    let slow = Rate { burst: 3, per_second: 0.01 };
    for remaining in [2, 1, 0] {
        let allowed = RateDecision::Allowed { remaining };
        same!(store.take(&org, "slow", slow, 1).await?, allowed, "the capacity of a full bucket");
    }
    let RateDecision::Refused { retry_after } = store.take(&org, "slow", slow, 1).await? else {
        return Err(super::super::Failure("a bucket allows more than its capacity".to_owned()));
    };
    check!((90..=101).contains(&retry_after.as_secs()), "the retry delay is wrong: {retry_after:?}");
    let emptied = RateDecision::Allowed { remaining: 0 };
    same!(store.take(&org, "other", slow, 3).await?, emptied, "another bucket");
    same!(store.take(&OrgId::derive(&[nonce, "x"]), "slow", slow, 3).await?, emptied, "another organization");
    check!(
        !is_allowed(store.take(&org, "big", slow, 4).await?),
        "a request beyond the capacity of a bucket is allowed"
    );
    let closed = Rate { burst: 1, per_second: 0.0 };
    same!(store.take(&org, "closed", closed, 1).await?, emptied, "the only token of a bucket that is not refilled");
    check!(!is_allowed(store.take(&org, "closed", closed, 1).await?), "a bucket that is not refilled");
    let quick = Rate { burst: 2, per_second: 2.0 };
    let started_at = Instant::now();
    same!(store.take(&org, "quick", quick, 2).await?, emptied, "a full bucket");
    let refused = store.take(&org, "quick", quick, 2).await?;
    check!(
        matches!(refused, RateDecision::Refused { retry_after } if retry_after <= Duration::from_millis(1_001))
            || started_at.elapsed() > Duration::from_millis(950),
        "the retry delay is wrong: {refused:?}"
    );
    eventually("a bucket fills", async || Ok(is_allowed(store.take(&org, "quick", quick, 2).await?).then_some(())))
        .await
}

fn is_allowed(decision: RateDecision) -> bool {
    matches!(decision, RateDecision::Allowed { .. })
}
