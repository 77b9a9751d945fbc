//! [`folio_storage::RateStore`].

use std::time::{Duration, Instant};

use folio_types::OrgId;

use super::super::{Outcome, check, same};
use super::eventually;
use folio_storage::{Rate, SharedStores, Taken};

pub(super) async fn suite(stores: &SharedStores, nonce: &str) -> Outcome {
    let (store, org) = (&stores.rates, OrgId::derive(&[nonce]));
    let slow = Rate { burst: 3, per_second: 0.01 };
    for _ in 0..3 {
        same!(store.take(&org, "slow", slow, 1).await?, Taken::Allowed, "what a full bucket holds");
    }
    let Taken::Refused { retry_after } = store.take(&org, "slow", slow, 1).await? else {
        return Err(super::super::Failure("more than a bucket holds".to_owned()));
    };
    check!((90..=101).contains(&retry_after.as_secs()), "not when it will be there: {retry_after:?}");
    same!(store.take(&org, "other", slow, 3).await?, Taken::Allowed, "another bucket");
    same!(store.take(&OrgId::derive(&[nonce, "x"]), "slow", slow, 3).await?, Taken::Allowed, "another organization");
    check!(store.take(&org, "big", slow, 4).await? != Taken::Allowed, "more than a bucket can ever hold");
    let closed = Rate { burst: 1, per_second: 0.0 };
    same!(store.take(&org, "closed", closed, 1).await?, Taken::Allowed, "once");
    check!(store.take(&org, "closed", closed, 1).await? != Taken::Allowed, "a bucket that nothing flows into");
    let quick = Rate { burst: 2, per_second: 2.0 };
    let begun = Instant::now();
    same!(store.take(&org, "quick", quick, 2).await?, Taken::Allowed, "a full bucket");
    let refused = store.take(&org, "quick", quick, 2).await?;
    check!(
        matches!(refused, Taken::Refused { retry_after } if retry_after <= Duration::from_millis(1_001))
            || begun.elapsed() > Duration::from_millis(950),
        "not when it will be there: {refused:?}"
    );
    eventually("a bucket fills", async || {
        Ok((store.take(&org, "quick", quick, 2).await? == Taken::Allowed).then_some(()))
    })
    .await
}
