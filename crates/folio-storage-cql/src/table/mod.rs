//! The tables and their prepared statements. Only these modules, the migrations and `erasure.rs` contain statements.

/// Declares a table with its prepared statements: name, kind (`read`, `write` or `conditional`) and text of each.
macro_rules! table {
    (@type read) => { $crate::session::Select };
    (@type $kind:ident) => { scylla::statement::prepared::PreparedStatement };
    (@prepare $cql:ident read $text:expr) => { $cql.select($text) };
    (@prepare $cql:ident write $text:expr) => { $cql.prepare($text, $crate::session::StatementKind::Write) };
    (@prepare $cql:ident $conditional:ident $text:expr) => {
        $cql.prepare($text, $crate::session::StatementKind::Conditional)
    };
    ($name:ident: $($statement:ident: $kind:ident $text:expr,)+) => {
        pub(crate) struct $name {
            cql: std::sync::Arc<$crate::session::Cql>,
            $($statement: table!(@type $kind),)+
        }

        impl $name {
            pub(super) async fn prepare(cql: &std::sync::Arc<$crate::session::Cql>) -> folio_types::Result<Self> {
                $(let $statement = table!(@prepare cql $kind $text).await?;)+
                Ok(Self { cql: std::sync::Arc::clone(cql), $($statement),+ })
            }
        }
    };
}

mod aggregates;
mod audit;
mod catalogue;
mod content_sizes;
mod credit;
mod idempotency;
mod jobs;
mod names;
mod open_turns;
mod rows;
mod system_rows;
mod text_pages;
mod threads;
mod usage;

use std::sync::Arc;

use folio_types::Result;

pub(crate) use aggregates::{Header, Part};
pub(crate) use catalogue::{ALL, Key, Position, RowChange, SHARDS, Source, StoredValue, bucket, by_bucket, shard};
pub(crate) use credit::ENDED;
pub(crate) use jobs::JOB_PARTS;
pub(crate) use names::NameRow;
pub(crate) use open_turns::{SHARDS as OPEN_TURN_SHARDS, shard as open_turn_shard};
pub(crate) use system_rows::{ALL_TIMES, SystemRow};
pub(crate) use threads::{ThreadPart, ThreadRow};
pub(crate) use usage::{HourRow, RecordRow};

use super::session::Cql;

macro_rules! tables {
    ($($table:ident: $module:ident::$name:ident,)+) => {
        pub(crate) struct Tables {
            $(pub(crate) $table: $module::$name,)+
        }

        impl Tables {
            /// Prepares the statements of all tables concurrently, so that a start waits for the slowest table only.
            pub(crate) async fn prepare(cql: &Arc<Cql>) -> Result<Self> {
                let ($($table),+) = tokio::try_join!($($module::$name::prepare(cql)),+)?;
                Ok(Self { $($table),+ })
            }
        }
    };
}

tables! {
    aggregates: aggregates::Aggregates,
    idempotency: idempotency::Idempotency,
    audit: audit::Audit,
    catalogue: catalogue::Catalogue,
    content_sizes: content_sizes::ContentSizes,
    credit: credit::Credit,
    jobs: jobs::Jobs,
    names: names::Names,
    open_turns: open_turns::OpenTurnRows,
    rows: rows::Rows,
    system_rows: system_rows::SystemRows,
    text_pages: text_pages::TextPages,
    threads: threads::Threads,
    usage: usage::Usages,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    /// Returns the statements that are prepared with a condition, or for a batch with a condition, as `FILE.NAME`.
    fn conditional(file: &str, text: &str) -> BTreeSet<String> {
        let (mut name, mut found) = (String::new(), BTreeSet::new());
        for line in text.lines().map(str::trim_start) {
            let word = line.strip_prefix("let ").unwrap_or(line).split([':', ' ']).next().unwrap_or_default();
            let is_name = line.starts_with(&format!("{word}: ")) || line.starts_with(&format!("let {word} ="));
            if is_name && word.chars().all(|char| char.is_ascii_lowercase() || char == '_') {
                word.clone_into(&mut name);
            }
            if line.contains(": conditional ") || line.contains("StatementKind::Conditional)") {
                found.insert(format!("{file}.{name}"));
            }
        }
        found
    }

    #[test]
    fn every_conditional_write_is_listed_in_the_docs_with_its_reason_and_its_cost() {
        let adapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut prepared = BTreeSet::new();
        for folder in [adapter.clone(), adapter.join("table"), adapter.join("catalogue")] {
            for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
                let path = entry.path();
                let file = path.file_stem().unwrap().to_str().unwrap();
                if path.extension().is_some_and(|end| end == "rs") && !["session", "mod"].contains(&file) {
                    let text = std::fs::read_to_string(&path).unwrap();
                    prepared.extend(conditional(file, &text));
                }
            }
        }
        assert!(prepared.len() > 20, "{prepared:?}");
        let docs = std::fs::read_to_string(adapter.join("../../../docs/storage.md")).unwrap();
        let mut listed = BTreeSet::new();
        for row in docs.lines().filter(|line| line.starts_with("| `") && line.contains('.')) {
            let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
            assert!(cells.len() == 4 && cells.iter().all(|cell| !cell.is_empty()), "expected 4 cells with text: {row}");
            listed.extend(cells[0].split(", ").map(|name| name.trim_matches('`').to_owned()));
        }
        assert_eq!(prepared, listed);
    }
}
