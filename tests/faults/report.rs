//! The end of a run: waits for the turns, and reports the result of the checker.

use std::fmt;

use anyhow::{Result, ensure};

use super::checker::{Violation, check};
use super::coverage::Coverage;
use super::log::Log;
use super::refusals::Refusals;
use super::settle::{TimeLimits, gather};
use super::tables::Tables;
use crate::harness::cluster::Cluster;

#[derive(Debug)]
pub struct Report {
    pub turns: usize,
    pub approvals: usize,
    /// Name and number of the events of the run, such as its faults.
    pub events: (&'static str, usize),
    pub violations: Vec<Violation>,
    /// Other failures: turns that did not end, processes that died unexpectedly.
    pub failures: Vec<String>,
}

impl Report {
    /// Waits until every turn ended or waits for approval, and checks the stores. Also returns the counts of the stored contents.
    pub(super) async fn of(
        cluster: &Cluster,
        tables: &Tables,
        (log, refusals): (&Log, &Refusals),
        events: (&'static str, usize),
        mut failures: Vec<String>,
    ) -> Result<(Self, Coverage)> {
        failures.extend(refusals.faults());
        let evidence = gather(cluster, tables, log, TimeLimits::AFTER_FAULTS).await?;
        println!("idle; errors: {:?}", refusals.all());
        let coverage = Coverage::of(&evidence);
        let turns = evidence.threads.iter().map(|thread| thread.header.turns as usize).sum();
        ensure!(turns > 0, "no turn was accepted");
        let report = Self { turns, approvals: log.approvals(), events, violations: check(&evidence), failures };
        if !report.is_clean() {
            cluster.nodes.iter().for_each(|node| println!("the last log lines of a node:\n{}", node.last_errors()));
        }
        Ok((report, coverage))
    }

    pub fn is_clean(&self) -> bool {
        self.violations.is_empty() && self.failures.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for violation in &self.violations {
            writeln!(f, "{violation}")?;
        }
        for failure in &self.failures {
            writeln!(f, "{failure}")?;
        }
        let Self { turns, approvals, events: (name, events), .. } = self;
        let violations = self.violations.len() + self.failures.len();
        write!(f, "turns {turns}, approvals {approvals}, {name} {events}, violations {violations}")
    }
}
