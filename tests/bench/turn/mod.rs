//! `cargo xtask bench turn`: what a turn costs, beside a bare proxy that only forwards the same model stream; what an idle
//! conversation costs in memory, and how long one takes to wake.
//!
//! [`load`] makes turns, [`proxy`] is the bare proxy, [`idle`] and [`wake`] look at conversations that rest.

mod idle;
mod load;
mod proxy;
mod wake;

use anyhow::Result;
use serde_json::{Value, json};

use load::Load;
pub(crate) use proxy::serve as proxy;

use crate::figures::{kib, micros, row};
use crate::process::{Folio, Process};

/// How often turns are measured.
const ROUNDS: usize = 3;
/// Deltas of one answer.
const DELTAS: usize = 50;

/// Turns beside the proxy; with `memory` idle conversations too.
pub(crate) async fn measure(memory: bool) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("script.yaml");
    std::fs::write(&script, script_text())?;
    let sim = Process::start(
        "llm-sim",
        &["--listen", "127.0.0.1:0", "--record", "0", "--script", &script.to_string_lossy()],
        &[],
    )?;

    let (bare, whole) = turns(&sim.address).await?;
    let ratio = whole.cpu_per_turn.as_secs_f64() / bare.cpu_per_turn.as_secs_f64();
    eprintln!("\n{:<44}{:>14}{:>14}", "turn of one model call, 50 deltas", "bare proxy", "folio");
    row("turns per second", &format!("{:.0}", bare.turns_per_second), &format!("{:.0}", whole.turns_per_second));
    row("CPU per turn", &micros(bare.cpu_per_turn), &micros(whole.cpu_per_turn));
    row("latency p50", &micros(bare.p50), &micros(whole.p50));
    row("latency p99", &micros(bare.p99), &micros(whole.p99));
    row("CPU, times the bare proxy's (aim: at most 2)", "1", &format!("{ratio:.2}"));
    if !memory {
        return Ok(());
    }
    let idle = [idle::run(&sim.address, 10_000).await?, idle::run(&sim.address, 100_000).await?];
    let wake = wake::run(&sim.address, 500).await?;
    for idle in &idle {
        row(&format!("memory per idle conversation, {} of them", idle.conversations), "", &kib(idle.bytes_each));
        row("  of it the texts of its messages", "", &kib(idle.message_bytes_each));
        row("  beside them (aim: 16 KiB)", "", &kib(idle.bytes_each - idle.message_bytes_each));
    }
    row("wake of a passivated conversation, p50", "", &micros(wake.p50));
    row("wake of a passivated conversation, p99 (aim: 8 ms)", "", &micros(wake.p99));
    println!("{}", report(&bare, &whole, ratio, &idle, &wake));
    Ok(())
}

/// Proxy and server in turn, so that both see the same machine; of each the round whose CPU per turn is the median.
async fn turns(sim: &str) -> Result<(load::Figures, load::Figures)> {
    let load = Load { clients: 16, turns: 4_000 };
    let (mut bare, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let proxy = Process::start("bench", &["proxy", sim], &[])?;
        bare.push(load::run(&proxy, None, &load).await?);
        drop(proxy);
        let folio = Folio::start(sim, &[])?;
        whole.push(load::run(&folio.process, Some(&folio.token), &load).await?);
    }
    let median = |mut figures: Vec<load::Figures>| {
        figures.sort_by_key(|figures| figures.cpu_per_turn);
        figures.swap_remove(ROUNDS / 2)
    };
    Ok((median(bare), median(whole)))
}

fn report(
    bare: &load::Figures,
    whole: &load::Figures,
    ratio: f64,
    idle: &[idle::Figures],
    wake: &wake::Figures,
) -> Value {
    let turn = |figures: &load::Figures| {
        json!({
            "turns_per_second": figures.turns_per_second,
            "cpu_per_turn_microseconds": figures.cpu_per_turn.as_micros() as u64,
            "latency_p50_microseconds": figures.p50.as_micros() as u64,
            "latency_p99_microseconds": figures.p99.as_micros() as u64,
        })
    };
    let idle: Vec<_> = idle
        .iter()
        .map(|figures| {
            json!({
                "conversations": figures.conversations,
                "bytes_each": figures.bytes_each,
                "message_bytes_each": figures.message_bytes_each,
            })
        })
        .collect();
    json!({
        "turn": { "deltas": DELTAS, "bare_proxy": turn(bare), "folio": turn(whole), "cpu_ratio": ratio },
        "idle": idle,
        "wake": {
            "p50_microseconds": wake.p50.as_micros() as u64, "p99_microseconds": wake.p99.as_micros() as u64,
        },
    })
}

/// One rule for every message: an answer of [`DELTAS`] pieces, at once.
fn script_text() -> String {
    let words: String = (0..DELTAS).map(|_| "word ").collect();
    format!("rules:\n  - answer:\n      text: \"{}\"\n", words.trim_end())
}
