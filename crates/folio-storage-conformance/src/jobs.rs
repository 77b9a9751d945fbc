//! Conformance suite of [`folio_storage::JobRecordStore`].

use std::time::Duration;

use folio_history::job::{
    DELIVERY_KIND, ItemOutcome, ItemState, JobCommand, JobFilter, JobHeader, JobItem, JobPage, JobPages, JobQueue,
    JobWrite, JobWritten, NewJob, OpenJobRow, WaitReason,
};
use folio_types::limits::{JOB_OUTCOME_BYTES, JOB_PAGE_ITEMS, JOB_RETENTION};
use folio_types::page::{Page, PageRequest};
use folio_types::{Environment as _, Incarnation, JobId, Principal, Role, System, Timestamp, UserId};
use serde_json::{Value, json};

use super::context::Context;
use super::paging::orders;
use super::{Failure, Outcome, check, refused, same};

const ALL: usize = 100_000;

pub(crate) async fn suite(context: &Context) -> Outcome {
    one_write(context).await?;
    fence(context).await?;
    outcomes(context).await?;
    pages(context).await?;
    retention(context).await?;
    index(context).await?;
    lists(context).await
}

/// Returns a job with two items that is not stored.
pub(crate) fn new_job(context: &Context, kind: &str, input: Value) -> Result<JobHeader, Failure> {
    let new = NewJob {
        id: JobId::derive(&context.parts().each_ref().map(String::as_str)),
        principal: Principal::new(context.org.clone(), context.user.clone(), Role::Member),
        kind: kind.to_owned(),
        input,
        items: vec!["one".to_owned(), "other".to_owned()],
        running_max: Duration::from_secs(3_600),
        at: context.now(),
    };
    Ok(new.header()?)
}

/// Returns the write of a command.
pub(crate) fn write(context: &Context, before: &JobHeader, command: JobCommand) -> Result<JobWrite, Failure> {
    let unchanged = || Failure("the command changes nothing".to_owned());
    let after = before.after(command, context.now())?.ok_or_else(unchanged)?;
    Ok(JobWrite { batch: u128::from(context.fresh()) + 1, before: before.clone(), after, outcome: None })
}

pub(crate) fn start(context: &Context) -> JobCommand {
    let owner = Incarnation::derive(&["node"]);
    JobCommand::Start { owner, access: Ok(Principal::new(context.org.clone(), context.user.clone(), Role::Member)) }
}

/// Executes a command, which no other write disturbs; returns the header after it.
pub(crate) async fn executed(
    context: &Context,
    before: &JobHeader,
    command: JobCommand,
    outcome: Option<ItemOutcome>,
) -> Result<JobHeader, Failure> {
    let write = JobWrite { outcome, ..write(context, before, command)? };
    match context.stores.jobs.write(write).await? {
        JobWritten::Done(header) => Ok(*header),
        refused @ JobWritten::Refused(_) => Err(Failure(format!("refused although the fence matched: {refused:?}"))),
    }
}

async fn created(context: &Context) -> Result<JobHeader, Failure> {
    Ok(context.stores.jobs.create(new_job(context, "extraction", json!({ "number": 1 }))?).await?)
}

fn outcome(context: &Context, item: u32, value: Value) -> ItemOutcome {
    ItemOutcome { item, attempt: 1, value, at: context.now() }
}

async fn one_write(context: &Context) -> Outcome {
    let (store, org) = (&context.stores.jobs, &context.org);
    let new = new_job(context, "extraction", json!({ "number": 1 }))?;
    same!(store.header(org, &new.id).await?, None, "a job that was not created");
    let unknown = write(context, &new, start(context))?;
    refused!(store.write(unknown).await, NotFound, "a write to a missing job");
    same!(store.create(new.clone()).await?, new, "a new job");
    same!(store.header(org, &new.id).await?, Some(new.clone()), "the header of a new job");
    same!(store.header(&context.other(), &new.id).await?, None, "a job of another organization");
    same!(store.fence(org, &new.id).await?, Some(new.fence()), "the fence of a new job");
    same!(store.fence(&context.other(), &new.id).await?, None, "the fence of a job of another organization");
    let started = executed(context, &new, start(context), None).await?;
    same!((started.epoch, started.version), (1, 1), "the fence after a start");
    same!(store.header(org, &new.id).await?, Some(started.clone()), "the header after a start");
    same!(store.fence(org, &new.id).await?, Some(started.fence()), "the fence after a start");
    same!(store.create(new).await?, started, "the same job created again");
    Ok(())
}

async fn fence(context: &Context) -> Outcome {
    let (store, org, new) = (&context.stores.jobs, &context.org, created(context).await?);
    let (first, late) = (write(context, &new, start(context))?, write(context, &new, start(context))?);
    let done = JobWritten::Done(Box::new(first.after.clone()));
    for _ in 0..2 {
        same!(store.write(first.clone()).await?, done, "a write, and its repetition");
    }
    let mut late = JobWrite { outcome: Some(outcome(context, 1, json!("late"))), ..late };
    let refused = JobWritten::Refused(Box::new(first.after.clone()));
    same!(store.write(late.clone()).await?, refused, "a write under a replaced fence");
    let paused = executed(context, &first.after, JobCommand::Pause, None).await?;
    let refused = JobWritten::Refused(Box::new(paused.clone()));
    late.before.version = paused.version;
    same!(store.write(late.clone()).await?, refused, "a write with the version of another epoch");
    late.before = JobHeader { version: 7, ..paused.clone() };
    same!(store.write(late).await?, refused, "a write with a later version");
    let current = JobWritten::Done(Box::new(paused.clone()));
    same!(store.write(first).await?, current, "the repetition of a write that another followed");
    same!(store.header(org, &new.id).await?, Some(paused.clone()), "the header after refused writes");
    same!(store.outcomes(org, &new.id, 0, ALL).await?, vec![], "the outcome of a refused write");

    let attempts = (0..8).map(|_| async {
        let cancel = write(context, &paused, JobCommand::Cancel)?;
        Ok::<_, Failure>(store.write(cancel).await?)
    });
    let answers = futures::future::try_join_all(attempts).await?;
    let winners = answers.iter().filter(|answer| matches!(answer, JobWritten::Done(_))).count();
    same!(winners, 1, "concurrent writes that were executed");
    Ok(())
}

async fn outcomes(context: &Context) -> Outcome {
    let (store, org) = (&context.stores.jobs, &context.org);
    let mut header = executed(context, &created(context).await?, start(context), None).await?;
    let mut stored = Vec::new();
    for item in [1, 0] {
        header = executed(context, &header, JobCommand::Begin { item }, None).await?;
        let outcome = outcome(context, if item == 0 { 1 } else { 2 }, json!({ "item": item }));
        let finish = JobCommand::Finish { item, result: Ok(()) };
        header = executed(context, &header, finish, Some(outcome.clone())).await?;
        stored.insert(0, outcome);
    }
    same!(store.outcomes(org, &header.id, 0, ALL).await?, stored, "the outcomes by item");
    same!(store.outcomes(org, &header.id, 0, 1).await?, stored.get(..1).unwrap_or_default(), "one outcome");
    same!(store.outcomes(org, &header.id, 1, ALL).await?, stored.get(1..).unwrap_or_default(), "later outcomes");
    same!(store.outcomes(org, &header.id, 2, ALL).await?, vec![], "outcomes after the last");
    same!(store.outcomes(&context.other(), &header.id, 0, ALL).await?, vec![], "outcomes of another organization");
    let large = outcome(context, 1, json!("x".repeat(JOB_OUTCOME_BYTES)));
    let write =
        JobWrite { outcome: Some(large), ..write(context, &header, JobCommand::Checkpoint { steps: Vec::new() })? };
    refused!(store.write(write).await, TooLarge, "an outcome above the bound");
    same!(store.header(org, &header.id).await?, Some(header), "the header after a refused outcome");
    Ok(())
}

/// Pages are stored before their job, and the sweep finds a job whose creation does not follow.
async fn pages(context: &Context) -> Outcome {
    let (stores, org) = (&context.stores, &context.org);
    let store = stores.job_pages();
    let new = NewJob {
        id: JobId::derive(&context.parts().each_ref().map(String::as_str)),
        principal: Principal::new(org.clone(), context.user.clone(), Role::Member),
        kind: "extraction".to_owned(),
        input: json!({}),
        items: (0..=2 * JOB_PAGE_ITEMS).map(|number| number.to_string()).collect(),
        running_max: Duration::from_secs(3_600),
        // The row expires by the clock of the store.
        at: System.now(),
    };
    let (header, rest) = new.with_pages()?;
    let row = OpenJobRow::of(&header);
    stores.jobs.announce(row.clone()).await?;
    let open = stores.jobs.open(None, ALL).await?;
    check!(open.iter().any(|row| row.job == header.id), "the index lacks a job whose creation was announced");
    for _ in 0..2 {
        store.create(&header, &rest).await?;
    }
    let stored = store.pages(&header, &[1, 0, 2]).await?;
    let first = JobPage { items: header.items.clone() };
    let expected: Vec<JobPage> = [rest.first(), Some(&first), rest.get(1)].into_iter().flatten().cloned().collect();
    same!(stored, expected, "the pages by number");
    let done = |item: &JobItem| JobItem { state: ItemState::Done, ..item.clone() };
    let last = JobPage { items: rest.iter().skip(1).flat_map(|page| &page.items).map(done).collect() };
    let pages = header.pages.clone().map(|pages| JobPages { current: 2, ..pages });
    store.finish(&JobHeader { items: last.items.clone(), pages, ..header.clone() }).await?;
    store.create(&header, &rest).await?;
    same!(store.pages(&header, &[2]).await?, vec![last], "a page that ended, after a late creation of its job");
    store.remove(org, &header.id).await?;
    store.remove(org, &header.id).await?;
    refused!(store.pages(&header, &[1]).await, Internal, "a removed page");
    stores.jobs.remove_open(&[row]).await?;
    Ok(())
}

async fn expired(context: &Context, now: Timestamp) -> Result<Vec<JobId>, Failure> {
    let rows = context.stores.jobs.expired(now, ALL).await?;
    Ok(rows.into_iter().filter(|(org, _)| *org == context.org).map(|(_, id)| id).collect())
}

async fn retention(context: &Context) -> Outcome {
    let (store, org) = (&context.stores.jobs, &context.org);
    let open = created(context).await?;
    let started = executed(context, &created(context).await?, start(context), None).await?;
    let begun = executed(context, &started, JobCommand::Begin { item: 0 }, None).await?;
    let finish = JobCommand::Finish { item: 0, result: Ok(()) };
    let done = executed(context, &begun, finish, Some(outcome(context, 1, json!(1)))).await?;
    let cancel = write(context, &done, JobCommand::Cancel)?;
    same!(store.write(cancel.clone()).await?, JobWritten::Done(Box::new(cancel.after.clone())), "a cancellation");
    let at = cancel.after.updated_at.saturating_add(JOB_RETENTION).unwrap_or(Timestamp::MAX);
    let before = at.saturating_sub(Duration::from_secs(1)).unwrap_or(Timestamp::MIN);
    check!(!expired(context, before).await?.contains(&done.id), "a job expires before its time");
    check!(expired(context, at).await?.contains(&done.id), "a job does not expire");
    check!(!expired(context, at).await?.contains(&open.id), "an open job expires");
    same!(store.expired(at, 0).await?, vec![], "expired jobs with limit 0");
    for _ in 0..2 {
        store.delete(org, &done.id).await?;
        same!(store.header(org, &done.id).await?, None, "a deleted job");
        same!(store.outcomes(org, &done.id, 0, ALL).await?, vec![], "the outcomes of a deleted job");
    }
    check!(!expired(context, at).await?.contains(&done.id), "a deleted job expires");
    refused!(store.create(done).await, NotFound, "a deleted job created again");
    refused!(store.write(cancel).await, NotFound, "a write to a deleted job");
    store.delete(org, &JobId::derive(&["unknown"])).await?;
    store.delete(org, &open.id).await?;
    Ok(())
}

/// Returns all rows of this organization, scanned in small pages.
async fn rows(context: &Context) -> Result<Vec<OpenJobRow>, Failure> {
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let part = context.stores.jobs.open(after.as_ref(), 2).await?;
        check!(part.len() <= 2, "a scan with limit 2 returned {} rows", part.len());
        let Some(last) = part.last().cloned() else { break };
        rows.extend(part.into_iter().filter(|row| row.org == context.org));
        after = Some(last);
    }
    Ok(rows)
}

async fn index(context: &Context) -> Outcome {
    // Rows expire by the clock of the store.
    let (stores, nonce) = (context.stores.clone(), context.org.as_str());
    let context = &Context::new(stores, "jobs-index", nonce).since(System.now().as_second());
    let store = &context.stores.jobs;
    let jobs = [created(context).await?, created(context).await?, created(context).await?];
    // A start does not need another row.
    executed(context, &jobs[0], start(context), None).await?;
    let found = rows(context).await?;
    same!(found.len(), jobs.len(), "rows of open jobs");
    for job in &jobs {
        let row = OpenJobRow::of(job);
        // A store may replace the time of a row.
        let is_same = |stored: &OpenJobRow| *stored == OpenJobRow { at: stored.at, ..row.clone() };
        check!(found.iter().any(is_same), "the row {row:?} is missing");
    }
    let (first, others) = found.split_at(1);
    store.remove_open(first).await?;
    store.remove_open(first).await?;
    same!(rows(context).await?, others, "rows after one was removed");
    store.compact_open().await?;
    same!(rows(context).await?.len(), others.len(), "rows after a compaction");
    store.remove_open(&rows(context).await?).await?;
    same!(rows(context).await?, vec![], "rows after all were removed");
    Ok(())
}

async fn lists(context: &Context) -> Outcome {
    let context = Context::new(context.stores.clone(), "jobs-lists", context.org.as_str());
    let store = &context.stores.jobs;
    let other_user = UserId::derive(&["other"]);
    // Jobs have no name: a list by name is one by creation.
    for (kind, user) in [("a", &context.user), ("b", &other_user), ("c", &context.user)] {
        let mut new = new_job(&context, kind, json!({}))?;
        new.principal.user = user.clone();
        let made = store.create(new).await?;
        let started = executed(&context, &made, start(&context), None).await?;
        let error = folio_types::Error::exhausted(folio_types::Reason::CreditExhausted, "no credit");
        let wait = JobCommand::Wait { reason: WaitReason::Credit, error: Some(error), retry_at: context.now() };
        let waiting = executed(&context, &started, wait, None).await?;
        if kind == "c" {
            executed(&context, &waiting, JobCommand::Cancel, None).await?;
        }
    }
    let deleted = store.create(new_job(&context, "d", json!({}))?).await?;
    store.delete(&context.org, &deleted.id).await?;
    store.create(new_job(&context, DELIVERY_KIND, json!({}))?).await?;
    let shared = &context;
    let list = |filter: JobFilter| {
        move |page: PageRequest| {
            let filter = filter.clone();
            let context = shared;
            async move {
                let page = context.stores.jobs.list(&context.org, &filter, &page).await?;
                let items = page.items.into_iter().map(|job| job.kind).collect();
                Ok(Page { items, next: page.next, total: page.total })
            }
        }
    };
    let all = JobFilter::default();
    orders(&["a", "b", "c"], list(all.clone())).await?;
    orders(&["a", "b"], list(JobFilter { is_open: Some(true), ..all.clone() })).await?;
    orders(&["c"], list(JobFilter { is_open: Some(false), ..all.clone() })).await?;
    orders(&["b"], list(JobFilter { user: Some(other_user), ..all.clone() })).await?;
    orders(&["a"], list(JobFilter { kind: Some("a".to_owned()), is_open: Some(true), ..all.clone() })).await?;
    orders(&[], list(JobFilter { kind: Some("a".to_owned()), is_open: Some(false), ..all.clone() })).await?;
    orders(&["webhook_delivery"], list(JobFilter { queue: JobQueue::Deliveries, ..all })).await
}
