//! Tests of the permits of operations.

use super::*;

#[tokio::test]
async fn invariant_10_polls_for_the_streams_of_one_organization_leave_permits_for_others() {
    let (polls, loud, quiet) = (Permits::new(STREAM_POLLS), OrgId::derive(&["loud"]), OrgId::derive(&["quiet"]));
    let active = [poll_permit(&polls, &loud).await.unwrap(), poll_permit(&polls, &loud).await.unwrap()];
    let mut third = std::pin::pin!(poll_permit(&polls, &loud));
    assert!(futures::poll!(&mut third).is_pending());
    drop(poll_permit(&polls, &quiet).await.unwrap());
    drop(active);
    drop(third.await.unwrap());
}

#[tokio::test]
async fn the_exports_that_run_are_counted() {
    let (exports, org) = (RunningExports::default(), OrgId::derive(&["org"]));
    let permit = exports.0.acquire(&org, 1, Instant::now() + READ_WAIT).await.unwrap();
    assert_eq!(exports.clone().count(), 1);
    drop(permit);
    assert_eq!(exports.count(), 0);
}
