//! [`folio_storage::JobStore`].

use std::time::Duration;

use folio_types::Incarnation;

use super::super::{Failure, Outcome, check, refused, same};
use super::eventually;
use folio_storage::{Job, SharedStores};

const LONG: Duration = Duration::from_secs(3_600);
const SHORT: Duration = Duration::from_millis(200);

fn job(key: &str) -> Job {
    Job { key: key.to_owned(), payload: format!("do {key}") }
}

pub(super) async fn suite(stores: &SharedStores, queue: &str) -> Outcome {
    let (store, one, two) = (&stores.jobs, Incarnation::derive(&["one"]), Incarnation::derive(&["two"]));
    same!(store.take(queue, &one, 5, LONG).await?, vec![], "jobs of a queue that has none");
    same!(store.waiting(queue).await?, 0, "jobs that wait in a queue that has none");
    for key in ["a", "b", "c"] {
        check!(store.push(queue, &job(key)).await?, "a job is not added");
    }
    check!(!store.push(queue, &job("b")).await?, "a job is queued twice");
    same!(store.waiting(queue).await?, 3, "jobs without a worker");
    let taken = store.take(queue, &one, 2, LONG).await?;
    same!(store.waiting(queue).await?, 1, "a job that is worked on does not wait");
    same!(taken.iter().map(|taken| taken.job.clone()).collect::<Vec<_>>(), [job("a"), job("b")], "jobs in their order");
    check!(taken.iter().all(|taken| taken.attempt == 1), "a first attempt: {taken:?}");
    let rest = store.take(queue, &two, 5, LONG).await?;
    same!(
        rest.iter().map(|taken| taken.job.clone()).collect::<Vec<_>>(),
        [job("c")],
        "the remaining jobs for another worker"
    );
    check!(!store.push(queue, &job("a")).await?, "a job that is worked on is queued twice");
    for taken in &rest {
        check!(store.done(queue, taken).await?, "a job cannot be ended by its worker");
        check!(!store.done(queue, taken).await?, "a job ends twice");
    }
    check!(store.push(queue, &job("c")).await?, "a job cannot come again after its end");
    same!(store.take(queue, &one, 5, LONG).await?.len(), 1, "a job that came again");

    // The first worker keeps `a` and sends no heartbeat for `b`.
    let [a, b] = <[_; 2]>::try_from(taken).map_err(|_| Failure("two jobs were taken".to_owned()))?;
    let again = eventually("an abandoned job is taken by another", async || {
        check!(store.keep(queue, &a).await?, "a job that its worker keeps is lost");
        let found = store.take(queue, &two, 5, SHORT).await?;
        Ok(found.into_iter().find(|taken| taken.job == b.job))
    })
    .await?;
    same!((again.attempt, &again.worker), (2, &two), "another attempt by another");
    check!(!store.keep(queue, &b).await?, "invariant 3: a job is kept by a worker that lost it");
    check!(!store.done(queue, &b).await?, "invariant 3: a job is ended by a worker that lost it");
    check!(store.keep(queue, &again).await?, "a job is not its new worker's");
    check!(store.done(queue, &again).await?, "a job cannot be ended by its new worker");
    check!(store.done(queue, &a).await?, "a job that was kept cannot be ended");
    for key in ["d", "e", "f", "g"] {
        check!(store.push(queue, &job(key)).await?, "a job is not added");
    }
    refused!(store.push(queue, &job("one too many")).await, Overloaded, "invariant 10: a full queue");
    let other = format!("{queue} other");
    check!(store.push(&other, &job("a")).await?, "queues are not apart");
    Ok(())
}
