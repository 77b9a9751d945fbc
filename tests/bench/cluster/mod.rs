//! `cargo xtask bench cluster`: two gateways and several nodes with Redis and a CQL server on this machine. Measures
//! turns per second, the latency that a turn adds to its model call, the time from the kill of a node to an approval on
//! another one, memory and relocation of idle conversations, and store operations per turn.

mod idle;
mod operations;
mod processes;
mod takeover;
mod turns;

use anyhow::Result;
use serde_json::{Value, json};

use crate::format::{kib, micros, row};
use crate::process::start_model;
use processes::{Cluster, GATEWAYS, Stores};

/// Amount of work in each measurement.
pub(crate) struct Sizes {
    /// Turns for the measurement of turns per second.
    turns: usize,
    /// Turns for the measurement of latencies.
    latency_turns: usize,
    /// Idle conversations whose memory is measured.
    conversations: usize,
    /// Paused turns before the kill of a node.
    paused: usize,
    /// Idle conversations that are resumed after a node joins.
    resumed_conversations: usize,
    /// Turns of each kind whose store operations are counted.
    counted_turns: usize,
}

impl Sizes {
    /// Returns the sizes for published results.
    pub(crate) fn full() -> Self {
        Self {
            turns: 2_000,
            latency_turns: 1_000,
            conversations: 10_000,
            paused: 60,
            resumed_conversations: 600,
            counted_turns: 50,
        }
    }

    /// Returns the sizes for a functional check.
    pub(crate) fn quick() -> Self {
        Self {
            turns: 160,
            latency_turns: 80,
            conversations: 200,
            paused: 12,
            resumed_conversations: 60,
            counted_turns: 5,
        }
    }
}

/// Concurrent clients, which do not pause between turns.
const CLIENTS: usize = 16;
/// Deltas of an answer.
const DELTAS: usize = 50;

/// Runs all measurements, and prints a table and JSON.
pub(crate) async fn measure(sizes: &Sizes) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let endpoint = start_model(folder.path(), &script_text())?;
    let sim = endpoint.url();
    let stores = Stores::start()?;
    let model = turns::of_the_model(&sim, sizes.latency_turns).await?;

    eprintln!(
        "\n{:<60}{:>14}{:>14}",
        format!("{GATEWAYS} gateways, answers of {DELTAS} deltas"),
        "model alone",
        "folio"
    );
    let mut by_nodes = Vec::new();
    for nodes in 1..=3 {
        let cluster = Cluster::start(&stores, &format!("turns_{nodes}"), &sim, nodes).await?;
        turns::per_second(&cluster, CLIENTS, sizes.turns / 10).await?;
        let per_second = turns::per_second(&cluster, CLIENTS, sizes.turns).await?;
        let latencies = turns::latencies(&cluster, CLIENTS, sizes.latency_turns).await?;
        let added_p50 = latencies.whole.p50.saturating_sub(model.whole.p50);
        let added_p99 = latencies.whole.p99.saturating_sub(model.whole.p99);
        row(&format!("turns per second, nodes: {nodes}"), "", &format!("{per_second:.0}"));
        for (what, model, folio) in
            [("first delta", &model.first, &latencies.first), ("whole turn", &model.whole, &latencies.whole)]
        {
            row(&format!("  {what}, p50"), &micros(model.p50), &micros(folio.p50));
            row(&format!("  {what}, p99"), &micros(model.p99), &micros(folio.p99));
        }
        row("  added to the model call by a whole turn, p50", "", &micros(added_p50));
        row("  added to the model call by a whole turn, p99 (aim: 10 ms)", "", &micros(added_p99));
        by_nodes.push(json!({
            "nodes": nodes,
            "turns_per_second": per_second,
            "first_piece_p50_microseconds": latencies.first.p50.as_micros() as u64,
            "first_piece_p99_microseconds": latencies.first.p99.as_micros() as u64,
            "added_p50_microseconds": added_p50.as_micros() as u64,
            "added_p99_microseconds": added_p99.as_micros() as u64,
        }));
    }

    let mut cluster = Cluster::start(&stores, "takeover", &sim, 3).await?;
    let operations = operations::run(&cluster, sizes.counted_turns).await?;
    print_operations(&operations);
    let takeover = takeover::run(&mut cluster, sizes.paused).await?;
    row(
        &format!("kill -9 to the first approval elsewhere, {} turns", takeover.taken_over),
        "",
        &micros(takeover.first),
    );
    row("  to the last one (aim: 6 s, heartbeat time and one second)", "", &micros(takeover.last));
    drop(cluster);

    let mut cluster = Cluster::start(&stores, "idle", &sim, 2).await?;
    let idle = idle::run(&mut cluster, sizes.conversations, sizes.resumed_conversations).await?;
    row(&format!("memory per idle conversation, {} of them", idle.conversations), "", &kib(idle.bytes_each));
    row("conversations moved when a third node joins", "", &format!("{:.1} %", idle.moved * 100.0));
    row("  new ones placed on it", "", &format!("{:.1} %", idle.placed * 100.0));
    println!("{}", report(&by_nodes, &operations, &takeover, &idle));
    Ok(())
}

fn print_operations(operations: &[operations::Measurements]) {
    for measurements in operations {
        let aim = |aim: Option<u32>| aim.map(|aim| format!(" (aim: {aim})")).unwrap_or_default();
        let (cql, redis) = measurements.aims.unzip();
        let named = format!("CQL operations of a turn: {}{}", measurements.kind, aim(cql));
        row(&named, "", &format!("{:.1}", measurements.of_server("cql")));
        row(&format!("  of Redis{}", aim(redis)), "", &format!("{:.1}", measurements.of_server("redis")));
        for (labels, count) in &measurements.operations {
            row(&format!("    {labels}"), "", &format!("{count:.1}"));
        }
    }
}

/// Measures the operations of the stores only.
pub(crate) async fn measure_operations(turns: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let endpoint = start_model(folder.path(), &script_text())?;
    let sim = endpoint.url();
    let stores = Stores::start()?;
    let cluster = Cluster::start(&stores, "operations", &sim, 3).await?;
    print_operations(&operations::run(&cluster, turns).await?);
    Ok(())
}

fn report(
    by_nodes: &[Value],
    operations: &[operations::Measurements],
    takeover: &takeover::Measurements,
    idle: &idle::Measurements,
) -> Value {
    let operations: Vec<_> = operations
        .iter()
        .map(|measurements| json!({ "turn": measurements.kind, "operations": measurements.operations }))
        .collect();
    json!({
        "by_nodes": by_nodes,
        "operations": operations,
        "takeover": {
            "turns": takeover.taken_over,
            "first_microseconds": takeover.first.as_micros() as u64,
            "last_microseconds": takeover.last.as_micros() as u64,
        },
        "idle": {
            "conversations": idle.conversations,
            "bytes_each": idle.bytes_each,
            "moved": idle.moved,
            "placed": idle.placed,
        },
    })
}

/// Script: an answer of [`DELTAS`] deltas without pauses, a read-only tool, and a tool that waits for approval.
fn script_text() -> String {
    let words: String = (0..DELTAS).map(|_| "word ").collect();
    format!(
        "rules:
  - when: {{user: read}}
    rounds:
      - calls: [{{name: list_tags}}]
      - text: Read.
  - when: {{user: {{prefix: write}}}}
    rounds:
      - calls: [{{name: create_tag, arguments: {{name: '{{{{user}}}}'}}}}]
      - text: Written.
  - answer: {{text: \"{}\"}}
",
        words.trim_end()
    )
}
