//! One file for each table, with its prepared statements. Only these modules and the migrations contain statements.

mod aggregates;
mod audit;
mod catalogue;
mod credit;
mod idempotency;
mod names;
mod rows;
mod system_rows;
mod text_pages;
mod threads;
mod usage;

use folio_types::Result;

pub(crate) use aggregates::{Aggregates, Header, Part};
pub(crate) use audit::Audit;
pub(crate) use catalogue::{Catalogue, Position, SHARDS};
pub(crate) use credit::{Credit, ENDED};
pub(crate) use idempotency::Idempotency;
pub(crate) use names::{NameRow, Names};
pub(crate) use rows::Rows;
pub(crate) use system_rows::{SystemRow, SystemRows};
pub(crate) use text_pages::TextPages;
pub(crate) use threads::{ThreadPart, ThreadRow, Threads};
pub(crate) use usage::Usages;

use super::session::Cql;

pub(crate) struct Tables {
    pub(crate) aggregates: Aggregates,
    pub(crate) idempotency: Idempotency,
    pub(crate) audit: Audit,
    pub(crate) catalogue: Catalogue,
    pub(crate) credit: Credit,
    pub(crate) names: Names,
    pub(crate) rows: Rows,
    pub(crate) system_rows: SystemRows,
    pub(crate) text_pages: TextPages,
    pub(crate) threads: Threads,
    pub(crate) usage: Usages,
}

impl Tables {
    /// Prepares the statements of all tables concurrently, so that a start waits for the slowest table only.
    pub(crate) async fn prepare(cql: &Cql) -> Result<Self> {
        let (aggregates, idempotency, audit, catalogue, credit, names, rows, system_rows, text_pages, threads, usage) =
            tokio::try_join!(
                Aggregates::prepare(cql),
                Idempotency::prepare(cql),
                Audit::prepare(cql),
                Catalogue::prepare(cql),
                Credit::prepare(cql),
                Names::prepare(cql),
                Rows::prepare(cql),
                SystemRows::prepare(cql),
                TextPages::prepare(cql),
                Threads::prepare(cql),
                Usages::prepare(cql),
            )?;
        Ok(Self {
            aggregates,
            idempotency,
            audit,
            catalogue,
            credit,
            names,
            rows,
            system_rows,
            text_pages,
            threads,
            usage,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    /// Returns the statements that are prepared with a condition, or for a batch with a condition, as `FILE.NAME`.
    fn conditional(file: &str, text: &str) -> BTreeSet<String> {
        let (mut name, mut found) = (String::new(), BTreeSet::new());
        for line in text.lines() {
            let line = line.trim_start();
            let word = line.strip_prefix("let ").unwrap_or(line).split([':', ' ']).next().unwrap_or_default();
            let is_name = line.starts_with(&format!("{word}: ")) || line.starts_with(&format!("let {word} ="));
            let is_closure = line.starts_with("let conditional =");
            if is_name && !is_closure && word.chars().all(|char| char.is_ascii_lowercase() || char == '_') {
                word.clone_into(&mut name);
            }
            if !is_closure && (line.contains(": conditional(") || line.contains("StatementKind::Conditional)")) {
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
            assert!(cells.len() == 4 && cells.iter().all(|cell| !cell.is_empty()), "a cell lacks: {row}");
            listed.extend(cells[0].split(", ").map(|name| name.trim_matches('`').to_owned()));
        }
        assert_eq!(prepared, listed);
    }
}
