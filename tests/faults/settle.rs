//! Waits until no turn is running, and collects the evidence.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use folio_history::thread::{OpenTurn, Phase};
use folio_types::{ThreadId, Timestamp};

use super::checker::{Evidence, ObservedModelRequest, ObservedThread, StuckThread};
use super::log::Log;
use super::tables::{ObservedOpenTurn, Tables};
use crate::harness::cluster::Cluster;

/// Polling interval of the threads.
const POLL_INTERVAL: Duration = Duration::from_millis(300);

/// Time after which the row of an ended turn in the index of open turns counts as stuck. Nodes check the row of a waiting turn
/// every 120 sweeps, which are 24 s in a fault run; the rest is the time of several sweeps on a busy machine. Until then, such a
/// row only causes reads by the sweeps.
const STALE_ROW: Duration = Duration::from_secs(60);

/// Time limits for turns to end.
#[derive(Debug, Clone, Copy)]
pub struct TimeLimits {
    /// Time without progress after which a thread counts as stuck.
    pub stuck: Duration,
    /// Time limit for all threads together.
    pub total: Duration,
}

/// Waits until every turn ended or waits for approval and the index of open turns is consistent. Returns the stored
/// state with the clients' log and the model endpoint's record. The time of the evidence is that of the last check of the
/// pauses, so a pause that expires while the stores are read is not overdue.
pub async fn gather(cluster: &Cluster, tables: &Tables, log: &Log, limits: TimeLimits) -> Result<Evidence> {
    let (busy, taken_at) = settle(tables, limits).await?;
    let markers = cluster.tenants.iter().map(|tenant| (tenant.org.clone(), tenant.marker.clone())).collect();
    // The record is read before the ledgers, whose rows are stored before the requests are sent.
    let model_requests = cluster.sim.all_chat_requests().await.iter().map(ObservedModelRequest::from).collect();
    Ok(Evidence {
        threads: tables.threads().await?,
        aggregates: tables.aggregates().await?,
        accounts: tables.accounts().await?,
        log: log.lines(),
        audit: Some(tables.audit().await?),
        model_requests: Some(model_requests),
        markers,
        busy,
        taken_at,
    })
}

/// Returns the threads that stayed at one version for too long, and the time at which every other pause had not expired
/// yet. A pause that expires while the stores are read is therefore not overdue.
async fn settle(tables: &Tables, limits: TimeLimits) -> Result<(Vec<StuckThread>, Timestamp)> {
    let begun = Instant::now();
    let mut seen: BTreeMap<ThreadId, (u64, Instant)> = BTreeMap::new();
    loop {
        let threads = tables.threads().await?;
        let rows = tables.open_turns().await?;
        let (now, checked_at) = (Instant::now(), Timestamp::now());
        let busy: BTreeMap<&ThreadId, (u64, Busy)> = threads
            .iter()
            .filter_map(|thread| Some((&thread.id, (thread.version, busy_reason(thread, &rows, checked_at)?))))
            .collect();
        seen.retain(|thread, _| busy.contains_key(thread));
        for (thread, (version, _)) in &busy {
            let entry = seen.entry((*thread).clone()).or_insert((*version, now));
            if entry.0 != *version {
                *entry = (*version, now);
            }
        }
        let is_stuck = |(thread, (_, since)): (&ThreadId, &(u64, Instant))| {
            let limit = if busy[thread].1.is_stale_row { limits.stuck.max(STALE_ROW) } else { limits.stuck };
            now.duration_since(*since) > limit
        };
        let all_stuck = seen.iter().all(is_stuck);
        if all_stuck || begun.elapsed() > limits.total {
            let stuck = seen.into_iter().map(|(thread, (_, since))| {
                let reason = busy[&thread].1.reason.clone();
                StuckThread { thread, since: now.duration_since(since), reason }
            });
            return Ok((stuck.collect(), checked_at));
        }
        // The interval also bounds the load on the store.
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Why a thread counts as busy.
struct Busy {
    reason: String,
    /// True if no turn is open, and only the index has a row of an ended one.
    is_stale_row: bool,
}

/// None: the thread is not busy.
fn busy_reason(thread: &ObservedThread, rows: &[ObservedOpenTurn], now: Timestamp) -> Option<Busy> {
    let ObservedThread { epoch, version, .. } = thread;
    if let Some(open) = thread.header.open_turn.as_ref().filter(|open| is_busy(open, now)) {
        let OpenTurn { number, phase, expires_at } = open;
        let reason = format!("turn {number} is {phase:?} (epoch {epoch}, version {version}, {expires_at:?})");
        return Some(Busy { reason, is_stale_row: false });
    }
    let row = rows.iter().find(|row| is_stale(row, thread))?;
    let owner = &thread.header.owner;
    let reason =
        format!("the index of open turns has a row of an ended turn (epoch {epoch}, owner {owner:?}): {row:?}");
    Some(Busy { reason, is_stale_row: true })
}

/// Returns true if a row of the index refers to an ended turn of the thread. The next sweep removes it.
fn is_stale(row: &ObservedOpenTurn, thread: &ObservedThread) -> bool {
    let open = thread.header.open_turn.as_ref().is_some_and(|open| open.number == row.turn);
    row.thread == thread.id.as_str() && !open && thread.header.turns >= row.turn && thread.header.epoch >= row.epoch
}

/// Returns true if the turn runs, or waits although its pause had expired at `now`.
fn is_busy(open: &OpenTurn, now: Timestamp) -> bool {
    open.phase != Phase::Paused || open.expires_at.is_some_and(|end| end <= now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_that_expires_after_the_check_is_not_overdue() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let open = |phase, expires_at| OpenTurn { number: 1, phase, expires_at };
        assert!(!is_busy(&open(Phase::Paused, Some(at(300))), at(299)));
        assert!(is_busy(&open(Phase::Paused, Some(at(300))), at(300)));
        assert!(is_busy(&open(Phase::Running, None), at(299)));
    }
}
