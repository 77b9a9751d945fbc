//! Operations on jobs. A job belongs to its organization: every member may control it.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use folio_history::job::{
    EXTRACTION_KIND, INGESTION_KIND, ItemOutcome, ItemState, JobCommand, JobFilter, JobHeader, JobItem, JobPage,
    JobPages, KIND, Progress, STACK_FILL_KIND,
};
use folio_jobs::JobRequest;
use folio_resources::audit::AuditTarget;
use folio_types::access::Scope;
use folio_types::budget::check_credit_budget;
use folio_types::limits::JOB_PAGE_ITEMS;
use folio_types::page::Order;
use folio_types::{BudgetUse, DocumentId, Error, JobId, Reason, Result};
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::audit::AuditRecord;
use crate::context::Context;
use crate::declaration::{Declaration, Quota, service};
use crate::filter;
use crate::list::{LARGE_PAGE_MAX, ListPage, ListRequest, Listing, ScanRead, SortKeys};
use crate::operation::{Operation, outcome_as_job_id};

service! {
    "JobService", Some(Scope::Extractions) => GetJob, ListJobs, ListJobItems, WatchJob,
    CancelJob, PauseJob, ResumeJob, RetryJob
}

/// Interval at which a stream reads its job.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Time without a change after which a stream sends the job again.
// proto: JobService.WatchJob "after {} s"
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Maximum number of items of one read, such that a page with a filter reads every item of a job.
const ITEMS_PER_READ: usize = 5_000;
/// Maximum number of pages whose outcomes are read at a time.
const READS_AT_ONCE: usize = 8;

/// A job with the outcomes of the items of its current page.
#[derive(Debug, Clone, PartialEq)]
pub struct JobView {
    pub header: JobHeader,
    /// The outcomes of the items of the page that are done, in the order of the items.
    pub outcomes: Vec<ItemOutcome>,
    /// None: the job has no budget, or its part has returned to the turn that created the job.
    pub budget: Option<BudgetUse>,
}

impl JobView {
    /// Reads the outcomes of a job, and the use of its credit budget.
    pub(crate) async fn read(context: &Context, header: JobHeader) -> Result<Self> {
        let has_outcomes = header.progress().done > 0;
        let outcomes = match has_outcomes {
            true => context.jobs().outcomes(header.org(), &header.id, header.items_before()).await?,
            false => Vec::new(),
        };
        let budget = match header.budget_part() {
            Some(part) => context.stores().budgets().use_of(header.org(), &part).await?,
            None => None,
        };
        Ok(Self { header, outcomes, budget })
    }

    /// Returns the target of the audit entry of a change that has this job as its output.
    pub(crate) fn audit_target(&self) -> AuditTarget {
        AuditTarget::new(KIND, &self.header.id)
    }

    pub(crate) async fn find(context: &Context, id: &JobId) -> Result<Self> {
        let header = context.jobs().find(&context.principal().org, id).await?;
        Self::read(context, header).await
    }
}

/// Returns a job with the outcomes of its items.
#[derive(Debug, Clone, Serialize)]
pub struct GetJob {
    pub job_id: JobId,
}

impl Operation for GetJob {
    const DECLARATION: Declaration = SERVICE.read("GetJob");
    type Output = JobView;

    async fn run(self, context: &Context) -> Result<JobView> {
        JobView::find(context, &self.job_id).await
    }
}

/// Lists jobs without the outcomes of their items. Filter: `open:` true or false, `kind:` the name of a kind, `user:` the
/// user that caused the job.
#[derive(Debug, Clone, Serialize)]
pub struct ListJobs {
    pub list: ListRequest,
}

impl Operation for ListJobs {
    const DECLARATION: Declaration = SERVICE.read("ListJobs");
    type Output = ListPage<JobHeader>;

    async fn run(self, context: &Context) -> Result<ListPage<JobHeader>> {
        let (filter, org) = (&job_filter(&self.list.filter)?, &context.principal().org);
        let scope = [KIND, org.as_str()];
        let listing = Listing::new(&self.list, &scope, SortKeys::CreateTime, Order::Newest, LARGE_PAGE_MAX)?;
        listing.fetch(|page| async move { context.jobs().list(org, filter, &page).await }).await
    }
}

fn job_filter(text: &str) -> Result<JobFilter> {
    let mut filter = JobFilter::default();
    for condition in filter::parse(text)? {
        match condition.field.as_str() {
            "open" => filter::set_once(&mut filter.is_open, &condition, condition.flag()?)?,
            "kind" => filter::set_once(&mut filter.kind, &condition, condition.search()?)?,
            "user" => filter::set_once(&mut filter.user, &condition, condition.id()?)?,
            _ => return Err(filter::unknown_field(&condition, "open, kind and user")),
        }
    }
    Ok(filter)
}

/// An item of a job with its outcome.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ItemView {
    /// Number of the item in its job, from 1.
    pub number: u32,
    pub item: JobItem,
    /// None: the item is not done.
    pub outcome: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ItemFilter {
    Done,
    Failed,
    /// The items that have not ended.
    Open,
}

impl ItemFilter {
    fn matches(self, item: &JobItem) -> bool {
        match self {
            Self::Done => item.state == ItemState::Done,
            Self::Failed => matches!(item.state, ItemState::Failed(_)),
            Self::Open => !item.has_ended(),
        }
    }

    fn count(self, progress: Progress) -> usize {
        match self {
            Self::Done => progress.done,
            Self::Failed => progress.failed,
            Self::Open => progress.open(),
        }
    }
}

/// Lists the items of a job with their outcomes, in order. Filter: `state:` done, failed or open.
#[derive(Debug, Clone, Serialize)]
pub struct ListJobItems {
    pub job_id: JobId,
    pub list: ListRequest,
}

impl Operation for ListJobItems {
    const DECLARATION: Declaration = SERVICE.read("ListJobItems");
    type Output = ListPage<ItemView>;

    async fn run(self, context: &Context) -> Result<ListPage<ItemView>> {
        let (filter, org) = (item_filter(&self.list.filter)?, &context.principal().org);
        let scope = ["job items", org.as_str(), self.job_id.as_str()];
        let keys = SortKeys::Ascending("number");
        let listing = Listing::new(&self.list, &scope, keys, Order::Oldest, LARGE_PAGE_MAX)?;
        let job = context.jobs().find(org, &self.job_id).await?;
        let progress = job.progress();
        let total = filter.map_or(progress.items, |filter| filter.count(progress)) as u64;
        let job = &job;
        let read = |read: ScanRead<u32>| async move {
            let matches = |item: &JobItem| filter.is_none_or(|filter| filter.matches(item));
            let items = read_items(context, job, read.after.unwrap_or_default(), read.limit).await?;
            let entry = |(number, item): (u32, JobItem)| {
                let found = matches(&item).then_some(ItemView { number, item, outcome: None });
                (number, found)
            };
            Ok::<_, Error>(items.into_iter().map(entry).collect::<Vec<_>>())
        };
        let mut page = listing.scan(ITEMS_PER_READ, Some(total), read).await?;
        add_outcomes(context, job, &mut page.items).await?;
        Ok(page)
    }
}

fn item_filter(text: &str) -> Result<Option<ItemFilter>> {
    let mut found = None;
    for condition in filter::parse(text)? {
        if condition.field != "state" {
            return Err(filter::unknown_field(&condition, "state"));
        }
        let state = match condition.search()?.as_str() {
            "done" => ItemFilter::Done,
            "failed" => ItemFilter::Failed,
            "open" => ItemFilter::Open,
            other => {
                let problem = format!("invalid state {other:?}: expected done, failed or open");
                return Err(Error::invalid_field("filter", problem));
            }
        };
        filter::set_once(&mut found, &condition, state)?;
    }
    Ok(found)
}

/// Returns at most `limit` items with numbers above `after`, in order.
async fn read_items(context: &Context, job: &JobHeader, after: u32, limit: usize) -> Result<Vec<(u32, JobItem)>> {
    let total = u32::try_from(job.progress().items).unwrap_or(u32::MAX);
    let last = after.saturating_add(u32::try_from(limit).unwrap_or(u32::MAX)).min(total);
    if last <= after {
        return Ok(Vec::new());
    }
    let pages: Vec<u32> = (JobPages::page_of(after.saturating_add(1))..=JobPages::page_of(last)).collect();
    let found = context.jobs().pages(job, &pages).await?;
    let page_items = u32::try_from(JOB_PAGE_ITEMS).unwrap_or(u32::MAX);
    let of_page = |(page, found): (u32, JobPage)| {
        let first = page.saturating_mul(page_items).saturating_add(1);
        (first..).zip(found.items)
    };
    let items = pages.into_iter().zip(found).flat_map(of_page);
    Ok(items.filter(|(number, _)| (after.saturating_add(1)..=last).contains(number)).collect())
}

/// Adds the outcomes of the items that are done. Reads the outcomes by page.
async fn add_outcomes(context: &Context, job: &JobHeader, items: &mut [ItemView]) -> Result<()> {
    let done = items.iter().filter(|view| view.item.state == ItemState::Done);
    let pages: BTreeSet<u32> = done.map(|view| JobPages::page_of(view.number)).collect();
    let page_items = u32::try_from(JOB_PAGE_ITEMS).unwrap_or(u32::MAX);
    let reads: Vec<_> = pages
        .into_iter()
        .map(|page| context.jobs().outcomes(job.org(), &job.id, page.saturating_mul(page_items)))
        .collect();
    let found: Vec<Vec<ItemOutcome>> = futures::stream::iter(reads).buffered(READS_AT_ONCE).try_collect().await?;
    let mut outcomes: HashMap<u32, Value> =
        found.into_iter().flatten().map(|outcome| (outcome.item, outcome.value)).collect();
    for view in items.iter_mut().filter(|view| view.item.state == ItemState::Done) {
        view.outcome = outcomes.remove(&view.number);
    }
    Ok(())
}

/// Creates a job with the items of an ended job that are not done. It has the kind and the input of the ended job.
#[derive(Debug, Clone, Serialize)]
pub struct RetryJob {
    pub job_id: JobId,
    /// Credits that the model calls of the new job may cost. None: the budget of the ended job, or no budget if a turn created that job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credit_budget: Option<u64>,
}

impl Operation for RetryJob {
    const DECLARATION: Declaration = SERVICE.change("RetryJob").quota(Quota::ModelCalls).recorded();
    type Output = JobView;

    outcome_as_job_id!(JobView::find);

    async fn audit(&self, _context: &Context) -> Result<AuditRecord<JobView>> {
        Ok(AuditRecord::of_input(self)?.target_of(JobView::audit_target))
    }

    async fn run(self, context: &Context) -> Result<JobView> {
        let credit_budget = check_credit_budget(self.credit_budget)?;
        let job = context.jobs().find(&context.principal().org, &self.job_id).await?;
        if !job.is_ended() {
            let message = format!("the job {} has not ended; wait for its end or cancel it", job.id);
            return Err(Error::precondition(Reason::JobOpen, message));
        }
        let input = retry_input(&job.kind, job.input.clone(), credit_budget)?;
        let mut items = Vec::new();
        let (mut after, total) = (0, u32::try_from(job.progress().items).unwrap_or(u32::MAX));
        while after < total {
            let read = read_items(context, &job, after, ITEMS_PER_READ).await?;
            after = read.last().map_or(total, |(number, _)| *number);
            items.extend(read.into_iter().filter(|(_, item)| item.state != ItemState::Done).map(|(_, item)| item.id));
        }
        if items.is_empty() {
            let message = format!("each item of the job {} is done", job.id);
            return Err(Error::precondition(Reason::JobEnded, message));
        }
        let id = JobId::derive(&context.request.id_parts());
        if job.kind == INGESTION_KIND {
            let documents = items.iter().map(|item| item.parse()).collect::<Result<Vec<DocumentId>>>()?;
            context.stores().passages().set_last_ingestion(job.org(), &id, &documents).await?;
        }
        let principal = context.principal().clone();
        let request = JobRequest { id, principal, kind: job.kind, input, items };
        JobView::read(context, context.job_creator()?.create(request).await?).await
    }
}

/// Returns the input of the retry of a job.
///
/// # Errors
/// `INVALID_FIELD` if a budget is requested for a job of a kind without one: the work of such a job is a turn, whose message states the
/// budget, or needs no model.
fn retry_input(kind: &str, mut input: Value, credit_budget: Option<u64>) -> Result<Value> {
    if credit_budget.is_some() && ![EXTRACTION_KIND, INGESTION_KIND, STACK_FILL_KIND].contains(&kind) {
        let problem = format!(
            "applies to jobs that run a prompt on documents, ingest them or fill a stack, not to one of the kind {kind}"
        );
        return Err(Error::invalid_field("credit_budget", problem));
    }
    if let Some(input) = input.as_object_mut() {
        // The items of a job of a tool call run only if the call created this job, which returns its part of a budget.
        input.remove("call");
        input.remove("budget_part");
        if let Some(credits) = credit_budget {
            input.insert("credit_budget".to_owned(), credits.into());
        }
    }
    Ok(input)
}

/// Streams a job: its current state, and its state after each change. The stream ends when the job has ended.
#[derive(Debug, Clone, Serialize)]
pub struct WatchJob {
    pub job_id: JobId,
}

impl Operation for WatchJob {
    const DECLARATION: Declaration = SERVICE.read("WatchJob").long();
    type Output = BoxStream<'static, Result<JobView>>;

    async fn run(self, context: &Context) -> Result<Self::Output> {
        let mut job = JobView::find(context, &self.job_id).await?;
        let context = context.clone();
        let states = async_stream::try_stream! {
            let mut sent_at = Instant::now();
            yield job.clone();
            while !job.header.is_ended() {
                // The owner may run on another node, which does not notify this process.
                tokio::time::sleep(POLL_INTERVAL).await;
                let permit = context.poll_permit().await?;
                let mut has_changed = context.jobs().may_have_changed(&job.header).await?;
                if has_changed {
                    let header = context.jobs().find(&context.principal().org, &self.job_id).await?;
                    has_changed = header.fence() != job.header.fence();
                    job = JobView::read(&context, header).await?;
                }
                // A caller that does not read must not occupy the permit.
                drop(permit);
                if has_changed || sent_at.elapsed() >= KEEP_ALIVE {
                    sent_at = Instant::now();
                    yield job.clone();
                }
            }
        };
        Ok(states.boxed())
    }
}

/// Declares an operation that executes a command of a user.
macro_rules! command_operation {
    ($(#[$doc:meta])* $name:ident: $command:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Serialize)]
        pub struct $name {
            pub job_id: JobId,
        }

        impl Operation for $name {
            const DECLARATION: Declaration = SERVICE.change(stringify!($name)).recorded();
            type Output = JobView;

            outcome_as_job_id!(JobView::find);

            async fn audit(&self, _context: &Context) -> Result<AuditRecord<JobView>> {
                Ok(AuditRecord::of_input(self)?.target_of(JobView::audit_target))
            }

            async fn run(self, context: &Context) -> Result<JobView> {
                let job = context.jobs().execute(&context.principal().org, &self.job_id, $command).await?;
                JobView::read(context, job).await
            }
        }
    };
}

command_operation! {
    /// Cancels an open job. The outcomes of its items are kept.
    CancelJob: JobCommand::Cancel
}

command_operation! {
    /// Pauses an open job until a user resumes it.
    PauseJob: JobCommand::Pause
}

command_operation! {
    /// Queues a paused job, or queues a waiting job before its `retry_at`.
    ResumeJob: JobCommand::Resume
}

#[cfg(test)]
mod tests {
    use folio_types::{Code, UserId};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_retry_has_the_requested_budget_or_that_of_the_ended_job() {
        let own = json!({ "prompt": "p", "credit_budget": 7 });
        assert_eq!(retry_input(EXTRACTION_KIND, own.clone(), None).unwrap(), own);
        let raised = retry_input(EXTRACTION_KIND, own, Some(9)).unwrap();
        assert_eq!(raised, json!({ "prompt": "p", "credit_budget": 9 }));
        let of_turn = json!({ "prompt": "p", "call": "c", "budget_part": {} });
        assert_eq!(retry_input(EXTRACTION_KIND, of_turn.clone(), None).unwrap(), json!({ "prompt": "p" }));
        assert_eq!(retry_input(EXTRACTION_KIND, of_turn, Some(9)).unwrap(), raised);
        let refused = retry_input("auto_create", json!({}), Some(9)).unwrap_err();
        assert_eq!(refused.violations[0].field, "credit_budget");
        assert_eq!(retry_input("auto_create", json!({ "at": 1 }), None).unwrap(), json!({ "at": 1 }));
    }

    #[test]
    fn items_are_selected_by_their_state() {
        let item = |state| JobItem { id: "a".to_owned(), state, attempt: 1, failures: 0, steps: None };
        let failed = ItemState::Failed(Error::new(Code::Internal, Reason::Internal, "x"));
        let states = [ItemState::Pending, ItemState::Running, ItemState::Done, failed];
        for (text, expected) in [
            ("state:done", [false, false, true, false]),
            ("state:failed", [false, false, false, true]),
            ("state:open", [true, true, false, false]),
        ] {
            let filter = item_filter(text).unwrap().unwrap();
            assert_eq!(states.clone().map(|state| filter.matches(&item(state))), expected, "{text}");
        }
        assert_eq!(item_filter("").unwrap(), None);
        for bad in ["state:pending", "kind:a", "state:done state:open"] {
            assert_eq!(item_filter(bad).unwrap_err().violations[0].field, "filter", "{bad}");
        }
    }

    #[test]
    fn a_job_filter_is_parsed_as_documented() {
        let user = UserId::derive(&["u"]);
        let text = format!("open:true kind:extraction user={user}");
        let kind = Some("extraction".to_owned());
        let expected = JobFilter { is_open: Some(true), kind, user: Some(user), ..JobFilter::default() };
        assert_eq!(job_filter(&text).unwrap(), expected);
        assert_eq!(job_filter("").unwrap(), JobFilter::default());
        for bad in ["state:running", "open:maybe", "user:x", "open:true open:false"] {
            assert_eq!(job_filter(bad).unwrap_err().violations[0].field, "filter", "{bad}");
        }
    }
}
