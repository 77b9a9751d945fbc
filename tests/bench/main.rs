//! Benchmarks of Folio: `cargo xtask bench WHAT` builds this binary with the profile `dist` and runs it.
//!
//! All processes run on loopback, and this program starts and ends them. It prints a table to stderr and one JSON
//! object to stdout.

mod client;
mod cluster;
mod deletion;
mod documents;
mod fairness;
mod format;
mod index;
mod jobs;
mod lists;
mod named_revisions;
mod process;
mod stacks;
mod turn;
mod watchers;

use anyhow::Result;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        match arguments.as_slice() {
            ["turn"] => turn::measure(true).await,
            ["turn", "--cpu"] => turn::measure(false).await,
            ["turn", "--face", face] => turn::measure_face(face).await,
            ["proxy", upstream] => turn::proxy((*upstream).to_owned()).await,
            ["cluster"] => cluster::measure(&cluster::Sizes::full()).await,
            ["cluster", "--quick"] => cluster::measure(&cluster::Sizes::quick()).await,
            ["cluster", "--operations"] => cluster::measure_operations(50).await,
            ["lists"] => lists::measure(lists::DOCUMENTS).await,
            ["lists", documents] => lists::measure(documents.parse()?).await,
            ["documents"] => documents::measure(documents::PAGES).await,
            ["documents", pages] => documents::measure(pages.parse()?).await,
            ["deletion"] => deletion::measure(folio_types::limits::REVISIONS_MAX).await,
            ["deletion", revisions] => deletion::measure(revisions.parse()?).await,
            ["jobs"] => jobs::measure(jobs::DOCUMENTS).await,
            ["jobs", documents] => jobs::measure(documents.parse()?).await,
            ["stacks"] => stacks::measure(stacks::ROWS).await,
            ["stacks", rows] => stacks::measure(rows.parse()?).await,
            ["index"] => index::measure(index::PASSAGES).await,
            ["index", "--qdrant"] => index::measure_qdrant(index::QDRANT_PASSAGES).await,
            ["index", "--qdrant", passages] => index::measure_qdrant(passages.parse()?).await,
            ["index", passages] => index::measure(passages.parse()?).await,
            ["fairness"] => fairness::measure(fairness::CALLS).await,
            ["fairness", calls] => fairness::measure(calls.parse()?).await,
            _ => anyhow::bail!(
                "bench turn [--cpu | --face grpc|grpc-web|sse|rest] | bench cluster [--quick | --operations] | \
                 bench lists [DOCUMENTS] | bench fairness [CALLS] | bench deletion [REVISIONS] | \
                 bench documents [PAGES] | bench jobs [DOCUMENTS] | bench stacks [ROWS] | bench index [--qdrant] [PASSAGES]"
            ),
        }
    })
}
