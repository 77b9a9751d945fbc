//! `folio job`.

use std::io::IsTerminal as _;

use anyhow::{Result, bail};
use folio_proto::v1;
use folio_types::JobId;
use serde_json::{Value, json};

use super::output::{Format, View};
use super::{DataArguments, list_items, parsed, present, time};
use crate::client::{Client, answer, explain_error};
use crate::progress::{Progress, ProgressLine};
use crate::terminal::note;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List jobs, newest first.
    List(List),
    /// Print a job with its items and their results.
    Show(Item),
    /// Print the progress of a job on stderr until it ends, then the job.
    Watch(Item),
    /// Cancel an open job. The results of its items are kept.
    Cancel(Item),
    /// Pause an open job until it is resumed.
    Pause(Item),
    /// Resume a paused job, or a waiting job before its time.
    Resume(Item),
    /// List the items of a job with their results.
    Items(Items),
    /// Start a job with the items of an ended job that are not done, and print the new job.
    Retry(Retry),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Retry {
    #[command(flatten)]
    item: Item,
    /// Credit that the model calls of the new job may cost [default: the budget of the ended job].
    #[arg(long, value_name = "CREDITS")]
    budget: Option<u64>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Only jobs that have not ended.
    #[arg(long)]
    open: bool,
    /// Maximum number of jobs.
    #[arg(long, value_name = "N", default_value = "1000")]
    limit: usize,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Item {
    /// The id of the job.
    #[arg(value_name = "ID")]
    job: JobId,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Items {
    /// The id of the job.
    #[arg(value_name = "ID")]
    job: JobId,
    /// Only items in this state.
    #[arg(long, value_enum)]
    state: Option<ItemState>,
    /// Maximum number of items.
    #[arg(long, value_name = "N", default_value = "1000")]
    limit: usize,
    #[command(flatten)]
    data: DataArguments,
}

/// The columns of a table of items.
const ITEM_COLUMNS: [&str; 6] = ["number", "subject", "state", "attempts", "result", "error"];

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum ItemState {
    Done,
    Failed,
    /// The item has not ended.
    Open,
}

impl ItemState {
    /// Returns the filter of the request.
    fn filter(self) -> &'static str {
        match self {
            Self::Done => "state:done",
            Self::Failed => "state:failed",
            Self::Open => "state:open",
        }
    }
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::List(list) => list.data.run(async |client| jobs(&client, &list).await).await,
        Command::Show(item) => item.data.run(async |client| show(&client, item.job.to_string()).await).await,
        Command::Watch(item) => item.data.run(async |client| watch(&client, item.job.to_string()).await).await,
        Command::Cancel(item) => item.data.run(async |client| cancel(&client, item.job.to_string()).await).await,
        Command::Pause(item) => item.data.run(async |client| pause(&client, item.job.to_string()).await).await,
        Command::Resume(item) => item.data.run(async |client| resume(&client, item.job.to_string()).await).await,
        Command::Items(list) => list.data.run(async |client| items(&client, &list).await).await,
        Command::Retry(again) => again.item.data.run(async |client| retry(&client, &again).await).await,
    }
}

async fn jobs(client: &Client, list: &List) -> Result<View> {
    let filter = if list.open { "open:true" } else { "" };
    let found = list_items! {
        list.limit, client.jobs().list_jobs(ListJobsRequest { filter: filter.to_owned() }) => jobs
    };
    let columns = ["job_id", "kind", "state", "progress", "reason", "create_time"];
    Ok(View::list(columns, found.await?.iter().map(row).collect()))
}

async fn show(client: &Client, job_id: String) -> Result<View> {
    view(answer(client.jobs().get_job(v1::GetJobRequest { job_id })).await?.job)
}

/// Shows the job that a command created: at once if `no_wait`, otherwise until it ends. `effect`: the effect of the job, for the note
/// that it continues without the command.
pub(super) async fn follow(client: &Client, created: Option<v1::Job>, no_wait: bool, effect: &str) -> Result<View> {
    let created = present(created)?;
    if no_wait {
        return view(Some(created));
    }
    note(&format!("job {} {effect}, also if this command ends", created.job_id));
    watch(client, created.job_id).await
}

/// Shows the progress of a job until it ends: a bar on a terminal, otherwise a line for each change. A failed job is a failure, and so is
/// a job with failed items.
async fn watch(client: &Client, job_id: String) -> Result<View> {
    let line = std::io::stderr().is_terminal().then(|| Progress::stderr().line(&job_id));
    let report = |job: &v1::Job, state: &str| match &line {
        Some(line) => line.count(job.done_items + job.failed_items, job.total_items, state),
        None => note(state),
    };
    let job = wait(client, &job_id, report).await?;
    drop(line);
    let failure = failure(&job);
    let view = view(Some(job))?;
    Ok(match failure {
        Some(failure) => view.failing(failure),
        None => view,
    })
}

/// Returns the failure of an ended job, with the command that helps. None: the job has no failed item and did not fail.
fn failure(job: &v1::Job) -> Option<String> {
    match (job.state(), job.failed_items) {
        (v1::JobState::Failed, _) => Some(format!("the job failed: {}", reason(job))),
        (_, 0) => None,
        (_, failed) => Some(format!(
            "failed items: {failed} of {}; folio job retry {} repeats them in a new job",
            job.total_items, job.job_id
        )),
    }
}

/// Reports the progress of a job until it ends.
async fn wait(client: &Client, job_id: &str, report: impl Fn(&v1::Job, &str)) -> Result<v1::Job> {
    let mut shown = String::new();
    let progress = |job: &v1::Job| {
        let line = format!("{}, {}", state_name(job), progress(job));
        if line != shown {
            report(job, &line);
            shown = line;
        }
    };
    client.wait_for_job(job_id, progress).await.map_err(|error| explain_error(&error))
}

/// Waits for a job with one extraction, and returns the id of the extraction.
pub(crate) async fn wait_for_extraction(client: &Client, job_id: String, progress: &ProgressLine) -> Result<String> {
    progress.note(&format!("job {job_id} extracts the document, also if this command ends"));
    let job = wait(client, &job_id, |_, state| progress.step(&format!("extracting: {state}"))).await?;
    let result = job.items.first().map(|item| parsed(&item.result_json)).unwrap_or_default();
    if let Some(id) = result.get("extraction_id").and_then(Value::as_str) {
        return Ok(id.to_owned());
    }
    let failed = job.items.first().and_then(|item| item.error.as_ref()).map(|error| error.message.clone());
    bail!("job {} is {}: {}", job.job_id, state_name(&job), failed.unwrap_or_else(|| reason(&job)))
}

async fn cancel(client: &Client, job_id: String) -> Result<View> {
    let request = v1::CancelJobRequest { job_id, ..Default::default() };
    view(answer(client.jobs().cancel_job(request)).await?.job)
}

async fn pause(client: &Client, job_id: String) -> Result<View> {
    let request = v1::PauseJobRequest { job_id, ..Default::default() };
    view(answer(client.jobs().pause_job(request)).await?.job)
}

async fn resume(client: &Client, job_id: String) -> Result<View> {
    let request = v1::ResumeJobRequest { job_id, ..Default::default() };
    view(answer(client.jobs().resume_job(request)).await?.job)
}

async fn retry(client: &Client, again: &Retry) -> Result<View> {
    let (job_id, credit_budget) = (again.item.job.to_string(), again.budget);
    let request = v1::RetryJobRequest { job_id, credit_budget, ..Default::default() };
    view(answer(client.jobs().retry_job(request)).await?.job)
}

async fn items(client: &Client, list: &Items) -> Result<View> {
    let (job_id, filter) = (list.job.to_string(), list.state.map(ItemState::filter).unwrap_or_default());
    let found = list_items! {
        list.limit, client.jobs().list_job_items(ListJobItemsRequest {
            job_id: job_id.clone(), filter: filter.to_owned()
        }) => items
    };
    Ok(View::list(ITEM_COLUMNS, found.await?.iter().map(item).collect()))
}

/// Returns a job of a response.
fn view(job: Option<v1::Job>) -> Result<View> {
    let job = present(job)?;
    Ok(View::one(row(&job)).text(text(&job)))
}

/// Returns a job as people read it: the items are a table below the other members.
fn text(job: &v1::Job) -> String {
    let mut members = row(job);
    if let Some(members) = members.as_object_mut() {
        members.remove("items");
    }
    let mut text = View::one(members).render(Format::Table);
    if !job.items.is_empty() {
        text.push('\n');
        text.push_str(&View::list(ITEM_COLUMNS, job.items.iter().map(item).collect()).render(Format::Table));
    }
    if usize::try_from(job.total_items).is_ok_and(|total| total > job.items.len()) {
        text.push_str(&format!("\nfolio job items {} lists all {} items\n", job.job_id, job.total_items));
    }
    text
}

fn row(job: &v1::Job) -> Value {
    json!({
        "job_id": job.job_id, "kind": job.kind, "state": state_name(job), "progress": progress(job),
        "reason": reason(job), "user_id": job.user_id, "input": parsed(&job.input_json),
        "items": job.items.iter().map(item).collect::<Vec<_>>(),
        "credit_budget": job.credit_budget.as_ref().map(|budget| {
            json!({ "credits": budget.credits, "used": budget.used, "rest": budget.rest })
        }),
        "running_seconds": job.running_milliseconds / 1_000, "retry_time": time(job.retry_time.as_ref()),
        "create_time": time(job.create_time.as_ref()), "update_time": time(job.update_time.as_ref()),
        "end_time": time(job.end_time.as_ref()), "expire_time": time(job.expire_time.as_ref()),
    })
}

fn item(item: &v1::JobItem) -> Value {
    let result = if item.result_json.is_empty() { Value::Null } else { parsed(&item.result_json) };
    json!({
        "number": item.number, "subject": item.subject, "state": word(item.state().as_str_name(), "JOB_ITEM_STATE_"),
        "attempts": item.attempts, "done_steps": item.done_steps, "steps": item.steps, "result": result, "error": item.error.as_ref().map(|error| error.message.clone()),
    })
}

fn state_name(job: &v1::Job) -> String {
    word(job.state().as_str_name(), "JOB_STATE_")
}

/// Returns the name of an enum value in lowercase, without the prefix of its enum.
pub(super) fn word(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_lowercase()
}

fn progress(job: &v1::Job) -> String {
    let failed = if job.failed_items > 0 { format!(", {} failed", job.failed_items) } else { String::new() };
    let running = job.items.iter().find(|item| item.state() == v1::JobItemState::Running && item.steps > 0);
    let steps = running.map(|item| format!(", {} of {} steps", item.done_steps, item.steps)).unwrap_or_default();
    format!("{} of {} done{failed}{steps}", job.done_items, job.total_items)
}

/// Returns the reason for which a job waits or failed. Empty: none.
fn reason(job: &v1::Job) -> String {
    let error = job.error.as_ref().map(|error| format!("{} ({})", error.message, error.reason));
    match (job.wait_reason(), error) {
        (_, Some(error)) => error,
        (v1::JobWaitReason::Unspecified, None) => String::new(),
        (wait, None) => word(wait.as_str_name(), "JOB_WAIT_REASON_"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_states_progress_and_reason() {
        let done = v1::JobItem {
            subject: "doc_1".to_owned(),
            state: v1::JobItemState::Done.into(),
            result_json: r#"{"extraction_id":"ext_1"}"#.to_owned(),
            ..v1::JobItem::default()
        };
        let mut job = v1::Job {
            job_id: "job_1".to_owned(),
            state: v1::JobState::Waiting.into(),
            wait_reason: v1::JobWaitReason::Approval.into(),
            items: vec![done, v1::JobItem::default()],
            done_items: 1,
            total_items: 2,
            ..v1::Job::default()
        };
        let waiting = row(&job);
        assert_eq!((&waiting["state"], &waiting["progress"]), (&json!("waiting"), &json!("1 of 2 done")));
        assert_eq!((&waiting["reason"], &waiting["items"][0]["state"]), (&json!("approval"), &json!("done")));
        assert_eq!(waiting["items"][0]["result"]["extraction_id"], "ext_1");
        assert_eq!(waiting["credit_budget"], Value::Null);
        job.credit_budget = Some(v1::CreditBudget { credits: 9, used: 2, rest: 7 });
        assert_eq!(row(&job)["credit_budget"], json!({ "credits": 9, "used": 2, "rest": 7 }));

        job.items[1].state = v1::JobItemState::Running.into();
        (job.items[1].done_steps, job.items[1].steps) = (3, 12);
        assert_eq!(row(&job)["progress"], "1 of 2 done, 3 of 12 steps");
        job.items[1].state = v1::JobItemState::Failed.into();
        job.state = v1::JobState::Failed.into();
        job.failed_items = 1;
        let message = "the job exceeded its running time of 60 s".to_owned();
        job.error = Some(v1::Error { message, reason: "JOB_EXPIRED".to_owned(), ..v1::Error::default() });
        let table = view(Some(job)).unwrap().render(Format::Table);
        assert!(table.contains("1 of 2 done, 1 failed") && table.contains("60 s (JOB_EXPIRED)"), "{table}");
    }

    #[test]
    fn the_items_are_a_table_below_the_job() {
        let item = |subject: &str| v1::JobItem { subject: subject.to_owned(), number: 1, ..v1::JobItem::default() };
        let job = v1::Job {
            job_id: "job_1".to_owned(),
            items: vec![item("doc_1"), item("doc_2")],
            total_items: 3,
            ..v1::Job::default()
        };
        let shown = view(Some(job)).unwrap();
        let table = shown.render(Format::Table);
        let lines: Vec<&str> = table.lines().collect();
        let header = lines.iter().position(|line| line.starts_with("NUMBER")).unwrap();
        assert!(lines[header + 2].contains("doc_2") && !table.contains("[{"), "{table}");
        assert_eq!(lines.last(), Some(&"folio job items job_1 lists all 3 items"));
        assert!(shown.render(Format::Json).contains("\"items\""), "programs get the items in one document");
    }

    #[test]
    fn a_job_with_failed_items_is_a_failure() {
        let mut job = v1::Job { job_id: "job_1".to_owned(), total_items: 2, ..v1::Job::default() };
        job.state = v1::JobState::Completed.into();
        assert_eq!(failure(&job), None);
        job.failed_items = 1;
        let printed = failure(&job).unwrap();
        assert_eq!(printed, "failed items: 1 of 2; folio job retry job_1 repeats them in a new job");
        job.state = v1::JobState::Failed.into();
        assert!(failure(&job).unwrap().starts_with("the job failed"));
    }
}
