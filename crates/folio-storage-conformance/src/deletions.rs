//! The index of deletions: its pages, the confirmation of its rows, and the rows that a deletion leaves.

use std::ops::RangeInclusive;

use folio_resources::{Cleanup, Kind, Prompt, PromptChange};
use folio_storage::value::DeletionRow;
use folio_types::op::{Expected, Target, WriteOutcome};
use folio_types::{PromptId, Timestamp};

use super::context::{Context, done, row};
use super::resources::Run;
use super::sample::{Sampled, Seed};
use super::{Failure, Outcome, check, same};

/// The start of the clock, in seconds. No other suite deletes prompts at these times.
pub(crate) const SECONDS: i64 = 1_795_000_000;
/// Number of deletions. On CQL they are in all partitions of the index.
const ROWS: usize = 60;
/// More rows than a system index has in any test.
const ALL: usize = 100_000;

pub(crate) async fn suite(context: &Context) -> Outcome {
    pages(context).await?;
    unconfirmed(context).await
}

/// Returns the rows of the suite within some times, read in pages of a size.
async fn walk(context: &Context, times: &RangeInclusive<Timestamp>, page: usize) -> Result<Vec<DeletionRow>, Failure> {
    let (resources, kind) = (&context.stores.resources, Kind::get::<Prompt>());
    let mut found: Vec<DeletionRow> = Vec::new();
    loop {
        let rows = resources.indexed_deletions(kind, times, found.last(), page).await?;
        check!(rows.len() <= page, "a page of {page} deletions contains {}", rows.len());
        let is_last = rows.len() < page;
        for row in rows {
            check!(times.contains(&row.at), "a deletion outside of {times:?}: {row:?}");
            check!(!found.contains(&row), "a deletion is listed twice in pages of {page}: {row:?}");
            found.push(row);
        }
        if is_last {
            found.retain(|row| row.org == context.org);
            return Ok(found);
        }
    }
}

/// Creates and deletes a prompt. Returns the row of its deletion.
async fn deleted(context: &Context, number: usize) -> Result<DeletionRow, Failure> {
    let id = context.sample::<Prompt>(&Seed::named(&format!("prompt {number}"))).await?;
    let delete = context.write(Expected::Version(1), PromptChange::Delete)?;
    let at = delete.at;
    done(context.stores.of::<Prompt>().decide(&id, delete).await?)?;
    Ok(deletion(context, &id, at))
}

fn deletion(context: &Context, id: &PromptId, at: Timestamp) -> DeletionRow {
    DeletionRow { org: context.org.clone(), id: id.to_string(), at }
}

/// Checks that pages of any size contain each deletion once, within the given times, and continue after a position.
async fn pages(context: &Context) -> Outcome {
    let (resources, kind) = (&context.stores.resources, Kind::get::<Prompt>());
    let first = context.now();
    let mut expected = futures::future::try_join_all((0..ROWS).map(|number| deleted(context, number))).await?;
    let times = first..=context.now();
    let all = walk(context, &times, ALL).await?;
    let mut by_time = all.clone();
    by_time.sort_by_key(|row| row.at);
    expected.sort_by_key(|row| row.at);
    same!(by_time, expected, "the deletions in the order of their times");
    for page in [1, 7, ROWS] {
        same!(walk(context, &times, page).await?, all, "the deletions in pages of {page}");
    }
    for row in expected.iter().take(3) {
        same!(walk(context, &(row.at..=row.at), 2).await?, vec![row.clone()], "the deletions at a time");
    }
    if let [earliest, .., latest] = expected.as_slice() {
        let within = walk(context, &(earliest.at..=latest.at), 7).await?;
        same!(within, all, "the deletions from the earliest to the latest one");
    }
    let (before, rest) = all.split_at(ROWS / 2);
    let Some(position) = before.last() else { return Err(Failure("no deletion is listed".to_owned())) };
    for _ in 0..2 {
        let mut after = resources.indexed_deletions(kind, &times, Some(position), ALL).await?;
        after.retain(|row| row.org == context.org);
        same!(after, rest, "the deletions after a position, before and after its clean-up");
        resources.clean_deleted(&position.org, kind, &position.id, true).await?;
    }
    check!(!walk(context, &times, 7).await?.contains(position), "a deletion is listed after its clean-up");
    for row in &all {
        check!(resources.confirm_deletion(kind, row).await?, "a deletion is not confirmed: {row:?}");
        resources.clean_deleted(&row.org, kind, &row.id, true).await?;
    }
    same!(walk(context, &times, ALL).await?, Vec::<DeletionRow>::new(), "the deletions after their clean-up");
    Ok(())
}

/// Checks that rows of refused deletions are not confirmed, and that their confirmation keeps the row of a deletion that
/// happened.
async fn unconfirmed(context: &Context) -> Outcome {
    let (resources, prompts, kind) = (&context.stores.resources, context.stores.of::<Prompt>(), Kind::get::<Prompt>());
    let first = context.now();
    let id = context.sample::<Prompt>(&Seed::named("live")).await?;
    let refused = async || {
        let delete = context.write(Expected::Version(7), PromptChange::Delete)?;
        let at = delete.at;
        same!(prompts.decide(&id, delete).await?, WriteOutcome::VersionMismatch, "a deletion at another version");
        Ok::<_, Failure>(deletion(context, &id, at))
    };
    let early = refused().await?;
    check!(!resources.confirm_deletion(kind, &early).await?, "a refused deletion of a live resource is confirmed");
    let delete = context.write(Expected::Version(1), PromptChange::Delete)?;
    let stays = deletion(context, &id, delete.at);
    done(prompts.decide(&id, delete).await?)?;
    let late = refused().await?;
    for row in [&early, &late] {
        check!(!resources.confirm_deletion(kind, row).await?, "a deletion at another time is confirmed: {row:?}");
    }
    check!(resources.confirm_deletion(kind, &stays).await?, "a deletion is not confirmed");
    let missing = deletion(context, &context.id::<Prompt>(), late.at);
    check!(!resources.confirm_deletion(kind, &missing).await?, "a resource that never existed was deleted");
    let times = first..=context.now();
    same!(walk(context, &times, ALL).await?, vec![stays], "the deletions after the stale rows were removed");
    Ok(resources.clean_deleted(&context.org, kind, id.as_str(), true).await?)
}

impl Run {
    /// Checks the row of a deletion in the index, and the rows that a deletion leaves.
    pub(crate) async fn cleanup(&mut self, sampled: &Sampled) -> Outcome {
        let (kind, resources) = (sampled.kind, self.context.stores.resources.clone());
        if kind.cleanup == Cleanup::Nothing {
            return Ok(());
        }
        let org = self.context.org.clone();
        let kept = self.target(sampled).await?;
        let id = self.target(sampled).await?;
        let at = row(self.delete(&id).await??)?.at;
        let mark = DeletionRow { org: org.clone(), id: id.clone(), at };
        let is_listed =
            async || Ok::<_, Failure>(resources.indexed_deletions(kind, &(at..=at), None, ALL).await?.contains(&mark));
        check!(is_listed().await?, "a deletion is in no index");
        resources.clean_deleted(&org, kind, &id, false).await?;
        self.compare_ops().await?;
        check!(is_listed().await?, "a deletion is in no index before its clean-up ends");
        check!(resources.confirm_deletion(kind, &mark).await?, "a deletion is not confirmed before its clean-up ends");
        for id in [&kept, &id, &id] {
            resources.clean_deleted(&org, kind, id, true).await?;
        }
        if kind.cleanup == Cleanup::Dependents {
            self.memory.remove_content(&Target::new(kind.name, &id));
        }
        check!(!is_listed().await?, "a deletion is in the index after its clean-up");
        same!(resources.revisions(&org, &id, &[1]).await?, vec![None], "the revisions of a deleted resource");
        same!(resources.revision_numbers(&org, &id).await?, Vec::<u32>::new(), "the numbers of removed revisions");
        Ok(())
    }
}
