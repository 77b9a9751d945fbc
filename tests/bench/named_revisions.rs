//! A prompt of which each revision is named by the large working state of a thread, so that its updates are refused.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use folio_history::journal::{WorkingExtraction, WorkingState};
use folio_history::thread::{Append, Appended, HeaderChange, NewThread};
use folio_resources::{Prompt, PromptChange, PromptUpdate};
use folio_storage::Stores;
use folio_types::op::{Expected, Write};
use folio_types::{
    DocumentId, ExtractionId, OrgId, Principal, PromptId, PromptRevId, Reason, Role, ThreadId, Timestamp, TurnId,
    UserId, limits,
};
use serde_json::{Value, json};

use crate::deletion::fill;

/// Number of refused updates, one after another.
pub(crate) const UPDATES: usize = 20;
/// Approximate size of the extraction in the working state of each thread, in bytes.
const DATA_BYTES: usize = 80 * 1024;

/// Creates the prompt, with the maximum of small revisions. `number`: not that of another prompt.
pub(crate) async fn create(stores: &Stores, org: &OrgId, number: usize) -> Result<PromptId> {
    let content = |revision: u64| format!("revision {revision}");
    let prompt = fill(stores, org, number, u64::try_from(limits::REVISIONS_MAX)?, content).await?;
    for revision in 1..=u32::try_from(limits::REVISIONS_MAX)? {
        name(stores, org, &prompt, revision).await?;
    }
    Ok(prompt)
}

/// Creates a thread whose working state is large and names a revision.
async fn name(stores: &Stores, org: &OrgId, prompt: &PromptId, number: u32) -> Result<()> {
    let (revid, at) = (PromptRevId::new(prompt.clone(), number), Timestamp::now());
    let id = ThreadId::derive(&[prompt.as_str(), &number.to_string()]);
    let principal = Principal::new(org.clone(), UserId::derive(&["user"]), Role::Member);
    let thread = NewThread::new(id.clone(), &principal, "document", Vec::new(), at);
    let thread = stores.threads.create(thread).await?;
    stores.of::<Prompt>().name_revision(org, &revid, &TurnId::new(id.clone(), 1)).await?;
    let lines: Vec<Value> = (0..DATA_BYTES / 28).map(|line| json!({ "text": "a line", "n": line })).collect();
    let extraction = WorkingExtraction {
        id: ExtractionId::derive(&["an extraction"]),
        document: DocumentId::derive(&["a document"]),
        prompt: revid,
        data: json!({ "lines": lines }),
    };
    let working = WorkingState { extraction: Some(extraction), ..WorkingState::default() };
    let change = HeaderChange { working: Some(working), ..HeaderChange::default() };
    let append = Append { change, ..Append::new(u128::from(number), thread.fence(), at) };
    let appended = stores.threads.append(org, &id, append).await?;
    ensure!(matches!(appended, Appended::Done(_)), "an append to a thread was refused");
    Ok(())
}

/// Updates the prompt, which the store must refuse, and returns the longest time.
pub(crate) async fn update(stores: &Stores, org: &OrgId, prompt: &PromptId) -> Result<Duration> {
    let mut longest = Duration::ZERO;
    for number in 0..UPDATES {
        let content = Some(format!("refused {number}"));
        let change = PromptChange::Update(PromptUpdate { content, ..PromptUpdate::default() });
        let (key, expected) = (format!("refused-{number}"), Expected::Version(u64::try_from(limits::REVISIONS_MAX)?));
        let write = Write::by_platform(org.clone(), key.parse()?, Timestamp::now(), expected, change);
        let started = Instant::now();
        let decided = stores.of::<Prompt>().decide(prompt, write).await;
        longest = longest.max(started.elapsed());
        let is_refused = decided.as_ref().is_err_and(|error| error.reason == Reason::LimitReached);
        ensure!(is_refused, "an update with named revisions: {decided:?}");
    }
    Ok(longest)
}
