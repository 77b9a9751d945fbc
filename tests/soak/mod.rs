//! Constant mixed load on a cluster for hours. The number of live objects is bounded, because the clients delete old
//! ones, so that memory, open files, Redis keys and rows must reach a steady state.
//!
//! Further clients double the load during most of the warm-up. Memory of an allocator grows to the largest number of objects that
//! existed at the same time, which a constant random load reaches after hours only. A leak grows in any case.
//!
//! | module | purpose |
//! |---|---|
//! | `load` | clients with a constant rate |
//! | `counted_tables` | the CQL tables whose rows are counted, each with its rule |
//! | `samples` | memory and open files of the processes, keys of Redis, rows of the CQL tables |
//! | `verdict` | pure: compares the samples with the limits |
//!
//! The report shows the first, last and largest value of each series, the measured slope or growth with its limit, and the
//! median of each quarter of the time after the warm-up. The slope of the memory of a process alone does not distinguish
//! steady growth, with equal steps between the quarters, from a heap that settles, with smaller ones.

mod counted_tables;
mod load;
mod samples;
pub mod verdict;

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use folio_test_servers::Redis;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::load::{Counts, Worker};
use self::samples::Sampler;
use self::verdict::{Rule, Series, Verdict, verdict};
use crate::faults::tables::Tables;
use crate::harness::cluster::{Cluster, NO_HUGE_PAGES, Setup};
use crate::harness::settings::INVOICE;

/// Nodes and gateways of the cluster.
const NODES: usize = 2;
const GATEWAYS: usize = 2;

/// Interval between two samples. A short run has a shorter interval, so that it has [`SAMPLES_MIN`] samples.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(10);
const SAMPLES_MIN: u32 = 12;
/// Number of samples until which a run continues after its duration: on a busy machine, the count of the rows of one sample may take
/// longer than a short run.
const SAMPLES_REQUIRED: usize = 2;
/// Time of a long run that is not evaluated.
const WARM_UP: Duration = Duration::from_secs(10 * 60);
/// Part of the warm-up in which [`load::WARM_UP_WORKERS`] work.
const DOUBLE_LOAD: f64 = 0.9;
/// Minimum duration of a long run.
const LONG_RUN: Duration = Duration::from_secs(60 * 60);
/// Number of equal parts of a shorter run, of which the first one is not evaluated.
const WARM_UP_PARTS: u32 = 6;

/// Environment of the processes: pauses expire, and deletions are cleaned up, in less time than [`WARM_UP`].
const SETTINGS: [(&str, u64); 3] =
    [("FOLIO_CONVERSATION__APPROVAL_TTL_SECONDS", 30), ("FOLIO_CLEANUP__INTERVAL_SECONDS", 5), NO_HUGE_PAGES];

/// Script of the model: an extraction, a round with a write, and an answer.
const SCRIPT: &str = "
rules:
  - when: {response_format: bill}
    answer: {text: '{\"total\": 957}'}
  - when: {user: {prefix: work}}
    rounds:
      - calls: [{name: list_tags}]
      - calls: [{name: create_tag, arguments: {name: '{{user}}'}}]
      - text: Worked.
  - answer: {text: An answer of a few words.}
";

#[derive(Debug, Clone)]
pub struct Plan {
    pub duration: Duration,
}

impl Plan {
    fn sample_interval(&self) -> Duration {
        SAMPLE_INTERVAL.min(self.duration / SAMPLES_MIN)
    }

    fn warm_up(&self) -> Duration {
        if self.duration >= LONG_RUN { WARM_UP } else { self.duration / WARM_UP_PARTS }
    }
}

/// The result of a run: the series of samples with their verdicts, and the errors of the clients.
#[derive(Debug)]
pub struct Report {
    duration: Duration,
    counts: Counts,
    samples: usize,
    verdicts: Vec<(Series, Verdict)>,
    /// Names of series without a sample. Each is a violation.
    missing: Vec<String>,
    /// Errors of the clients' calls. Each is a violation, because no fault is injected.
    errors: Vec<String>,
}

impl Report {
    pub fn is_clean(&self) -> bool {
        self.errors.is_empty() && self.missing.is_empty() && self.violations().count() == 0
    }

    fn violations(&self) -> impl Iterator<Item = &Series> {
        self.verdicts.iter().filter(|(_, verdict)| !verdict.is_ok).map(|(series, _)| series)
    }

    /// Returns the number of values above a bound, which also a short run must not exceed. The other violations are growth.
    fn exceeded_bounds(&self) -> usize {
        self.violations().filter(|series| matches!(series.rule, Rule::Bound(_))).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns =
            ["first", "last", "largest", "measured", "limit", "quarter 1", "quarter 2", "quarter 3", "quarter 4"];
        writeln!(f, "{:<48}{}", "series", columns.map(|column| format!("{column:>12}")).concat())?;
        for (series, verdict) in &self.verdicts {
            writeln!(f, "{:<48}{verdict}", series.name)?;
        }
        for series in &self.missing {
            writeln!(f, "no samples: {series}")?;
        }
        for error in &self.errors {
            writeln!(f, "{error}")?;
        }
        let Counts { cycles, turns, approvals } = self.counts;
        write!(
            f,
            "hours {:.3}, cycles {cycles}, turns {turns}, approvals {approvals}, samples {}, errors {}, \
             series without samples {}, exceeded bounds {}, violations {}",
            self.duration.as_secs_f64() / 3600.0,
            self.samples,
            self.errors.len(),
            self.missing.len(),
            self.exceeded_bounds(),
            self.violations().count()
        )
    }
}

/// Runs the load for the duration of the plan, or until [`SAMPLES_REQUIRED`] samples exist, and evaluates the samples.
pub async fn run(plan: Plan) -> Result<Report> {
    let servers = tokio::task::spawn_blocking(|| anyhow::Ok((Redis::start()?, folio_test_servers::cql()?)));
    let (redis, cql) = servers.await??;
    let setup = Setup { nodes: NODES, gateways: GATEWAYS, ..Setup::new(SCRIPT, redis.port(), cql.clone()) };
    let cluster = SETTINGS.iter().fold(setup, |setup, (name, value)| setup.with(name, value)).start().await;
    let tables = Tables::open(&cql, &cluster.keyspace).await?;
    for gateway in 0..GATEWAYS {
        // The workers repeat no request, so the gateways must have accepted one before.
        cluster.client(gateway).await.upload_first("ready.txt", INVOICE.as_bytes()).await;
    }
    let ((stop, stopped), (end_double_load, is_single)) = (watch::channel(false), watch::channel(false));
    let mut workers = JoinSet::new();
    for number in 0..load::WORKERS + load::WARM_UP_WORKERS {
        let worker = Worker::start(&cluster, number).await?;
        let stopped = if number < load::WORKERS { &stopped } else { &is_single };
        workers.spawn(worker.run(stopped.clone()));
    }
    let mut sampler = Sampler::new(&plan);
    let (begun, mut ticks) = (Instant::now(), tokio::time::interval(plan.sample_interval()));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while begun.elapsed() < plan.duration || sampler.samples() < SAMPLES_REQUIRED {
        ticks.tick().await;
        if begun.elapsed() >= plan.warm_up().mul_f64(DOUBLE_LOAD) {
            end_double_load.send_replace(true);
        }
        sampler.sample(begun.elapsed(), &cluster, &redis, &tables).await?;
    }
    end_double_load.send_replace(true);
    stop.send_replace(true);
    let (mut counts, mut errors) = (Counts::default(), Vec::new());
    for (done, failed) in workers.join_all().await {
        counts += done;
        errors.extend(failed);
    }
    let (samples, series) = sampler.finish();
    let missing = samples::missing(&series, processes(&cluster).map(|(process, _)| process));
    let verdicts = series.into_iter().map(|series| {
        let verdict = verdict(&series, plan.warm_up());
        (series, verdict)
    });
    Ok(Report { duration: begun.elapsed(), counts, samples, verdicts: verdicts.collect(), missing, errors })
}

/// Returns the processes of the cluster with their names.
fn processes(cluster: &Cluster) -> impl Iterator<Item = (String, u32)> {
    let members = cluster.gateways.iter().chain(&cluster.nodes);
    members.map(|member| (format!("{:?} {}", member.role, member.number).to_lowercase(), member.process().id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_has_the_allocator_setting_of_the_measured_processes() {
        let (variable, value) = NO_HUGE_PAGES;
        let set = format!("ENV {variable}={value}");
        assert!(include_str!("../../Dockerfile").lines().any(|line| line == set), "{set}");
    }

    #[test]
    fn an_exceeded_bound_and_a_growth_are_counted_separately() {
        let series = |rule| Series { name: "a series".to_owned(), rule, points: vec![(Duration::ZERO, 2.0)] };
        let rules = [Rule::Bound(1.0), Rule::Bound(2.0), Rule::SlopePerHour(1.0), Rule::Printed];
        let verdicts = rules.map(|rule| (series(rule), verdict(&series(rule), Duration::ZERO)));
        let (counts, missing, errors) = (Counts::default(), Vec::new(), Vec::new());
        let mut report =
            Report { duration: LONG_RUN, counts, samples: 1, verdicts: verdicts.to_vec(), missing, errors };
        assert_eq!((report.violations().count(), report.exceeded_bounds()), (2, 1), "{report}");
        report.verdicts.clear();
        assert!(report.is_clean());
        report.missing.push("a series".to_owned());
        assert!(!report.is_clean());
    }
}
