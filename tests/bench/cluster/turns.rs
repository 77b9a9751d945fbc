//! Turns per second, and the latency that a turn adds to its model call.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use folio_proto::v1;
use futures::StreamExt as _;
use serde_json::json;

use super::processes::Cluster;
use crate::client::{QUESTION, chat, request, together, upload};
use crate::format::Percentiles;

/// Latencies to the first delta of the answer and to its end.
pub(crate) struct Latencies {
    pub(crate) first: Percentiles,
    pub(crate) whole: Percentiles,
}

impl Latencies {
    fn of(times: Vec<(Duration, Duration)>) -> Self {
        let (first, whole) = times.into_iter().unzip();
        Self { first: Percentiles::of(first), whole: Percentiles::of(whole) }
    }
}

/// Returns the turns per second of this number of clients without pauses, each with its own thread.
pub(crate) async fn per_second(cluster: &Cluster, clients: usize, turns: usize) -> Result<f64> {
    let document = upload(&cluster.client(0).await).await;
    let mut tasks = Vec::new();
    for number in 0..clients {
        let (client, document) = (cluster.client(number).await, document.clone());
        tasks.push(async move {
            let mut thread = String::new();
            for _ in 0..turns / clients {
                thread = chat(&client, &document, &thread).await?.thread;
            }
            anyhow::Ok(())
        });
    }
    let began = Instant::now();
    together(tasks).await?;
    Ok((turns / clients * clients) as f64 / began.elapsed().as_secs_f64())
}

/// Returns latencies of sequential turns on idle threads: no turn waits for another one.
pub(crate) async fn latencies(cluster: &Cluster, threads: usize, turns: usize) -> Result<Latencies> {
    let document = upload(&cluster.client(0).await).await;
    let mut clients = Vec::new();
    for number in 0..threads {
        let client = cluster.client(number).await;
        let thread = chat(&client, &document, "").await?.thread;
        clients.push((client, thread));
    }
    let mut times = Vec::new();
    for _ in 0..turns.div_ceil(threads) {
        for (client, thread) in &clients {
            let began = Instant::now();
            let mut stream = client.conversations.clone().chat(request("", thread, QUESTION)).await?.into_inner();
            let mut first = None;
            while let Some(item) = stream.message().await? {
                match item.event.and_then(|event| event.kind) {
                    Some(v1::event::Kind::TextDelta(_)) => {
                        first.get_or_insert_with(|| began.elapsed());
                    }
                    Some(v1::event::Kind::Failed(failed)) => anyhow::bail!("the turn failed: {failed:?}"),
                    _ => {}
                }
            }
            times.push((first.context("no text")?, began.elapsed()));
        }
    }
    Ok(Latencies::of(times))
}

/// Returns the latencies of the model endpoint alone.
pub(crate) async fn of_the_model(endpoint: &str, calls: usize) -> Result<Latencies> {
    let (http, url) = (reqwest::Client::new(), format!("{endpoint}/v1/chat/completions"));
    let body = json!({ "model": "sim", "stream": true, "messages": [{ "role": "user", "content": QUESTION }] });
    let mut times = Vec::new();
    for _ in 0..calls {
        let began = Instant::now();
        let mut bytes = http.post(&url).json(&body).send().await?.error_for_status()?.bytes_stream();
        let mut first = None;
        while let Some(chunk) = bytes.next().await {
            chunk?;
            first.get_or_insert_with(|| began.elapsed());
        }
        times.push((first.context("the stream is empty")?, began.elapsed()));
    }
    Ok(Latencies::of(times))
}
