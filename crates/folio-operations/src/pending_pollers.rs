//! Polls the index of pending turns for the watchers of an organization.
//!
//! A poll reads a window of the index, and the next poll reads the window after it. Windows contain no calls, because watchers
//! read the calls from the threads.

use std::sync::Arc;
use std::time::Duration;

use folio_storage::{SharedTurn, SharedTurnStore, ThreadStore, TurnCursor};
use folio_types::{Error, OrgId, Result, ThreadId};
use futures::{StreamExt as _, TryStreamExt as _};

use crate::shared_poller::{Polls, Schedule, SharedPollers};

/// Number of index entries of one read.
pub(crate) const READ_ENTRIES: usize = 128;
/// Maximum number of index reads of one poll. A window has at most as many entries as these reads return, a few hundred
/// bytes each.
// proto: none "bounds the work of a poll"
const READS_MAX: usize = 8;
/// Interval at which the index of an organization is read.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Number of passes through the index after which the entries are compared with their threads.
const PASSES_PER_CHECK: u32 = 30;
/// Number of headers of threads that are read at a time.
const HEADERS_AT_ONCE: usize = 16;

/// A part of the index.
#[derive(Debug)]
pub(crate) struct Window {
    /// Position after which the window starts. None: the beginning of the index.
    pub(crate) from: Option<TurnCursor>,
    /// Last position of the window. None: the window contains the end of the index.
    pub(crate) until: Option<TurnCursor>,
    /// The entries without their calls.
    pub(crate) entries: Vec<SharedTurn>,
    /// Number of earlier passes through the whole index.
    pub(crate) pass: u32,
    /// Number of earlier windows that differed from their predecessor. Windows with the same number have the same positions and entries.
    pub(crate) revision: u64,
    /// True if the thread of an entry was found to have another version than the entry: the index may lack a change.
    pub(crate) is_outdated: bool,
}

/// Subscribes to the windows of an organization's index.
pub(crate) fn subscribe(
    pollers: &SharedPollers<OrgId, Window>,
    org: &OrgId,
    (index, threads): (&Arc<dyn SharedTurnStore>, &Arc<dyn ThreadStore>),
    random: u128,
) -> Polls<Window> {
    let (of_poller, index, threads) = (org.clone(), Arc::clone(index), Arc::clone(threads));
    let read = move |last: Option<Arc<Window>>| {
        let (org, index, threads) = (of_poller.clone(), Arc::clone(&index), Arc::clone(&threads));
        async move {
            let window = read(index.as_ref(), &org, last.as_deref()).await?;
            let is_checked = window.pass % PASSES_PER_CHECK == PASSES_PER_CHECK - 1;
            let is_outdated = is_checked && is_outdated(threads.as_ref(), &org, &window.entries).await?;
            Ok(Window { is_outdated, ..window })
        }
    };
    pollers.subscribe(org, Schedule { interval: POLL_INTERVAL, random }, read)
}

/// Reads the window behind the last one, or at the beginning of the index after a whole pass.
async fn read(index: &dyn SharedTurnStore, org: &OrgId, last: Option<&Window>) -> Result<Window> {
    let from = last.and_then(|last| last.until.clone());
    let pass = last.map_or(0, |last| last.pass.wrapping_add(u32::from(last.until.is_none())));
    let mut window = Window { until: from.clone(), from, entries: Vec::new(), pass, revision: 0, is_outdated: false };
    for _ in 0..READS_MAX {
        let read = index.waiting(org, None, window.until.as_ref(), READ_ENTRIES).await?;
        let is_last = read.len() < READ_ENTRIES;
        window.until = read.iter().rev().find_map(SharedTurn::cursor).or(window.until);
        window.entries.extend(read.into_iter().map(|entry| SharedTurn { pending: Vec::new(), ..entry }));
        if is_last {
            window.until = None;
            break;
        }
    }
    if let Some(last) = last {
        let is_equal = last.from == window.from && last.until == window.until && last.entries == window.entries;
        window.revision = last.revision.wrapping_add(u64::from(!is_equal));
    }
    Ok(window)
}

/// Returns true if the thread of an entry has another version than the entry.
async fn is_outdated(threads: &dyn ThreadStore, org: &OrgId, entries: &[SharedTurn]) -> Result<bool> {
    let versions: Vec<(ThreadId, u64)> =
        entries.iter().map(|entry| (entry.turn.thread.clone(), entry.version)).collect();
    let checks = versions.into_iter().map(|(thread, version)| async move {
        let header = threads.header(org, &thread).await?;
        Ok::<_, Error>(header.is_none_or(|header| header.version != version))
    });
    futures::stream::iter(checks).buffered(HEADERS_AT_ONCE).try_any(std::future::ready).await
}
