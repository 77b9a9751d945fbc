//! Turns per second, and the latency that a turn adds to its model call.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use folio_proto::v1;
use folio_proto::v1::conversation_service_client::ConversationServiceClient;
use futures::StreamExt as _;
use serde_json::json;

use super::processes::Cluster;
use crate::client::{authorized, chat, connect, upload};
use crate::format::percentile;

/// Latencies to the first delta of the answer and to its end.
#[derive(Default)]
pub(crate) struct Latencies {
    first: Vec<Duration>,
    whole: Vec<Duration>,
}

/// Percentiles of [`Latencies`].
pub(crate) struct Percentiles {
    pub(crate) first_p50: Duration,
    pub(crate) first_p99: Duration,
    pub(crate) whole_p50: Duration,
    pub(crate) whole_p99: Duration,
}

impl Latencies {
    fn percentiles(mut self) -> Percentiles {
        self.first.sort();
        self.whole.sort();
        Percentiles {
            first_p50: percentile(&self.first, 0.50),
            first_p99: percentile(&self.first, 0.99),
            whole_p50: percentile(&self.whole, 0.50),
            whole_p99: percentile(&self.whole, 0.99),
        }
    }
}

/// Returns the turns per second of this number of clients without pauses, each with its own thread.
pub(crate) async fn per_second(cluster: &Cluster, clients: usize, turns: usize) -> Result<f64> {
    let document = upload(cluster.gateway(0), &cluster.token).await?;
    let mut tasks = tokio::task::JoinSet::new();
    let began = Instant::now();
    for number in 0..clients {
        let (address, token, document) = (cluster.gateway(number).to_owned(), cluster.token.clone(), document.clone());
        tasks.spawn(async move {
            let mut client = ConversationServiceClient::new(connect(&address).await?);
            let mut thread = String::new();
            for _ in 0..turns / clients {
                thread = chat(&mut client, Some(&token), Some(&document), &thread).await?.thread;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok((turns / clients * clients) as f64 / began.elapsed().as_secs_f64())
}

/// Returns latencies of sequential turns on idle threads: no turn waits for another one.
pub(crate) async fn latencies(cluster: &Cluster, threads: usize, turns: usize) -> Result<Percentiles> {
    let document = upload(cluster.gateway(0), &cluster.token).await?;
    let mut clients = Vec::new();
    for number in 0..threads {
        let mut client = ConversationServiceClient::new(connect(cluster.gateway(number)).await?);
        let thread = chat(&mut client, Some(&cluster.token), Some(&document), "").await?.thread;
        clients.push((client, thread));
    }
    let mut latencies = Latencies::default();
    for _ in 0..turns.div_ceil(threads) {
        for (client, thread) in &mut clients {
            let request =
                v1::ChatRequest { thread_id: thread.clone(), text: "go on".to_owned(), ..v1::ChatRequest::default() };
            let began = Instant::now();
            let mut stream = client.chat(authorized(Some(&cluster.token), request)?).await?.into_inner();
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
            latencies.first.push(first.context("no text")?);
            latencies.whole.push(began.elapsed());
        }
    }
    Ok(latencies.percentiles())
}

/// Returns the latencies of the model endpoint alone.
pub(crate) async fn of_the_model(endpoint: &str, calls: usize) -> Result<Percentiles> {
    let (http, url) = (reqwest::Client::new(), format!("{endpoint}/v1/chat/completions"));
    let body = json!({ "model": "sim", "stream": true, "messages": [{ "role": "user", "content": "go on" }] });
    let mut latencies = Latencies::default();
    for _ in 0..calls {
        let began = Instant::now();
        let mut bytes = http.post(&url).json(&body).send().await?.error_for_status()?.bytes_stream();
        let mut first = None;
        while let Some(chunk) = bytes.next().await {
            chunk?;
            first.get_or_insert_with(|| began.elapsed());
        }
        latencies.first.push(first.context("the stream is empty")?);
        latencies.whole.push(began.elapsed());
    }
    Ok(latencies.percentiles())
}
