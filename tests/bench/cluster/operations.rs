//! Store operations per turn, by kind of turn.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use folio_tests::harness::client::Client;

use super::processes::Cluster;
use crate::client::{QUESTION, chat, request, upload};

/// Prefix of the counted metrics. Their labels are `server` and `kind`.
const CALLS: &str = "folio_store_calls_total{";
/// Time for which background operations are counted, and minimum time for turns of a kind. A sweep for open turns reads some
/// hundred rows at once. The period contains twelve of them, so that one more or less changes the result by little.
const PERIOD: Duration = Duration::from_secs(60);
/// Number of turns while background operations are counted, at equal intervals. A sweep also reads each interval of ten seconds
/// in which a turn began, so without turns the count would omit these reads.
const BACKGROUND_TURNS: u32 = 12;
/// Maximum number of turns of a kind, unless more are requested. A thread has at most 2,000 turns.
const TURNS_MAX: usize = 1_900;

pub(crate) struct Measurements {
    pub(crate) kind: &'static str,
    /// Operations of a turn by the labels of their metric.
    pub(crate) operations: BTreeMap<String, f64>,
    /// Maximum number of operations of CQL and of Redis.
    pub(crate) aims: [Option<f64>; 2],
}

impl Measurements {
    /// Returns the operations that were sent to a server.
    pub(crate) fn of_server(&self, server: &str) -> f64 {
        let label = format!("server=\"{server}\"");
        self.operations.iter().filter(|(labels, _)| labels.contains(&label)).map(|(_, count)| count).sum()
    }
}

/// Returns the number of operations so far, by the labels of their metric.
async fn count(cluster: &Cluster) -> Result<BTreeMap<String, f64>> {
    let mut counts = BTreeMap::new();
    for (name, value) in cluster.metrics().await? {
        if let Some(labels) = name.strip_prefix(CALLS) {
            *counts.entry(labels.trim_end_matches('}').to_owned()).or_default() += value as f64;
        }
    }
    anyhow::ensure!(!counts.is_empty(), "no metric starts with {CALLS}");
    Ok(counts)
}

/// Returns the operations between two counts.
fn between(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    after.iter().map(|(labels, count)| (labels.clone(), count - before.get(labels).unwrap_or(&0.0))).collect()
}

/// Returns the operations of a turn: the counted ones without the background operations, divided by the number of turns.
fn per_turn(
    counted: &BTreeMap<String, f64>,
    background: &BTreeMap<String, f64>,
    (share, turns): (f64, f64),
) -> BTreeMap<String, f64> {
    let of_turn = |labels: &String, count: &f64| (count - background.get(labels).unwrap_or(&0.0) * share) / turns;
    counted.iter().map(|(labels, count)| (labels.clone(), of_turn(labels, count))).collect()
}

/// Counts the operations of at least `turns` sequential turns of each kind and subtracts the background operations.
pub(crate) async fn run(cluster: &Cluster, turns: usize) -> Result<Vec<Measurements>> {
    let client = cluster.client(0).await;
    let document = upload(&client).await;
    let thread = chat(&client, &document, "").await?.thread;

    let before = count(cluster).await?;
    let mut interval = tokio::time::interval(PERIOD / BACKGROUND_TURNS);
    for number in 0..BACKGROUND_TURNS {
        interval.tick().await;
        turn(&client, &document, &thread, QUESTION, number as usize).await?;
    }
    interval.tick().await;
    let mut background = between(&before, &count(cluster).await?);
    // Of the answers in `background`, which are subtracted when the operations of an answer are known.
    let mut answers = f64::from(BACKGROUND_TURNS);

    let mut measurements = Vec::new();
    for (kind, prompt, aims) in [
        ("answer", QUESTION, [Some(8.0), Some(4.0)]),
        ("one round of a read-only tool, answer", "read", [None; 2]),
        ("one write tool, approved", "write", [Some(20.0), Some(8.0)]),
        ("one write tool, approved, in a new thread", "new", [None; 2]),
        ("one write tool, cancelled", "cancel", [None; 2]),
    ] {
        let thread = chat(&client, &document, "").await?.thread;
        let (before, began) = (count(cluster).await?, std::time::Instant::now());
        let mut number = 0;
        while number < turns || (number < TURNS_MAX && began.elapsed() < PERIOD) {
            let named = if prompt == "new" { "" } else { thread.as_str() };
            turn(&client, &document, named, prompt, number).await?;
            number += 1;
        }
        let counted = between(&before, &count(cluster).await?);
        let share = began.elapsed().as_secs_f64() / PERIOD.as_secs_f64();
        // The first kind is the answer.
        let mut operations = per_turn(&counted, &background, (share, number as f64 - answers * share));
        if answers > 0.0 {
            for (labels, count) in &operations {
                *background.entry(labels.clone()).or_default() -= count * answers;
            }
            answers = 0.0;
        }
        operations.retain(|_, count| count.abs() >= 0.05);
        measurements.push(Measurements { kind, operations, aims });
    }
    Ok(measurements)
}

async fn turn(client: &Client, document: &str, thread: &str, prompt: &str, number: usize) -> Result<()> {
    if matches!(prompt, QUESTION | "read") {
        client.send(request(document, thread, prompt)).await?.end().await;
        return Ok(());
    }
    let waiting = client.send(request(document, thread, &format!("write {prompt} {number}"))).await?.pause().await;
    if prompt == "cancel" {
        client.cancel(&waiting.turn_id).await?;
    } else {
        client.approve_all(&waiting).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operations_of_a_turn_do_not_contain_those_of_the_background() {
        let count = |value: f64| BTreeMap::from([("reads".to_owned(), value)]);
        // 10 operations per second in the background and 8 of each turn: 12 turns in a minute, then 100 in half a minute.
        let (background, counted) = (count(600.0 + 12.0 * 8.0), count(300.0 + 100.0 * 8.0));
        assert_eq!(per_turn(&counted, &background, (0.5, 100.0 - 12.0 * 0.5)), count(8.0));
    }
}
