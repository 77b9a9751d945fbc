//! Summary of the turns and jobs of a run: successful calls of tools, ends of turns and jobs, and the longest delay between the
//! expiry of a pause and the end of its turn.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use folio_history::journal::{Access, CallResult, CallStatus, End, Entry};
use folio_tools::{Registry, ToolSpec};
use folio_types::profile::NodeKind;
use folio_types::{Timestamp, TurnId};
use jiff::SignedDuration;

use super::checker::{Evidence, ObservedAggregate, ObservedJob, ObservedThread};

/// Kinds of work that a complete run contains at least once: batches of a client, runs by tags, proposals, runs of the extraction
/// agent, summaries of conversations, and answers of the assistant.
const WORK: [&str; 6] = ["batch", "run by a tag", "proposal", "run of the agent", SUMMARY, ANSWER];
const SUMMARY: &str = "summary";
const ANSWER: &str = "answer of the assistant";

/// Counts of the contents of the journals and jobs of a run.
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
        let Self { writes, ends, jobs, work, latest_expiry } = self;
        write!(f, "successful writes: {writes:?}; ends: {ends:?}; jobs: {jobs:?}, {work:?}")?;
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
    use super::super::run::SCRIPT;
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
}
