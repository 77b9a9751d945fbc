//! The tables of the CQL schema: the counted tables with the number that a run evaluates, and the other tables with the reason.

use std::time::Duration;

use super::verdict::Rule;
use super::{WARM_UP_PARTS, load};

/// The evaluated number of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Evaluated {
    /// The rows of the table must not grow.
    Rows,
    /// The rows of the largest partition must not grow. Rows of deleted objects or records remain in other partitions.
    LargestPartition,
    /// No partition has more than this number of rows. A partition grows until the end of its hour or day.
    PartitionUpTo(f64),
    /// No partition has more than this number of rows for each cycle of the run. The rows expire after a day.
    PartitionPerCycle(f64),
}

impl Evaluated {
    /// Returns the rules of the rows and of the largest partition. `steady`: the rule of a number that must not grow.
    /// `duration`: the duration of the run.
    pub(super) fn rules(self, steady: Rule, duration: Duration) -> [Rule; 2] {
        match self {
            Self::Rows => [steady, Rule::Printed],
            Self::LargestPartition => [Rule::Printed, steady],
            Self::PartitionUpTo(rows) => [Rule::Printed, Rule::Bound(rows)],
            Self::PartitionPerCycle(rows) => [Rule::Printed, Rule::Bound(rows * cycles_within(duration))],
        }
    }
}

/// Maximum number of audit entries of a cycle: one for each tool call of its turns.
const AUDIT_ROWS_PER_CYCLE: usize = 10;
/// Maximum number of entries of a credit account in a cycle: the draw and the end of one block. A cycle has at least five model calls.
const ACCOUNT_ENTRIES_PER_CYCLE: f64 = 2.0;
const HOUR: Duration = Duration::from_secs(60 * 60);
const HOURS_PER_DAY: f64 = 24.0;
/// Number of buckets of five minutes in a day.
const USAGE_BUCKETS_PER_DAY: f64 = 24.0 * 12.0;
/// Number of buckets of ten seconds in a day.
const OPEN_TURN_BUCKETS_PER_DAY: f64 = 24.0 * 360.0;

/// Returns the number of cycles of all workers that begin within a time.
pub(super) fn cycles_within(time: Duration) -> f64 {
    let of_worker = |time: Duration| time.as_secs_f64() / load::PERIOD.as_secs_f64() + 1.0;
    load::WORKERS as f64 * of_worker(time) + load::WARM_UP_WORKERS as f64 * of_worker(time / WARM_UP_PARTS)
}

/// Returns the counted tables with their partition keys.
pub(super) fn counted() -> Vec<(&'static str, &'static str, Evaluated)> {
    use Evaluated::{LargestPartition, PartitionPerCycle, PartitionUpTo, Rows};
    vec![
        ("aggregates", "org, id", LargestPartition),
        ("audit", "org, hour", PartitionUpTo(AUDIT_ROWS_PER_CYCLE as f64 * cycles_within(HOUR))),
        ("audit_hours", "org", Rows),
        ("content_sizes", "org, shard", Rows),
        ("credit_accounts", "org", PartitionPerCycle(ACCOUNT_ENTRIES_PER_CYCLE)),
        ("credit_blocks", "org, block", LargestPartition),
        ("idempotency", "org, op", LargestPartition),
        ("jobs", "org, id", LargestPartition),
        ("list_buckets", "org, list, term", LargestPartition),
        ("list_groups", "org, list, chars, shard", Rows),
        ("list_names", "org, list, shard", Rows),
        ("list_rows", "org, list, term, bucket", Rows),
        ("names", "org, kind, name", Rows),
        ("open_turn_buckets", "day", PartitionUpTo(OPEN_TURN_BUCKETS_PER_DAY)),
        ("open_turns", "bucket, shard", Rows),
        ("org_rows", "org, part", Rows),
        ("text_boxes", "org, id, generation", Rows),
        ("text_pages", "org, id, generation", Rows),
        ("text_structure", "org, id, generation", Rows),
        ("threads", "org, id", LargestPartition),
        ("usage_buckets", "org, day", PartitionUpTo(USAGE_BUCKETS_PER_DAY)),
        ("usage_days", "org", Rows),
        ("usage_hours", "org, day", PartitionUpTo(HOURS_PER_DAY)),
        ("usage_records", "org, bucket", LargestPartition),
    ]
}

/// Tables that are not in [`counted`], each with the reason.
#[cfg(test)]
const NOT_COUNTED: [(&str, &str); 5] = [
    ("catalogue", "a later migration drops it"),
    ("migrations", "has one row for each of a few names"),
    ("open_turn_floor", "has one row for each of a few names"),
    ("system_rows", "is counted for each of its indexes"),
    ("usage", "is empty, because `usage_records` replaced it"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;

    const CREATE: &str = "CREATE TABLE IF NOT EXISTS ";

    /// Returns the tables that the migrations of the CQL adapter create, with their definitions.
    fn schema() -> BTreeMap<String, String> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/folio-storage-cql/src");
        let mut texts = vec![std::fs::read_to_string(sources.join("migrate.rs")).unwrap()];
        for file in std::fs::read_dir(sources.join("migrations")).unwrap() {
            texts.push(std::fs::read_to_string(file.unwrap().path()).unwrap());
        }
        let definitions = texts.iter().flat_map(|text| text.split(CREATE).skip(1));
        let named = definitions.filter_map(|definition| definition.split_once(' '));
        named.map(|(table, definition)| (table.to_owned(), definition.to_owned())).collect()
    }

    #[test]
    fn every_table_of_the_schema_is_counted_or_has_a_reason() {
        let (schema, counted) = (schema(), counted());
        let listed = counted.iter().map(|(table, ..)| *table).chain(NOT_COUNTED.map(|(table, _)| table));
        let mut listed: Vec<_> = listed.collect();
        listed.sort_unstable();
        assert_eq!(listed, schema.keys().map(String::as_str).collect::<Vec<_>>());
        for (table, partition_key, _) in counted {
            let key = format!("PRIMARY KEY (({partition_key})");
            assert!(schema[table].contains(&key), "{table}: expected {key}");
        }
        assert!(NOT_COUNTED.iter().all(|(_, reason)| !reason.is_empty()));
    }

    #[test]
    fn one_number_of_a_table_is_evaluated() {
        let steady = Rule::Growth { share: 0.25, constant: 50.0 };
        let rules = |evaluated: Evaluated| evaluated.rules(steady, HOUR);
        assert_eq!(rules(Evaluated::Rows), [steady, Rule::Printed]);
        assert_eq!(rules(Evaluated::LargestPartition), [Rule::Printed, steady]);
        assert_eq!(rules(Evaluated::PartitionUpTo(24.0)), [Rule::Printed, Rule::Bound(24.0)]);
        let bound = Rule::Bound(2.0 * cycles_within(HOUR));
        assert_eq!(rules(Evaluated::PartitionPerCycle(2.0)), [Rule::Printed, bound]);
    }
}
