//! The incidents of a run, one after another.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rand::rngs::StdRng;

use super::injection::{inject, restart_dead};
use super::refusals::Refusals;
use super::schedule::{Incident, Schedule};
use super::servers::Servers;
use crate::harness::cluster::Cluster;

/// Injects the incidents of a schedule, and counts their faults.
pub(super) struct Incidents {
    schedule: Schedule,
    /// Failpoints at which nodes die.
    failpoints: Vec<&'static str>,
    begun: Instant,
    pub(super) faults: usize,
    /// The injected incidents, which have these faults.
    pub(super) injected: Vec<Incident>,
    /// The longest time that the faults of an incident and their repair took.
    pub(super) longest: Duration,
    /// Number of processes that died without a fault.
    died: usize,
}

impl Incidents {
    /// `nodes`: the number of nodes of the cluster.
    pub(super) fn new(random: StdRng, nodes: usize, failpoints: Vec<&'static str>) -> Self {
        Self {
            schedule: Schedule::new(random, nodes),
            failpoints,
            begun: Instant::now(),
            faults: 0,
            injected: Vec::new(),
            longest: Duration::ZERO,
            died: 0,
        }
    }

    /// Returns the time since the first incident was planned.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Waits for the next incident, injects its faults and repairs them.
    pub(super) async fn inject_next(
        &mut self,
        cluster: &mut Cluster,
        servers: &mut Servers,
        refusals: &Refusals,
    ) -> Result<()> {
        let incident = self.schedule.next();
        // The seed determines the time of the incident.
        tokio::time::sleep(incident.after).await;
        println!("{:6.1} s  fault {}: {incident}", self.elapsed().as_secs_f64(), self.faults + 1);
        let begun = Instant::now();
        let injected = inject(cluster, servers, &incident, refusals, &self.failpoints).await;
        self.faults += injected.context("cannot repair a fault")?;
        self.died += restart_dead(cluster).await;
        self.longest = self.longest.max(begun.elapsed());
        self.injected.push(incident);
        Ok(())
    }

    /// Returns the failure of a run in which processes died without a fault.
    pub(super) fn failure(&self) -> Option<String> {
        (self.died > 0).then(|| format!("{} processes died unexpectedly", self.died))
    }
}
