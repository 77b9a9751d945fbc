//! Conformance suite of [`folio_storage::JobStore`].

use std::time::Duration;

use folio_types::Incarnation;

use super::super::{Failure, Outcome, check, refused, same};
use super::eventually;
use folio_storage::{Job, SharedStores};

const LONG: Duration = Duration::from_secs(3_600);
const SHORT: Duration = Duration::from_millis(200);
/// Time without a heartbeat after which a job is abandoned. On a busy machine, two calls in succession take less time.
const ABANDONED_AFTER: Duration = Duration::from_secs(3);
/// Maximum time until an added job wakes a worker.
const WAKE_LIMIT: Duration = Duration::from_secs(1);

fn job(key: &str) -> Job {
    job_of("one", key)
}

fn job_of(group: &str, key: &str) -> Job {
    Job { key: key.to_owned(), group: group.to_owned(), payload: format!("do {key}") }
}

pub(super) async fn suite(stores: &SharedStores, queue: &str) -> Outcome {
    let (store, one, two) = (&stores.jobs, Incarnation::derive(&["one"]), Incarnation::derive(&["two"]));
    same!(store.claim(queue, &one, 5, LONG).await?, vec![], "jobs of an empty queue");
    same!(store.waiting(queue).await?, 0, "the number of waiting jobs in an empty queue");
    for key in ["a", "b", "c"] {
        check!(store.push(queue, &job(key)).await?, "a job is not added");
    }
    check!(!store.push(queue, &job("b")).await?, "a job is queued twice");
    same!(store.waiting(queue).await?, 3, "jobs without a worker");
    let claimed = store.claim(queue, &one, 2, LONG).await?;
    same!(store.waiting(queue).await?, 1, "a claimed job does not wait");
    same!(
        claimed.iter().map(|claimed| claimed.job.clone()).collect::<Vec<_>>(),
        [job("a"), job("b")],
        "jobs in their order"
    );
    check!(claimed.iter().all(|claimed| claimed.attempt == 1), "a first attempt: {claimed:?}");
    let rest = store.claim(queue, &two, 5, LONG).await?;
    same!(
        rest.iter().map(|claimed| claimed.job.clone()).collect::<Vec<_>>(),
        [job("c")],
        "the remaining jobs for another worker"
    );
    check!(!store.push(queue, &job("a")).await?, "a claimed job is queued twice");
    for claimed in &rest {
        check!(store.complete(queue, claimed).await?, "a job cannot be ended by its worker");
        check!(!store.complete(queue, claimed).await?, "a job ends twice");
    }
    check!(store.push(queue, &job("c")).await?, "a job cannot be queued again after its end");
    same!(store.claim(queue, &one, 5, LONG).await?.len(), 1, "a job that was queued again after its end");

    // The first worker keeps `a` and sends no heartbeat for `b`.
    let [a, b] = <[_; 2]>::try_from(claimed).map_err(|_| Failure("expected two claimed jobs".to_owned()))?;
    let again = eventually("another worker claims an abandoned job", async || {
        check!(store.extend(queue, &a).await?, "a job is lost although its worker extends it");
        let found = store.claim(queue, &two, 5, ABANDONED_AFTER).await?;
        Ok(found.into_iter().find(|claimed| claimed.job == b.job))
    })
    .await?;
    same!((again.attempt, &again.worker), (2, &two), "the second attempt by the other worker");
    check!(!store.extend(queue, &b).await?, "invariant 3: a worker extends a job that it lost");
    check!(!store.complete(queue, &b).await?, "invariant 3: a worker ends a job that it lost");
    check!(store.extend(queue, &again).await?, "the new worker cannot extend its job");
    check!(store.complete(queue, &again).await?, "a job cannot be ended by its new worker");
    check!(store.complete(queue, &a).await?, "an extended job cannot be ended");
    for key in ["d", "e"] {
        check!(store.push(queue, &job(key)).await?, "a job is not added");
    }
    refused!(store.push(queue, &job("one too many")).await, Overloaded, "a group that fills half of a queue");
    for key in ["f", "g"] {
        check!(store.push(queue, &job_of("two", key)).await?, "a job is not added");
    }
    refused!(store.push(queue, &job_of("two", "h")).await, Overloaded, "invariant 10: a full queue");
    let other = format!("{queue} other");
    check!(store.push(&other, &job("a")).await?, "a job of one queue blocks a job of another queue");
    groups_take_turns(stores, &format!("{queue} groups")).await?;
    added_jobs_wake_workers(stores, &format!("{queue} pushed")).await
}

async fn added_jobs_wake_workers(stores: &SharedStores, queue: &str) -> Outcome {
    let store = &stores.jobs;
    check!(!store.wait_for_push(queue, SHORT).await?, "an empty queue wakes a worker");
    let pushed = job("a");
    let (woken, added) = tokio::join!(store.wait_for_push(queue, WAKE_LIMIT), store.push(queue, &pushed));
    check!(added?, "a job is not added");
    // On a busy machine the wait may end before the job is added, which then wakes the next wait.
    let is_woken = woken? || store.wait_for_push(queue, WAKE_LIMIT).await?;
    check!(is_woken, "an added job does not wake the worker that waits");
    check!(store.push(queue, &job("b")).await?, "a job is not added");
    check!(store.wait_for_push(queue, WAKE_LIMIT).await?, "an added job does not wake the next worker");
    check!(!store.push(queue, &job("b")).await?, "a job is queued twice");
    check!(!store.wait_for_push(queue, SHORT).await?, "a job wakes two workers");
    Ok(())
}

async fn groups_take_turns(stores: &SharedStores, queue: &str) -> Outcome {
    let (store, worker) = (&stores.jobs, Incarnation::derive(&["one"]));
    let claim = async |limit| {
        let claimed = store.claim(queue, &worker, limit, LONG).await?;
        Ok::<_, Failure>((claimed.iter().map(|claimed| claimed.job.key.clone()).collect::<Vec<_>>(), claimed))
    };
    for key in ["1", "2", "3"] {
        check!(store.push(queue, &job_of("busy", key)).await?, "a job is not added");
    }
    let (keys, first) = claim(1).await?;
    same!(keys, ["1"], "the oldest job");
    for key in ["x", "y"] {
        check!(store.push(queue, &job_of("quiet", key)).await?, "a job is not added");
    }
    let (keys, second) = claim(3).await?;
    same!(keys, ["2", "x", "3"], "the jobs of groups that take turns");
    for claimed in first.iter().chain(&second) {
        check!(store.complete(queue, claimed).await?, "a job cannot be ended by its worker");
    }
    // A group that had no jobs does not overtake the group that waits.
    check!(store.push(queue, &job_of("busy", "4")).await?, "a job is not added");
    same!(claim(5).await?.0, ["y", "4"], "the job that waited longer, then that of a group that returned");
    Ok(())
}
