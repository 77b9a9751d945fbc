//! Operations on jobs. A job belongs to its organization: every member may control it.

use std::time::Duration;

use folio_history::job::{ItemOutcome, JobCommand, JobFilter, JobHeader, KIND};
use folio_types::access::Scope;
use folio_types::page::Order;
use folio_types::{JobId, Result};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde::Serialize;
use tokio::time::Instant;

use crate::context::Context;
use crate::declaration::{Declaration, service};
use crate::filter;
use crate::list::{LARGE_PAGE_MAX, ListPage, ListRequest, Listing, SortKeys};
use crate::operation::{Operation, outcome_as_job_id};

service! {
    "JobService", Some(Scope::Extractions) => GetJob, ListJobs, WatchJob, CancelJob, PauseJob, ResumeJob
}

/// Interval at which a stream reads its job.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Time without a change after which a stream sends the job again.
// proto: JobService.WatchJob "after {} s"
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// A job with the outcomes of its items.
#[derive(Debug, Clone, PartialEq)]
pub struct JobView {
    pub header: JobHeader,
    /// The outcomes of the items that are done, in the order of the items.
    pub outcomes: Vec<ItemOutcome>,
}

impl JobView {
    /// Reads the outcomes of a job.
    pub(crate) async fn read(context: &Context, header: JobHeader) -> Result<Self> {
        let has_outcomes = header.progress().done > 0;
        let outcomes = match has_outcomes {
            true => context.jobs().outcomes(header.org(), &header.id).await?,
            false => Vec::new(),
        };
        Ok(Self { header, outcomes })
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
                let header = context.jobs().find(&context.principal().org, &self.job_id).await?;
                let has_changed = header.fence() != job.header.fence();
                if has_changed {
                    job = JobView::read(&context, header).await?;
                }
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
            const DECLARATION: Declaration = SERVICE.change(stringify!($name)).recorded_outcome();
            type Output = JobView;

            outcome_as_job_id!(JobView::find);

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
    use folio_types::UserId;

    use super::*;

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
