//! `cargo xtask bench turn`: the cost of a turn compared with a bare proxy that only forwards the same model stream,
//! the memory of an idle conversation, and the time to load a passivated one.
//!
//! [`load`] runs turns, [`faces`] over other faces than gRPC, [`proxy`] is the bare proxy, [`idle`] and [`wake`] measure idle conversations.

mod faces;
mod idle;
mod load;
mod proxy;
mod wake;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use folio_tests::harness::process::Process;
use serde_json::{Value, json};

pub(crate) use faces::measure as measure_face;
use load::Load;
pub(crate) use proxy::serve as proxy;

use crate::format::{Aims, Percentiles, kib, micros, row};
use crate::process::{Folio, start_model};

/// Number of measurements, of which the median counts.
const ROUNDS: usize = 3;
/// Aims: the CPU of a turn as a multiple of the proxy's, the bytes of an idle conversation without its messages, and the
/// 99th percentile of a reload.
const CPU_AIM: f64 = 2.2;
pub(crate) const IDLE_AIM: f64 = 16.0 * 1024.0;
const WAKE_AIM: Duration = Duration::from_millis(8);
/// Deltas of an answer.
const DELTAS: usize = 50;

/// Compares turns with the proxy. If `memory` is true, also measures idle conversations.
pub(crate) async fn measure(memory: bool) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let endpoint = start_model(folder.path(), &script_text())?;
    let sim = endpoint.url();
    let (bare, whole) = turns(&sim).await?;
    let ratio = whole.cpu_per_turn.as_secs_f64() / bare.cpu_per_turn.as_secs_f64();
    eprintln!("\n{:<44}{:>14}{:>14}", "turn of one model call, 50 deltas", "bare proxy", "folio");
    row("turns per second", &format!("{:.0}", bare.turns_per_second), &format!("{:.0}", whole.turns_per_second));
    row("CPU per turn", &micros(bare.cpu_per_turn), &micros(whole.cpu_per_turn));
    row("latency p50", &micros(bare.latency.p50), &micros(whole.latency.p50));
    row("latency p99", &micros(bare.latency.p99), &micros(whole.latency.p99));
    let mut aims = Aims::default();
    aims.row("CPU, times the bare proxy's (aim: at most 2.2)", "1", &format!("{ratio:.2}"), ratio <= CPU_AIM);
    if !memory {
        return aims.finish();
    }
    let idle = [idle::run(&sim, 10_000).await?, idle::run(&sim, 100_000).await?];
    let wake = wake::run(&sim, 500).await?;
    for idle in &idle {
        row(&format!("memory per idle conversation, {} of them", idle.conversations), "", &kib(idle.bytes_each));
        row("  of it the texts of its messages", "", &kib(idle.message_bytes_each));
        let own = idle.bytes_each - idle.message_bytes_each;
        aims.row("  without them (aim: 16 KiB)", "", &kib(own), own <= IDLE_AIM);
    }
    row("wake of a passivated conversation, p50", "", &micros(wake.p50));
    aims.row("wake of a passivated conversation, p99 (aim: 8 ms)", "", &micros(wake.p99), wake.p99 <= WAKE_AIM);
    println!("{}", report(&bare, &whole, ratio, &idle, &wake, &aims));
    aims.finish()
}

/// Measures proxy and server alternately, so that both see the same machine. Returns the measurements with the median
/// CPU time per turn.
async fn turns(sim: &str) -> Result<(load::Measurements, load::Measurements)> {
    let load = Load { clients: 16, turns: 4_000 };
    let (mut bare, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let proxy = Process::start("bench", Path::new("."), &["proxy", sim], &[]);
        bare.push(load::of_proxy(&proxy, &load).await?);
        drop(proxy);
        whole.push(load::of_folio(&Folio::start(sim, &[])?, &load).await?);
    }
    let median = |mut measurements: Vec<load::Measurements>| {
        measurements.sort_by_key(|measurements| measurements.cpu_per_turn);
        measurements.swap_remove(ROUNDS / 2)
    };
    Ok((median(bare), median(whole)))
}

fn report(
    bare: &load::Measurements,
    whole: &load::Measurements,
    ratio: f64,
    idle: &[idle::Measurements],
    wake: &Percentiles,
    aims: &Aims,
) -> Value {
    let turn = |measurements: &load::Measurements| {
        json!({
            "turns_per_second": measurements.turns_per_second,
            "cpu_per_turn_microseconds": measurements.cpu_per_turn.as_micros() as u64,
            "latency_p50_microseconds": measurements.latency.p50.as_micros() as u64,
            "latency_p99_microseconds": measurements.latency.p99.as_micros() as u64,
        })
    };
    let idle: Vec<_> = idle
        .iter()
        .map(|measurements| {
            json!({
                "conversations": measurements.conversations,
                "bytes_each": measurements.bytes_each,
                "message_bytes_each": measurements.message_bytes_each,
            })
        })
        .collect();
    json!({
        "turn": { "deltas": DELTAS, "bare_proxy": turn(bare), "folio": turn(whole), "cpu_ratio": ratio },
        "idle": idle,
        "wake": {
            "p50_microseconds": wake.p50.as_micros() as u64, "p99_microseconds": wake.p99.as_micros() as u64,
        },
        "missed": aims.missed(),
    })
}

/// Script: one rule for every message, with an answer of [`DELTAS`] deltas without pauses.
fn script_text() -> String {
    let words: String = (0..DELTAS).map(|_| "word ").collect();
    format!("rules:\n  - answer:\n      text: \"{}\"\n", words.trim_end())
}
