//! Waiting until nothing runs any more, and gathering what is judged then.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use folio_history::thread::Phase;
use folio_types::{ThreadId, Timestamp};

use super::checker::{Evidence, StillBusy, ThreadSeen};
use super::log::Log;
use super::reading::Tables;
use crate::harness::tenant::Tenant;

/// How often the threads are looked at.
const LOOK: Duration = Duration::from_millis(300);

/// How long a thread may be busy without a step.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// From then on it was busy for too long.
    pub stuck: Duration,
    /// How long all of them together may take.
    pub whole: Duration,
}

/// Waits until every turn ended or waits, and the index of open turns knows it, and gives what is stored then with what the clients heard.
///
/// # Errors
/// The store does not answer.
pub async fn gather(tables: &Tables, tenants: &[Tenant], log: &Log, patience: Patience) -> Result<Evidence> {
    let busy = settle(tables, patience).await?;
    let marks = tenants.iter().map(|tenant| (tenant.org.clone(), tenant.mark.clone())).collect();
    Ok(Evidence {
        threads: tables.threads().await?,
        aggregates: tables.aggregates().await?,
        accounts: tables.accounts().await?,
        log: log.lines(),
        audit: Some(tables.audit().await?),
        marks,
        busy,
        taken_at: Timestamp::now(),
    })
}

/// Threads that stay at one version for longer than they may.
async fn settle(tables: &Tables, patience: Patience) -> Result<Vec<StillBusy>> {
    let begun = Instant::now();
    let mut seen: BTreeMap<ThreadId, (u64, Instant)> = BTreeMap::new();
    loop {
        let threads = tables.threads().await?;
        let rows = tables.open_turns().await?;
        let busy: Vec<&ThreadSeen> =
            threads.iter().filter(|thread| is_busy(thread) || rows.iter().any(|row| is_left(row, thread))).collect();
        let now = Instant::now();
        seen.retain(|thread, _| busy.iter().any(|busy| busy.id == *thread));
        for thread in &busy {
            let entry = seen.entry(thread.id.clone()).or_insert((thread.version, now));
            if entry.0 != thread.version {
                *entry = (thread.version, now);
            }
        }
        let stuck = |since: &Instant| now.duration_since(*since) > patience.stuck;
        let all_stuck = seen.values().all(|(_, since)| stuck(since));
        if all_stuck || begun.elapsed() > patience.whole {
            let still =
                seen.into_iter().map(|(thread, (_, since))| StillBusy { thread, since: now.duration_since(since) });
            return Ok(still.collect());
        }
        // The threads have as long as that.
        tokio::time::sleep(LOOK).await;
    }
}

/// Whether a row of the index leads to a turn of the thread that has ended: the sweep looks at it once more.
fn is_left((id, turn, epoch): &(String, u32, u64), thread: &ThreadSeen) -> bool {
    let open = thread.header.open_turn.as_ref().is_some_and(|open| open.number == *turn);
    *id == thread.id.as_str() && !open && thread.header.turns >= *turn && thread.header.epoch >= *epoch
}

fn is_busy(thread: &ThreadSeen) -> bool {
    let due = |open: &folio_history::thread::OpenTurn| open.expires_at.is_some_and(|end| end <= Timestamp::now());
    thread.header.open_turn.as_ref().is_some_and(|open| open.phase != Phase::Paused || due(open))
}
