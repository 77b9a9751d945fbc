//! Summary of the turns, jobs and faults of a run: successful calls of tools, ends of turns and jobs, the longest delay between the
//! expiry of a pause and the end of its turn, and overlapping faults.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use folio_history::journal::{Access, CallResult, CallStatus, End, Entry};
use folio_tools::{Registry, ToolSpec};
use folio_types::profile::NodeKind;
use folio_types::{Timestamp, TurnId};
use jiff::SignedDuration;

use super::checker::{Evidence, ObservedAggregate, ObservedJob, ObservedThread};
use super::schedule::{Incident, Kind, PAIRS, faults_per_round};

/// Kinds of work that a complete run contains at least once: batches of a client, runs by tags, proposals, runs of the extraction
/// agent, summaries of conversations, and answers of the assistant.
const WORK: [&str; 6] = ["batch", "run by a tag", "proposal", "run of the agent", SUMMARY, ANSWER];
const SUMMARY: &str = "summary";
const ANSWER: &str = "answer of the assistant";

/// Maximum time from the expiry of a pause to the end of its turn, in addition to the longest incident of the run, during which
/// possibly no node reaches the store (the only CQL server restarts). Afterwards nodes connect to the store again, the successor of
/// a dead owner waits until the owner counts as dead (3 s), and the next sweep (every 0.2 s) ends the turn. The rest is for a busy
/// machine and for the next incident, which begins within 2 s.
const EXPIRY_DELAY: Duration = Duration::from_secs(60);

/// Counts of the contents of the journals and jobs of a run, and of its overlapping faults.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    /// Number of successful calls of each tool that writes.
    writes: BTreeMap<String, usize>,
    ends: BTreeMap<&'static str, usize>,
    /// Number of jobs by their kind and final state, or `open`.
    jobs: BTreeMap<String, usize>,
    /// Number of successes of each kind of [`WORK`].
    work: BTreeMap<&'static str, usize>,
    /// The longest time from the expiry of a pause to the end of its turn, with the turn and the time of the end.
    latest_expiry: Option<(SignedDuration, TurnId, Timestamp)>,
    /// Number of overlaps of each pair of faults.
    overlaps: BTreeMap<(Kind, Kind), usize>,
}

impl Coverage {
    pub(super) fn of(evidence: &Evidence) -> Self {
        let writes = tools_that_write().into_iter().map(|name| (name, 0)).collect();
        let work = WORK.map(|name| (name, 0)).into();
        let mut coverage = Self { writes, work, ..Self::default() };
        evidence.threads.iter().for_each(|thread| coverage.add(thread));
        evidence.jobs.iter().for_each(|job| coverage.add_job(job));
        let is_of_agent = |one: &&ObservedAggregate| one.live["agent"]["state"] == "completed";
        let runs = evidence.aggregates.iter().filter(is_of_agent).count();
        coverage.work.insert("run of the agent", runs);
        coverage
    }

    fn add_job(&mut self, job: &ObservedJob) {
        let (kind, state) = (&job.header.kind, job.header.outcome().unwrap_or("open"));
        *self.jobs.entry(format!("{kind} {state}")).or_default() += 1;
        let work = match kind.as_str() {
            "auto_create" => "proposal",
            "extraction" if job.header.input["tag_run"].is_null() => "batch",
            "extraction" => "run by a tag",
            _ => return,
        };
        *self.work.entry(work).or_default() += usize::from(state == "completed");
    }

    fn add(&mut self, thread: &ObservedThread) {
        let mut names: BTreeMap<(u32, u32, u32), &str> = BTreeMap::new();
        let mut expires_at = None;
        for (_, entry) in &thread.entries {
            let turn = entry.turn().unwrap_or_default();
            match entry {
                Entry::Round(round) => {
                    let node = round.node.as_ref().filter(|node| node.kind == NodeKind::Answer && node.end.is_some());
                    *self.work.entry(ANSWER).or_default() += usize::from(node.is_some());
                    for call in round.calls.iter().filter(|call| call.access == Access::ReadWrite) {
                        names.insert((turn, round.round, call.index), &call.name);
                        self.writes.entry(call.name.clone()).or_default();
                    }
                }
                Entry::Summary(_) => *self.work.entry(SUMMARY).or_default() += 1,
                // A group of child turns has an expiry of its own.
                Entry::Accepted(_) | Entry::Group(_) => expires_at = None,
                Entry::Paused(paused) => expires_at = Some(paused.expires_at),
                Entry::Outcome(outcome) => self.add_result(&names, turn, &outcome.result),
                Entry::Ended(ended) => {
                    ended.results.iter().for_each(|result| self.add_result(&names, turn, result));
                    *self.ends.entry(name(&ended.end)).or_default() += 1;
                    if let (End::Expired, Some(expiry)) = (&ended.end, expires_at) {
                        let late = ended.at.duration_since(expiry);
                        let id = TurnId::new(thread.id.clone(), turn);
                        self.latest_expiry = self.latest_expiry.take().max(Some((late, id, ended.at)));
                    }
                }
                _ => {}
            }
        }
    }

    fn add_result(&mut self, names: &BTreeMap<(u32, u32, u32), &str>, turn: u32, result: &CallResult) {
        if let (CallStatus::Ok, Some(name)) = (result.status, names.get(&(turn, result.round, result.index))) {
            *self.writes.entry((*name).to_owned()).or_default() += 1;
        }
    }

    /// Counts the overlapping faults of incidents.
    pub(super) fn add_incidents(&mut self, incidents: &[Incident]) {
        for pair in incidents.iter().filter_map(Incident::overlap) {
            *self.overlaps.entry(pair).or_default() += 1;
        }
    }

    /// Returns a message for each pair of faults that never overlapped in a run with this number of faults. A run with fewer faults
    /// than a round of the schedule need not contain every pair.
    pub(super) fn missing_overlaps(&self, faults: usize) -> Vec<String> {
        if faults < faults_per_round() {
            return Vec::new();
        }
        let missing = PAIRS.iter().filter(|pair| !self.overlaps.contains_key(*pair));
        missing.map(|(first, second)| format!("no {second:?} during {first:?} in {faults} faults")).collect()
    }

    /// Returns a message if a turn ended so long after the expiry of its pause that the sweep must have missed it. `incident`: the
    /// longest time that the faults of an incident and their repair took.
    pub(super) fn late_expiry(&self, incident: Duration) -> Option<String> {
        let (late, turn, at) = self.latest_expiry.as_ref()?;
        let (late, limit) = (late.as_secs_f64(), (incident + EXPIRY_DELAY).as_secs_f64());
        (late > limit).then(|| {
            format!(
                "{turn} ended at {at}, {late:.1} s after the expiry of its pause: faults explain at most {limit:.1} s"
            )
        })
    }

    /// Returns a message for each tool that writes without a successful call, and for each kind of work that was never completed.
    pub(super) fn unused(&self) -> Vec<String> {
        let tools = self.writes.iter().filter(|(_, calls)| **calls == 0);
        let work = self.work.iter().filter(|(_, count)| **count == 0);
        let tools = tools.map(|(name, _)| format!("no call of {name} succeeded"));
        tools.chain(work.map(|(name, _)| format!("no {name} was completed"))).collect()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { writes, ends, jobs, work, latest_expiry, overlaps } = self;
        write!(f, "successful writes: {writes:?}; ends: {ends:?}; jobs: {jobs:?}, {work:?}")?;
        if !overlaps.is_empty() {
            write!(f, "; overlapping faults: {overlaps:?}")?;
        }
        let Some((late, turn, at)) = latest_expiry else { return Ok(()) };
        write!(f, "; longest delay of an expiry: {turn} ended {:.1} s after it, at {at}", late.as_secs_f64())
    }
}

/// Returns the names of the tools of conversations about documents that write.
fn tools_that_write() -> BTreeSet<String> {
    let registry = Registry::standard().expect("the registry is valid");
    let profile = registry.profile("document").expect("a profile");
    // A call of an MCP server changes nothing in the stores, and another test covers it.
    let is_covered = |spec: &&ToolSpec| spec.access == Access::ReadWrite && spec.name != "write_to_server";
    profile.specs().filter(is_covered).map(|spec| spec.name.to_owned()).collect()
}

fn name(end: &End) -> &'static str {
    match end {
        End::Completed { .. } => "completed",
        End::Failed { retriable: true, .. } => "failed, retriable",
        End::Failed { .. } => "failed",
        End::Cancelled => "cancelled",
        End::Expired => "expired",
        End::Superseded => "superseded",
    }
}

#[cfg(test)]
mod tests {
    use folio_history::journal::{Ended, Paused, WorkingState};
    use folio_history::thread::NewThread;
    use folio_types::{OrgId, Principal, Role, ThreadId, UserId};
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    use super::super::run::SCRIPT;
    use super::super::schedule::Schedule;
    use super::*;

    #[test]
    fn the_script_of_the_model_calls_every_tool_that_writes() {
        let tools = tools_that_write();
        assert!(tools.contains("create_tag") && !tools.contains("list_tags"), "{tools:?}");
        // The name of a tool is followed by its arguments, in the same line or in the next one.
        let words: BTreeSet<&str> = SCRIPT.split([' ', ',', '{', '}', '[', ']', '\n']).collect();
        let missing: Vec<_> = tools.iter().filter(|tool| !words.contains(tool.as_str())).collect();
        assert!(missing.is_empty(), "work.yaml calls no {missing:?}");
    }

    #[test]
    fn a_tool_that_no_turn_requested_and_work_that_no_job_did_are_unused() {
        let unused = Coverage::of(&Evidence::default()).unused();
        assert_eq!(unused.len(), tools_that_write().len() + WORK.len());
        assert!(unused.contains(&"no run by a tag was completed".to_owned()), "{unused:?}");
    }

    /// Returns the counts of a turn that ended this many seconds after the expiry of its pause.
    fn expired(late: i64) -> Coverage {
        let at = |second| Timestamp::from_second(1_790_000_000 + second).unwrap();
        let (working, expires_at) = (WorkingState::default(), at(300));
        let paused = Paused { turn: 1, round: 1, expires_at, working, event: 4, at: at(255) };
        let ended = Ended::new(1, End::Expired, 5, at(300 + late));
        let principal = Principal::new(OrgId::derive(&["org"]), UserId::derive(&["user"]), Role::Member);
        let id = ThreadId::derive(&["thread"]);
        let thread = ObservedThread {
            org: principal.org.clone(),
            id: id.clone(),
            epoch: 1,
            version: 2,
            header: NewThread::new(id, &principal, "document", Vec::new(), at(0)).header(),
            entries: vec![(0, Entry::Paused(paused)), (1, Entry::Ended(Box::new(ended)))],
            batches: 2,
            requests: Vec::new(),
        };
        Coverage::of(&Evidence { threads: vec![thread], ..Evidence::default() })
    }

    #[test]
    fn a_pause_that_ends_later_than_faults_explain_is_reported() {
        let incident = Duration::from_secs(40);
        assert_eq!(expired(100).late_expiry(incident), None);
        let late = expired(101).late_expiry(incident).expect("the sweep missed the pause");
        assert!(late.contains("101.0 s after the expiry") && late.contains("at most 100.0 s"), "{late}");
        assert_eq!(Coverage::default().late_expiry(Duration::ZERO), None, "no pause expired");
    }

    #[test]
    fn a_run_of_a_whole_round_without_a_pair_of_faults_is_reported() {
        let mut schedule = Schedule::new(StdRng::seed_from_u64(1), 3);
        let (mut incidents, mut faults) = (Vec::new(), 0);
        while faults < faults_per_round() {
            let incident = schedule.next();
            faults += incident.faults.len();
            incidents.push(incident);
        }
        let mut coverage = Coverage::default();
        assert!(coverage.missing_overlaps(faults - 1).is_empty(), "a shorter run may miss pairs");
        let missing = coverage.missing_overlaps(faults);
        assert_eq!(missing.len(), PAIRS.len());
        for first in ["CqlStalled", "CqlStopped"] {
            assert!(missing.contains(&format!("no NodeDrained during {first} in {faults} faults")), "{missing:?}");
        }
        coverage.add_incidents(&incidents);
        assert!(coverage.missing_overlaps(faults).is_empty(), "{coverage}");
    }
}
