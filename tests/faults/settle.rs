//! Waits until no turn and no job is running, and collects the evidence.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::Result;
use folio_history::job::{JobHeader, JobState};
use folio_history::thread::{OpenTurn, Phase};
use folio_types::{JobId, ThreadId, Timestamp};

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

/// Time without progress after which a job counts as stuck. Jobs are swept every 5 s, and a model call of an item takes up to 10 s in
/// a fault run.
const STUCK_JOB: Duration = Duration::from_secs(45);

/// Time before the next start of a waiting job in which it counts as busy, so that it does not start while the evidence is read.
const STARTS_SOON: Duration = Duration::from_secs(5);

/// Maximum number of times that the stores are read, because a job was created or changed while they were read, or because a busy
/// server exceeded its time limit.
const READS: u32 = 10;

/// Time within which the stores must be readable. After the restart of a CQL server, the driver connects again within 10 s.
const READABLE_WITHIN: Duration = Duration::from_secs(60);

/// Time limits for turns and jobs to end.
#[derive(Debug, Clone, Copy)]
pub struct TimeLimits {
    /// Time without progress after which a thread counts as stuck.
    pub stuck: Duration,
    /// Time limit for all threads and jobs together.
    pub total: Duration,
}

impl TimeLimits {
    /// The limits after random faults. After the restart of a CQL server, nodes connect again within 10 s; the successor of a dead
    /// node begins after further seconds, and its first model call takes up to 10 s. The rest is for a busy machine.
    pub const AFTER_FAULTS: Self = Self { stuck: STUCK_JOB, total: Duration::from_secs(180) };
}

/// The state at the check that found no running turn and no running job, or only stuck ones.
struct Settled {
    /// The threads that stayed at one version for too long.
    busy: Vec<StuckThread>,
    jobs: Vec<JobHeader>,
    /// Time of the check.
    checked_at: Timestamp,
}

/// Waits until every turn ended or waits for approval, every job ended or waits, and the indexes of both are consistent.
/// Returns the stored state with the clients' log and the model endpoint's record. The time of the evidence is that of the
/// last check of the pauses, so a pause that expires while the stores are read is not overdue.
///
/// A sweep may create a job at any time, one that rebuilds an index for example. If a job changed since the check, the stores are
/// read again, at most [`READS`] times.
pub async fn gather(cluster: &Cluster, tables: &Tables, log: &Log, limits: TimeLimits) -> Result<Evidence> {
    let mut reads = 0;
    loop {
        reads += 1;
        let settled = settle(tables, limits).await?;
        match read(cluster, tables, log, &settled).await {
            Ok((evidence, after)) if reads == READS || is_unchanged(&settled.jobs, &after) => return Ok(evidence),
            Ok(_) => {}
            Err(error) if reads == READS => return Err(error),
            Err(error) => println!("the stores are read again: {error:#}"),
        }
    }
}

/// Reads the evidence, and the jobs after it.
async fn read(cluster: &Cluster, tables: &Tables, log: &Log, settled: &Settled) -> Result<(Evidence, Vec<JobHeader>)> {
    let markers = cluster.tenants.iter().map(|tenant| (tenant.org.clone(), tenant.marker.clone())).collect();
    // The record is read before the ledgers, whose rows are stored before the requests are sent.
    let model_requests = cluster.sim.all_model_requests().await.iter().map(ObservedModelRequest::from).collect();
    let evidence = Evidence {
        threads: tables.threads().await?,
        aggregates: tables.aggregates().await?,
        jobs: tables.jobs().await?,
        accounts: tables.accounts().await?,
        log: log.lines(),
        audit: Some(tables.audit().await?),
        model_requests: Some(model_requests),
        markers,
        busy: settled.busy.clone(),
        taken_at: settled.checked_at,
    };
    Ok((evidence, tables.job_headers().await?))
}

/// Returns true if no job was created, changed or deleted between two reads.
fn is_unchanged(before: &[JobHeader], after: &[JobHeader]) -> bool {
    let versions = |jobs: &[JobHeader]| -> BTreeSet<(JobId, u64)> {
        jobs.iter().map(|job| (job.id.clone(), job.version)).collect()
    };
    versions(before) == versions(after)
}

/// Waits until every turn ended or waits, and every job ended or waits. At the time of the returned check every pause had not expired
/// yet, except those of the busy threads. A pause that expires while the stores are read is therefore not overdue. The evidence
/// shows the jobs that did not end.
async fn settle(tables: &Tables, limits: TimeLimits) -> Result<Settled> {
    let begun = Instant::now();
    let mut readable_at = begun;
    let mut seen: BTreeMap<ThreadId, (u64, Instant)> = BTreeMap::new();
    let mut seen_jobs: BTreeMap<JobId, (u64, Instant)> = BTreeMap::new();
    loop {
        // The time is that before the reads: a job that is created, or a pause that expires, during the reads is later than the check.
        let (now, checked_at) = (Instant::now(), Timestamp::now());
        let (threads, rows, jobs, indexed) = match read_busy(tables).await {
            Ok(found) => found,
            Err(error) if readable_at.elapsed() > READABLE_WITHIN => return Err(error),
            Err(error) => {
                println!("the stores cannot be read: {error:#}");
                // No event signals that the store is reachable again.
                tokio::time::sleep(POLL_INTERVAL).await;
                continue;
            }
        };
        readable_at = Instant::now();
        let busy_jobs: BTreeMap<&JobId, u64> = jobs
            .iter()
            .filter(|job| is_busy_job(job, indexed.contains(&job.id), checked_at))
            .map(|job| (&job.id, job.version))
            .collect();
        track(&mut seen_jobs, &busy_jobs, now);
        let are_jobs_stuck = seen_jobs.values().all(|(_, since)| now.duration_since(*since) > STUCK_JOB);
        let busy: BTreeMap<&ThreadId, (u64, Busy)> = threads
            .iter()
            .filter_map(|thread| Some((&thread.id, (thread.version, busy_reason(thread, &rows, checked_at)?))))
            .collect();
        track(&mut seen, &busy.iter().map(|(thread, (version, _))| (*thread, *version)).collect(), now);
        let is_stuck = |(thread, (_, since)): (&ThreadId, &(u64, Instant))| {
            let limit = if busy[thread].1.is_stale_row { limits.stuck.max(STALE_ROW) } else { limits.stuck };
            now.duration_since(*since) > limit
        };
        let all_stuck = are_jobs_stuck && seen.iter().all(is_stuck);
        if all_stuck || begun.elapsed() > limits.total {
            let stuck = seen.into_iter().map(|(thread, (_, since))| {
                let reason = busy[&thread].1.reason.clone();
                StuckThread { thread, since: now.duration_since(since), reason }
            });
            return Ok(Settled { busy: stuck.collect(), jobs, checked_at });
        }
        // The interval also bounds the load on the store.
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Reads the threads and jobs with their rows in the indexes of open turns and jobs.
async fn read_busy(
    tables: &Tables,
) -> Result<(Vec<ObservedThread>, Vec<ObservedOpenTurn>, Vec<JobHeader>, BTreeSet<JobId>)> {
    let (threads, rows) = (tables.threads().await?, tables.open_turns().await?);
    Ok((threads, rows, tables.job_headers().await?, tables.indexed_jobs().await?))
}

/// Records the versions of what is busy, each with the time of its last change.
fn track<Id: Ord + Clone>(seen: &mut BTreeMap<Id, (u64, Instant)>, busy: &BTreeMap<&Id, u64>, now: Instant) {
    seen.retain(|id, _| busy.contains_key(id));
    for (id, version) in busy {
        let entry = seen.entry((*id).clone()).or_insert((*version, now));
        if entry.0 != *version {
            *entry = (*version, now);
        }
    }
}

/// Returns true if a job runs or starts soon, or if the next sweep removes its row from the index.
fn is_busy_job(job: &JobHeader, is_indexed: bool, now: Timestamp) -> bool {
    match &job.state {
        JobState::Queued | JobState::Running => true,
        JobState::Waiting { retry_at, .. } => *retry_at <= now + STARTS_SOON,
        JobState::Paused => false,
        JobState::Completed | JobState::Failed(_) | JobState::Cancelled => is_indexed,
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
    use folio_history::job::{NewJob, WaitReason};
    use folio_types::{OrgId, Principal, Role, UserId};

    use super::*;

    fn new_job(id: &str) -> NewJob {
        NewJob {
            id: JobId::derive(&[id]),
            principal: Principal::new(OrgId::derive(&["org"]), UserId::derive(&["user"]), Role::Member),
            kind: "extraction".to_owned(),
            input: serde_json::Value::Null,
            items: vec!["document".to_owned()],
            running_max: Duration::from_secs(60),
            at: Timestamp::from_second(0).unwrap(),
        }
    }

    #[test]
    fn a_pause_that_expires_after_the_check_is_not_overdue() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let open = |phase, expires_at| OpenTurn { number: 1, phase, expires_at };
        assert!(!is_busy(&open(Phase::Paused, Some(at(300))), at(299)));
        assert!(is_busy(&open(Phase::Paused, Some(at(300))), at(300)));
        assert!(is_busy(&open(Phase::Running, None), at(299)));
    }

    #[test]
    fn a_job_is_busy_until_it_ends_and_leaves_the_index_or_waits_for_later() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let job = new_job("job").header().unwrap();
        let is_busy =
            |state, is_indexed, second| is_busy_job(&JobHeader { state, ..job.clone() }, is_indexed, at(second));
        let waiting = || JobState::Waiting { reason: WaitReason::Credit, error: None, retry_at: at(300) };
        for state in [JobState::Queued, JobState::Running] {
            assert!(is_busy(state, true, 1));
        }
        assert_eq!([is_busy(waiting(), true, 294), is_busy(waiting(), true, 295)], [false, true]);
        assert!(!is_busy(JobState::Paused, true, 1));
        assert_eq!([true, false].map(|is_indexed| is_busy(JobState::Completed, is_indexed, 1)), [true, false]);
    }

    #[test]
    fn a_job_that_was_created_or_changed_while_the_stores_were_read_is_a_change() {
        let header = |id: &str, version| JobHeader { version, ..new_job(id).header().unwrap() };
        let before = [header("a", 3), header("b", 0)];
        assert!(is_unchanged(&before, &[header("b", 0), header("a", 3)]));
        for after in [vec![header("a", 3), header("b", 2)], vec![header("a", 3)]] {
            assert!(!is_unchanged(&before, &after));
        }
        assert!(!is_unchanged(&before, &[header("a", 3), header("b", 0), header("c", 0)]));
    }

    #[test]
    fn progress_restarts_the_time_after_which_something_is_stuck() {
        let (begun, id) = (Instant::now(), JobId::derive(&["job"]));
        let at = |second| begun + Duration::from_secs(second);
        let mut seen: BTreeMap<JobId, (u64, Instant)> = BTreeMap::new();
        for (version, second) in [(1, 0), (1, 5), (2, 9)] {
            track(&mut seen, &BTreeMap::from([(&id, version)]), at(second));
        }
        assert_eq!(seen[&id], (2, at(9)));
        track(&mut seen, &BTreeMap::new(), at(10));
        assert!(seen.is_empty());
    }
}
