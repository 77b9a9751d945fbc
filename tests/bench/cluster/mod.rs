//! `cargo xtask bench cluster`: two gateways and several nodes with Redis and a CQL server on this machine. Measures
//! turns per second, the latency that a turn adds to its model call, the time from the kill of a node to an approval and
//! to the next chat on another one, memory and relocation of idle conversations, and store operations per turn.

pub(crate) mod fairness;
mod idle;
mod operations;
pub(crate) mod processes;
mod takeover;
pub(crate) mod turns;

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::format::{Aims, kib, micros, row};
use crate::process::start_model;
use crate::turn::IDLE_AIM;
use processes::{Cluster, GATEWAYS, Stores};

/// Amount of work in each measurement.
pub(crate) struct Sizes {
    /// Turns for the measurement of turns per second.
    turns: usize,
    /// Turns for the measurement of latencies.
    latency_turns: usize,
    /// Idle conversations whose memory is measured.
    conversations: usize,
    /// Paused turns, and as many idle threads, before the kill of a node.
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

/// Aims: the 99th percentile that a turn adds to its model call, and the time from the kill of an owner until another node
/// has answered (the heartbeat time and one second).
const ADDED_AIM: Duration = Duration::from_millis(10);
const TAKEOVER_AIM: Duration = Duration::from_secs(6);

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
    let (mut by_nodes, mut aims) = (Vec::new(), Aims::default());
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
        let what = "  added to the model call by a whole turn, p99 (aim: 10 ms)";
        aims.row(what, "", &micros(added_p99), added_p99 <= ADDED_AIM);
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
    print_operations(&operations, &mut aims);
    let takeover = takeover::run(&mut cluster, sizes.paused).await?;
    for (what, times) in [("approval", &takeover.approvals), ("answer of the next chat", &takeover.chats)] {
        row(&format!("kill -9 to the first {what}, threads: {}", times.taken_over), "", &micros(times.first));
        aims.row(&format!("  to the last {what} (aim: 6 s)"), "", &micros(times.last), times.last <= TAKEOVER_AIM);
    }
    drop(cluster);

    let mut cluster = Cluster::start(&stores, "idle", &sim, 2).await?;
    let idle = idle::run(&mut cluster, sizes.conversations, sizes.resumed_conversations).await?;
    let what = format!("memory per idle conversation, {} of them (aim: 16 KiB)", idle.conversations);
    aims.row(&what, "", &kib(idle.bytes_each), idle.bytes_each <= IDLE_AIM);
    row("conversations moved when a third node joins", "", &format!("{:.1} %", idle.moved * 100.0));
    row("  new ones placed on it", "", &format!("{:.1} %", idle.placed * 100.0));
    println!("{}", report(&by_nodes, &operations, &takeover, &idle, &aims));
    aims.finish()
}

fn print_operations(operations: &[operations::Measurements], aims: &mut Aims) {
    for measurements in operations {
        let kind = measurements.kind;
        for (server, aim) in ["cql", "redis"].into_iter().zip(measurements.aims) {
            let count = measurements.of_server(server);
            let shown = aim.map(|aim| format!(" (aim: {aim})")).unwrap_or_default();
            let what = format!("{server} operations of a turn: {kind}{shown}");
            aims.row(&what, "", &format!("{count:.1}"), aim.is_none_or(|aim| count <= aim));
        }
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
    let mut aims = Aims::default();
    print_operations(&operations::run(&cluster, turns).await?, &mut aims);
    aims.finish()
}

fn report(
    by_nodes: &[Value],
    operations: &[operations::Measurements],
    takeover: &takeover::Measurements,
    idle: &idle::Measurements,
    aims: &Aims,
) -> Value {
    let operations: Vec<_> = operations
        .iter()
        .map(|measurements| json!({ "turn": measurements.kind, "operations": measurements.operations }))
        .collect();
    let times = |times: &takeover::Times| {
        json!({
            "threads": times.taken_over,
            "first_microseconds": times.first.as_micros() as u64,
            "last_microseconds": times.last.as_micros() as u64,
        })
    };
    json!({
        "by_nodes": by_nodes,
        "operations": operations,
        "takeover": { "approvals": times(&takeover.approvals), "next_chats": times(&takeover.chats) },
        "idle": {
            "conversations": idle.conversations,
            "bytes_each": idle.bytes_each,
            "moved": idle.moved,
            "placed": idle.placed,
        },
        "missed": aims.missed(),
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
