//! The state of the ingestion of a document, as its stored passages and its newest job state it.

use folio_history::job::{ItemOutcome, ItemState, JobHeader, JobItem, JobPages, JobState};
use folio_resources::Document;
use folio_storage::Stores;
use folio_storage::value::{LastIngestion, PassageHead};
use folio_types::limits::JOB_PAGE_ITEMS;
use folio_types::{Error, JobId, Result, Timestamp};

use crate::ingest::is_current;
use crate::job::OMISSIONS;

/// The state of the ingestion of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IngestionState {
    /// The document was never ingested, or the record of its job has expired.
    None,
    /// The job has not begun with the document, waits, or is paused.
    Pending,
    Running,
    /// The passages are those of the current text.
    Indexed,
    /// The newest attempt failed.
    Failed(Error),
    /// The newest job had no effect, for this reason.
    Skipped(String),
}

/// The ingestion of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentIngestion {
    pub state: IngestionState,
    /// The live passages. They may be those of an earlier text.
    pub passages: Option<PassageHead>,
    /// True if the live passages are those of the current text.
    pub is_current: bool,
    /// The newest job. None: there was none, or its record has expired.
    pub job: Option<JobId>,
    /// A sentence about each kind of work that the newest job left out. Empty unless the state is [`IngestionState::Indexed`].
    pub omissions: Vec<String>,
}

/// The part of a job that concerns a document.
struct Work<'a> {
    job: &'a JobHeader,
    item: &'a JobItem,
    /// The outcome of the item. None: it is not done.
    outcome: Option<&'a ItemOutcome>,
}

/// Returns the state of the ingestion of a document.
///
/// # Errors
/// Those of the stores.
pub async fn ingestion_of(stores: &Stores, document: &Document) -> Result<DocumentIngestion> {
    let (org, id, store) = (&document.org, &document.id, stores.passages());
    let (passages, last) = tokio::try_join!(store.head(org, id), store.last_ingestion(org, id))?;
    let job = match &last {
        Some(LastIngestion { job, .. }) => stores.jobs.header(org, job).await?,
        None => None,
    };
    let (mut item, mut outcome): (Option<JobItem>, Option<ItemOutcome>) = (None, None);
    if let (Some(job), Some(LastIngestion { item: number, .. })) = (&job, &last) {
        // A job that another request created under the same id may have fewer items.
        let page = JobPages::page_of(*number).min(job.page_count().saturating_sub(1));
        let pages = stores.job_pages().pages(job, &[page]).await?;
        let index = usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX) % JOB_PAGE_ITEMS;
        item = pages.into_iter().next().and_then(|page| page.items.into_iter().nth(index));
        item = item.filter(|item| item.id == id.as_str());
        let found = stores.jobs.outcomes(org, &job.id, number.saturating_sub(1), 1).await?;
        outcome = found.into_iter().find(|outcome| outcome.item == *number);
    }
    let work = job.as_ref().zip(item.as_ref()).map(|(job, item)| Work { job, item, outcome: outcome.as_ref() });
    Ok(decide(passages, document.text_generation, work.as_ref()))
}

fn decide(passages: Option<PassageHead>, text: Option<Timestamp>, work: Option<&Work<'_>>) -> DocumentIngestion {
    let is_current = passages.as_ref().is_some_and(|passages| is_current(passages, text));
    let of_passages = if is_current { IngestionState::Indexed } else { IngestionState::None };
    let state = match work {
        None => of_passages,
        Some(Work { job, item, outcome }) => match (&item.state, &job.state) {
            (ItemState::Failed(error), _) => IngestionState::Failed(error.clone()),
            (ItemState::Done, _) => match outcome.and_then(|outcome| outcome.value.get("skipped")?.as_str()) {
                Some(reason) if !is_current => IngestionState::Skipped(reason.to_owned()),
                _ => of_passages,
            },
            (_, JobState::Failed(error)) => IngestionState::Failed(error.clone()),
            (_, JobState::Cancelled | JobState::Completed) => of_passages,
            (ItemState::Running, JobState::Running) => IngestionState::Running,
            _ => IngestionState::Pending,
        },
    };
    let outcome = work.and_then(|work| work.outcome).filter(|_| state == IngestionState::Indexed);
    let omissions = outcome.and_then(|outcome| outcome.value.get(OMISSIONS)?.as_array()).into_iter().flatten();
    let omissions = omissions.filter_map(|text| text.as_str().map(str::to_owned)).collect();
    DocumentIngestion { state, passages, is_current, job: work.map(|work| work.job.id.clone()), omissions }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use folio_history::job::{JobCommand, NewJob, TEXT_INGESTION_KIND};
    use folio_types::{DocumentId, Incarnation, OrgId, Principal, Reason, Role, UserId};
    use serde_json::{Value, json};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::constant(1_790_000_000 + seconds, 0)
    }

    fn head(seconds: i64) -> PassageHead {
        PassageHead {
            document: DocumentId::derive(&["d"]),
            generation: 1,
            passages: 3,
            space: None,
            text_generation: at(seconds),
            created_at: at(seconds),
        }
    }

    fn queued() -> JobHeader {
        let new = NewJob {
            id: JobId::derive(&["j"]),
            principal: Principal::new(OrgId::derive(&["o"]), UserId::platform(), Role::Admin),
            kind: TEXT_INGESTION_KIND.to_owned(),
            input: json!({}),
            items: vec!["d".to_owned()],
            running_max: Duration::from_secs(60),
            at: at(0),
        };
        new.header().unwrap()
    }

    fn after(job: &JobHeader, command: JobCommand) -> JobHeader {
        job.after(command, at(1)).unwrap().unwrap()
    }

    fn decided(passages: Option<PassageHead>, job: &JobHeader, outcome: Option<Value>) -> DocumentIngestion {
        let outcome = outcome.map(|value| ItemOutcome { item: 1, attempt: 1, value, at: at(2) });
        let work = Work { job, item: &job.items[0], outcome: outcome.as_ref() };
        decide(passages, Some(at(10)), Some(&work))
    }

    fn state(passages: Option<PassageHead>, job: &JobHeader, outcome: Option<Value>) -> IngestionState {
        decided(passages, job, outcome).state
    }

    #[test]
    fn the_state_follows_the_newest_job_and_the_live_passages() {
        let queued = queued();
        let owner = Incarnation::derive(&["n"]);
        let started = after(&queued, JobCommand::Start { owner, access: Ok(queued.principal.clone()) });
        let running = after(&started, JobCommand::Begin { item: 0 });
        let ended = |result| after(&running, JobCommand::Finish { item: 0, result });
        let (done, refused) = (ended(Ok(())), Error::invalid_field("window", "is too small"));
        let failed = ended(Err(refused.clone()));
        assert_eq!(state(None, &queued, None), IngestionState::Pending);
        assert_eq!(state(Some(head(10)), &started, None), IngestionState::Pending, "the passages are replaced");
        assert_eq!(state(None, &running, None), IngestionState::Running);
        assert_eq!(state(Some(head(10)), &done, Some(json!({ "passages": 3 }))), IngestionState::Indexed);
        assert!(
            matches!(state(None, &failed, None), IngestionState::Failed(error) if error.reason == Reason::InvalidField)
        );
        let partial = Some(json!({ "passages": 3, "omissions": ["images"] }));
        assert_eq!(decided(Some(head(10)), &done, partial.clone()).omissions, ["images"]);
        assert!(decided(Some(head(9)), &done, partial).omissions.is_empty(), "they are those of the current text");
        let skipped = Some(json!({ "skipped": "no text" }));
        assert_eq!(state(None, &done, skipped.clone()), IngestionState::Skipped("no text".to_owned()));
        assert_eq!(state(Some(head(10)), &done, skipped), IngestionState::Indexed);
        let cancelled = after(&running, JobCommand::Cancel);
        assert_eq!(state(Some(head(10)), &cancelled, None), IngestionState::Indexed);
        assert_eq!(state(None, &cancelled, None), IngestionState::None);
        let lost = after(&running, JobCommand::Fail { error: refused });
        assert!(matches!(state(None, &lost, None), IngestionState::Failed(_)));
    }

    #[test]
    fn passages_of_an_earlier_text_are_not_current() {
        let found = decide(Some(head(9)), Some(at(10)), None);
        assert_eq!((found.state, found.is_current), (IngestionState::None, false));
        let found = decide(Some(head(10)), Some(at(10)), None);
        assert_eq!((found.state, found.is_current), (IngestionState::Indexed, true));
        assert!(!decide(Some(head(10)), None, None).is_current);
    }
}
