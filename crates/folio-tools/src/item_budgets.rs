//! Parts of the credit budget of a job for its items.

use folio_history::job::{JobHeader, JobItem};
use folio_metering::Share;
use folio_types::{BudgetPart, Error, Result};

use crate::tool::ToolResources;

/// Gives an item its part of the job's credit budget: the rest divided by the number of open items without a part. An item keeps
/// its part until it ends. An ended item still has its part if its node died in the last attempt, or if the return of the part
/// failed; such parts are returned before the division. None: the job has no budget.
///
/// # Errors
/// `STORE_UNAVAILABLE`: the call can be repeated.
pub async fn part_of_item(resources: &ToolResources, job: &JobHeader, item: u32) -> Result<Option<BudgetPart>> {
    let Some(part) = job.budget_part().map(|part| part.child(item)) else { return Ok(None) };
    let open = u64::try_from(job.progress().open()).unwrap_or(u64::MAX);
    let ended = |child: &str| child.parse::<u32>().is_ok_and(|item| has_ended(job, item));
    resources.budget(job.org(), part.clone()).grant(Share::Equal { open }, ended).await?;
    Ok(Some(part))
}

/// Returns the part of an item to the job after an attempt with this outcome, unless another attempt follows: a turn that waits or is
/// interrupted continues with its part, also outside of an attempt.
///
/// # Errors
/// The error of the outcome, otherwise `STORE_UNAVAILABLE`: then the next attempt finds the outcome and returns the part.
pub async fn return_part_of_item<T>(
    resources: &ToolResources,
    job: &JobHeader,
    part: Option<BudgetPart>,
    outcome: Result<T>,
    is_last_attempt: impl Fn(&Error) -> bool,
) -> Result<T> {
    let is_attempted_again = outcome.as_ref().is_err_and(|error| !is_last_attempt(error));
    let returned = match part.filter(|_| !is_attempted_again) {
        Some(part) => resources.budget(job.org(), part).take_back().await,
        None => Ok(()),
    };
    outcome.and_then(|outcome| returned.map(|()| outcome))
}

/// Returns the part of an ended job, with those of its items, to the budget of the turn that created the job. If the job is the
/// root, those of its items return to it.
///
/// # Errors
/// `STORE_UNAVAILABLE`: the call can be repeated.
pub async fn return_parts(resources: &ToolResources, job: &JobHeader) -> Result<()> {
    match job.budget_part().filter(|_| job.is_ended()) {
        Some(part) => resources.budget(job.org(), part).take_back().await,
        None => Ok(()),
    }
}

/// Returns true if an item has ended. All items of the pages before the current page have ended.
fn has_ended(job: &JobHeader, item: u32) -> bool {
    let found = job.index_of(item).and_then(|index| job.items.get(index));
    item <= job.items_before() || found.is_some_and(JobItem::has_ended)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use folio_history::job::{ItemState, JobPages, NewJob};
    use folio_types::{JobId, OrgId, Principal, Reason, Role, Timestamp, UserId};
    use serde_json::json;

    use super::*;

    #[test]
    fn ended_items_are_numbered_like_their_runs() {
        let new = NewJob {
            id: JobId::derive(&["j"]),
            principal: Principal::new(OrgId::derive(&["o"]), UserId::derive(&["u"]), Role::Member),
            kind: "test".to_owned(),
            input: json!({}),
            items: ["a", "b", "c", "d"].map(str::to_owned).to_vec(),
            running_max: Duration::from_secs(60),
            at: Timestamp::UNIX_EPOCH,
        };
        let mut job = new.header().unwrap();
        let ended = |job: &JobHeader, items: [u32; 7]| items.map(|item| has_ended(job, item));
        assert_eq!(ended(&job, [0, 1, 2, 3, 4, 5, 6]), [true, false, false, false, false, false, false]);
        let failed = || ItemState::Failed(Error::unavailable(Reason::NodeLost, "the node died"));
        (job.items[0].state, job.items[1].state) = (failed(), ItemState::Done);
        (job.items[2].state, job.items[3].state) = (ItemState::Running, failed());
        assert_eq!(job.run_of(2).unwrap().item, 3);
        assert_eq!(ended(&job, [0, 1, 2, 3, 4, 5, 6]), [true, true, true, false, true, false, false]);
        job.pages = Some(JobPages { items: 105, current: 1, ..JobPages::default() });
        assert_eq!(job.run_of(2).unwrap().item, 103);
        let found = ended(&job, [1, 100, 101, 102, 103, 104, 105]);
        assert_eq!(found, [true, true, true, true, false, true, false], "the items of the second page");
    }
}
