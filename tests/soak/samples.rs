//! Samples of processes and stores during the load.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result};
use folio_test_servers::Redis;

use super::verdict::{Rule, Series};
use super::{Plan, WARM_UP, load, processes};
use crate::faults::tables::Tables;
use crate::harness::cluster::Cluster;
use crate::harness::process::{anonymous_bytes, open_files, resident_bytes};

/// Maximum slope of the resident memory of a process without mapped files, in MiB per hour.
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

/// Number of samples for each count of the CQL rows, which reads whole tables.
const SAMPLES_PER_COUNT: usize = 6;

/// The evaluated number of a CQL table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Evaluated {
    /// The rows of the table.
    Rows,
    /// The rows of the largest partition, because rows of deleted objects or records remain.
    LargestPartition,
}

/// Tables with their partition keys and the number that must not grow.
const TABLES: [(&str, &str, Evaluated); 14] = [
    ("aggregates", "org, id", Evaluated::LargestPartition),
    ("content_sizes", "org, shard", Evaluated::Rows),
    ("credit_blocks", "org, block", Evaluated::LargestPartition),
    ("list_groups", "org, list, chars, shard", Evaluated::Rows),
    ("list_names", "org, list, shard", Evaluated::Rows),
    ("list_rows", "org, list, term, bucket", Evaluated::Rows),
    ("names", "org, kind, name", Evaluated::Rows),
    ("open_turns", "bucket, shard", Evaluated::Rows),
    ("org_rows", "org, part", Evaluated::Rows),
    ("text_pages", "org, id, generation", Evaluated::Rows),
    ("text_boxes", "org, id, generation", Evaluated::Rows),
    ("text_structure", "org, id, generation", Evaluated::Rows),
    ("threads", "org, id", Evaluated::LargestPartition),
    ("usage_records", "org, bucket", Evaluated::LargestPartition),
];

/// Indexes of `system_rows` whose rows remain for a day or two after a deletion or request.
const INDEXES_KEPT: [&str; 4] = ["deleted", "op_data", "request", "thread_expiry"];

pub(super) struct Sampler {
    redis_rule: Rule,
    samples: usize,
    /// Times of the counts of the CQL rows.
    counted: Vec<Duration>,
    /// Indexes of `system_rows` that a count has found.
    indexes: BTreeSet<String>,
    series: BTreeMap<String, Series>,
}

impl Sampler {
    pub(super) fn new(plan: &Plan) -> Self {
        let turns = (load::WORKERS * load::TURNS_PER_CYCLE) as f64 / load::PERIOD.as_secs_f64();
        let bound = REDIS_KEYS_OTHER + REDIS_KEYS_PER_TURN * turns * REDIS_KEPT.as_secs_f64();
        // The number of keys grows until the keys of the first turns expire.
        let redis_rule = if plan.warm_up() >= WARM_UP { COUNT_GROWTH } else { Rule::Bound(bound) };
        Self { redis_rule, samples: 0, counted: Vec::new(), indexes: BTreeSet::new(), series: BTreeMap::new() }
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
            self.add(at, format!("{process}: MiB of memory"), MEMORY_MIB_PER_HOUR, mebibytes(memory));
            self.add(at, format!("{process}: MiB with mapped files"), Rule::Printed, mebibytes(resident));
            self.add(at, format!("{process}: open files"), FILES_GROWTH, open_files(id)? as f64);
        }
        let size = tokio::task::block_in_place(|| redis.command("DBSIZE"))?;
        let size: u32 = size.trim_start_matches(':').parse().context("the size of Redis")?;
        self.add(at, "redis: keys".to_owned(), self.redis_rule, f64::from(size));
        let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
        for key in tokio::task::block_in_place(|| redis.list_command("KEYS *"))? {
            *kinds.entry(kind_of(&key).to_owned()).or_default() += 1;
        }
        for (kind, keys) in kinds {
            self.add(at, format!("redis: keys, {kind}"), Rule::Printed, keys as f64);
        }
        if self.samples.is_multiple_of(SAMPLES_PER_COUNT) {
            self.count_rows(at, tables).await?;
        }
        self.samples += 1;
        Ok(())
    }

    async fn count_rows(&mut self, at: Duration, tables: &Tables) -> Result<()> {
        for (table, partition_key, evaluated) in TABLES {
            let sizes = tables.partition_sizes(table, partition_key).await?;
            self.add_sizes(at, &format!("cql: {table}"), &sizes, Some(evaluated));
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
        let evaluated = (!is_kept).then_some(Evaluated::Rows);
        self.add_sizes(at, &format!("cql: system_rows, {index}"), sizes, evaluated);
    }

    fn add_sizes(&mut self, at: Duration, table: &str, sizes: &[u64], evaluated: Option<Evaluated>) {
        let largest = sizes.iter().max().copied().unwrap_or_default();
        let rule = |of: Evaluated| if evaluated == Some(of) { COUNT_GROWTH } else { Rule::Printed };
        self.add(at, format!("{table}: rows"), rule(Evaluated::Rows), sizes.iter().sum::<u64>() as f64);
        self.add(at, format!("{table}: partitions"), Rule::Printed, sizes.len() as f64);
        self.add(at, format!("{table}: largest partition"), rule(Evaluated::LargestPartition), largest as f64);
    }

    fn add(&mut self, at: Duration, name: String, rule: Rule, value: f64) {
        let series =
            self.series.entry(name).or_insert_with_key(|name| Series { name: name.clone(), rule, points: Vec::new() });
        series.points.push((at, value));
    }
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
}
