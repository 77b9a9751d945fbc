//! Samples of processes and stores during the load.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result};
use folio_test_servers::Redis;

use super::counted_tables::{Evaluated, counted, cycles_within};
use super::verdict::{Rule, Series};
use super::{Plan, WARM_UP, load, processes};
use crate::faults::tables::Tables;
use crate::harness::cluster::Cluster;
use crate::harness::process::{anonymous_bytes, open_files, resident_bytes};

/// Maximum slope of the resident memory of a process without mapped files, in MiB per hour. Pages of the program are not growth:
/// the kernel loads them when they are first used, and drops them when it needs memory.
const MEMORY_MIB_PER_HOUR: Rule = Rule::SlopePerHour(1.0);
/// Maximum growth of the open files of a process: connections that are replaced at the time of a sample.
const FILES_GROWTH: Rule = Rule::Growth { share: 0.0, constant: 4.0 };
/// Maximum growth of a number of keys or rows, as the phases of the workers shift.
const COUNT_GROWTH: Rule = Rule::Growth { share: 0.25, constant: 50.0 };

/// Time for which Redis keeps the keys of a turn: ten minutes, a pause, and a margin.
const REDIS_KEPT: Duration = Duration::from_secs(720);
/// Maximum number of Redis keys of a turn, and of those that belong to no turn.
const REDIS_KEYS_PER_TURN: f64 = 4.0;
const REDIS_KEYS_OTHER: f64 = 200.0;

/// Maximum number of rows of a table after the cycles of a short run: of all cycles, because a short run deletes few objects, and
/// of the objects that belong to no cycle. Most are the groups of characters of names.
const ROWS_PER_CYCLE: f64 = 500.0;
const ROWS_OTHER: f64 = 1_000.0;
/// Minimum duration of a run whose rows are counted often enough after the warm-up to evaluate their growth.
const ROW_GROWTH_MIN: Duration = Duration::from_secs(10 * 60);

/// Number of samples for each count of the CQL rows, which reads whole tables.
const SAMPLES_PER_COUNT: usize = 6;

/// Series of each process, and of each counted table.
const MEMORY: &str = "MiB of memory";
const RESIDENT: &str = "MiB with mapped files";
const FILES: &str = "open files";
const TABLE_SERIES: [&str; 3] = ["rows", "partitions", "largest partition"];
const REDIS_KEYS: &str = "redis: keys";

/// Indexes of `system_rows` whose rows remain for a day or two after a deletion or request.
const INDEXES_KEPT: [&str; 4] = ["deleted", "op_data", "request", "thread_expiry"];

pub(super) struct Sampler {
    /// Planned duration of the run.
    duration: Duration,
    redis_rule: Rule,
    /// Rule of a number of rows that must not grow.
    row_rule: Rule,
    samples: usize,
    /// Times of the counts of the CQL rows.
    counted: Vec<Duration>,
    /// Indexes of `system_rows` that a count has found.
    indexes: BTreeSet<String>,
    series: BTreeMap<String, Series>,
}

impl Sampler {
    pub(super) fn new(plan: &Plan) -> Self {
        let workers = load::WORKERS + load::WARM_UP_WORKERS;
        let turns = (workers * load::TURNS_PER_CYCLE) as f64 / load::PERIOD.as_secs_f64();
        let bound = REDIS_KEYS_OTHER + REDIS_KEYS_PER_TURN * turns * REDIS_KEPT.as_secs_f64();
        // The number of keys grows until the keys of the first turns expire.
        let redis_rule = if plan.warm_up() >= WARM_UP { COUNT_GROWTH } else { Rule::Bound(bound) };
        let row_bound = ROWS_OTHER + ROWS_PER_CYCLE * cycles_within(plan.duration);
        let row_rule = if plan.duration >= ROW_GROWTH_MIN { COUNT_GROWTH } else { Rule::Bound(row_bound) };
        let (counted, indexes, series) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
        Self { duration: plan.duration, redis_rule, row_rule, samples: 0, counted, indexes, series }
    }

    pub(super) fn samples(&self) -> usize {
        self.samples
    }

    /// Returns the number of samples and all series.
    pub(super) fn finish(self) -> (usize, Vec<Series>) {
        (self.samples, self.series.into_values().collect())
    }

    /// Adds one value to each series.
    pub(super) async fn sample(
        &mut self,
        at: Duration,
        cluster: &Cluster,
        redis: &Redis,
        tables: &Tables,
    ) -> Result<()> {
        for (process, id) in processes(cluster) {
            let mebibytes = |bytes: u64| bytes as f64 / (1024.0 * 1024.0);
            let (memory, resident) = (anonymous_bytes(id)?, resident_bytes(id)?);
            self.add(at, format!("{process}: {MEMORY}"), MEMORY_MIB_PER_HOUR, mebibytes(memory));
            self.add(at, format!("{process}: {RESIDENT}"), Rule::Printed, mebibytes(resident));
            self.add(at, format!("{process}: {FILES}"), FILES_GROWTH, open_files(id)? as f64);
        }
        let size = tokio::task::block_in_place(|| redis.command("DBSIZE"))?;
        let size: u32 = size.trim_start_matches(':').parse().context("the size of Redis")?;
        self.add(at, REDIS_KEYS.to_owned(), self.redis_rule, f64::from(size));
        let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
        for key in tokio::task::block_in_place(|| redis.list_command("KEYS *"))? {
            *kinds.entry(kind_of(&key).to_owned()).or_default() += 1;
        }
        for (kind, keys) in kinds {
            self.add(at, format!("{REDIS_KEYS}, {kind}"), Rule::Printed, keys as f64);
        }
        if self.samples.is_multiple_of(SAMPLES_PER_COUNT) {
            self.count_rows(at, tables).await?;
        }
        self.samples += 1;
        Ok(())
    }

    async fn count_rows(&mut self, at: Duration, tables: &Tables) -> Result<()> {
        for (table, partition_key, evaluated) in counted() {
            let sizes = tables.partition_sizes(table, partition_key).await?;
            self.add_sizes(at, &name_of(table), &sizes, evaluated.rules(self.row_rule, self.duration));
        }
        let found = tables.index_sizes().await?;
        for index in found.keys().filter(|index| !self.indexes.contains(*index)).cloned().collect::<Vec<_>>() {
            // An index without rows has no partition.
            self.counted.clone().into_iter().for_each(|earlier| self.add_index(earlier, &index, &[]));
            self.indexes.insert(index);
        }
        for index in self.indexes.clone() {
            self.add_index(at, &index, found.get(&index).map_or(&[], Vec::as_slice));
        }
        self.counted.push(at);
        Ok(())
    }

    fn add_index(&mut self, at: Duration, index: &str, sizes: &[u64]) {
        let is_kept = INDEXES_KEPT.iter().any(|kept| index.split('/').next() == Some(kept));
        let rules = if is_kept { [Rule::Printed; 2] } else { Evaluated::Rows.rules(self.row_rule, self.duration) };
        self.add_sizes(at, &format!("cql: system_rows, {index}"), sizes, rules);
    }

    fn add_sizes(&mut self, at: Duration, table: &str, sizes: &[u64], [of_rows, of_partition]: [Rule; 2]) {
        let largest = sizes.iter().max().copied().unwrap_or_default() as f64;
        let values = [sizes.iter().sum::<u64>() as f64, sizes.len() as f64, largest];
        for ((series, rule), value) in TABLE_SERIES.iter().zip([of_rows, Rule::Printed, of_partition]).zip(values) {
            self.add(at, format!("{table}: {series}"), rule, value);
        }
    }

    fn add(&mut self, at: Duration, name: String, rule: Rule, value: f64) {
        let series =
            self.series.entry(name).or_insert_with_key(|name| Series { name: name.clone(), rule, points: Vec::new() });
        series.points.push((at, value));
    }
}

/// Returns the names of the series that are missing, of those that a run with these processes has at least.
pub(super) fn missing(series: &[Series], processes: impl Iterator<Item = String>) -> Vec<String> {
    let of_processes =
        processes.flat_map(|process| [MEMORY, RESIDENT, FILES].map(|series| format!("{process}: {series}")));
    let of_tables = counted().into_iter().flat_map(|(table, ..)| {
        let table = name_of(table);
        TABLE_SERIES.map(|series| format!("{table}: {series}"))
    });
    let expected = of_processes.chain(of_tables).chain([REDIS_KEYS.to_owned()]);
    let has_points = |name: &String| series.iter().any(|series| series.name == *name && !series.points.is_empty());
    expected.filter(|name| !has_points(name)).collect()
}

/// Returns the beginning of the names of the series of a table.
fn name_of(table: &str) -> String {
    format!("cql: {table}")
}

/// Returns the name of a key without the ids: the part after the hash tag, or the hash tag of a key without such a part.
fn kind_of(key: &str) -> &str {
    let Some((tag, name)) = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')) else { return "other" };
    match name.strip_prefix(':') {
        Some(name) => name.split(':').next().unwrap_or_default(),
        None => tag,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_redis_are_grouped_without_their_ids() {
        for (key, kind) in [
            ("t1:{nodes}", "nodes"),
            ("t1:{org_1}:turn:thr_1.2", "turn"),
            ("t1:{org_1}:waiting", "waiting"),
            ("t1:{org_1 thr_1.2}:events:meta", "events"),
            ("unknown", "other"),
        ] {
            assert_eq!(kind_of(key), kind, "{key}");
        }
    }

    #[test]
    fn a_series_without_a_point_is_missing() {
        let points = vec![(Duration::ZERO, 1.0)];
        let named = |name: String| Series { name, rule: Rule::Printed, points: points.clone() };
        let all: Vec<Series> = missing(&[], ["node 0".to_owned()].into_iter()).into_iter().map(named).collect();
        let names: Vec<&str> = all.iter().map(|series| series.name.as_str()).collect();
        for name in ["node 0: MiB of memory", "node 0: open files", "redis: keys", "cql: jobs: largest partition"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        assert_eq!(missing(&all, ["node 0".to_owned()].into_iter()), [""; 0]);
        assert_eq!(missing(&all[1..], ["node 0".to_owned()].into_iter()), names[..1].to_vec());
    }

    #[test]
    fn rows_of_a_short_run_have_a_bound_and_those_of_a_long_run_must_not_grow() {
        let sampler = |seconds| Sampler::new(&Plan { duration: Duration::from_secs(seconds) });
        assert!(matches!(sampler(22).row_rule, Rule::Bound(bound) if (10_000.0..20_000.0).contains(&bound)));
        assert_eq!(sampler(600).row_rule, COUNT_GROWTH);
    }
}
