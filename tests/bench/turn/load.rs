//! Turns per second, CPU per turn, latency.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use folio_proto::v1;
use folio_proto::v1::conversation_service_client::ConversationServiceClient;
use folio_proto::v1::document_service_client::DocumentServiceClient;
use tonic::Request;
use tonic::transport::Channel;

use crate::percentile;
use crate::process::Process;

/// How much load.
pub(crate) struct Load {
    /// Clients, each with a thread (and a connection) of its own.
    pub(crate) clients: usize,
    /// Turns in all.
    pub(crate) turns: usize,
}

/// What was measured.
pub(crate) struct Figures {
    pub(crate) turns_per_second: f64,
    pub(crate) cpu_per_turn: Duration,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

/// Runs the load against a server: some turns to warm up, then the measured ones.
pub(crate) async fn run(server: &Process, token: Option<&str>, load: &Load) -> Result<Figures> {
    let each = load.turns / load.clients;
    round(server, token, load.clients, each / 10 + 1).await?;
    let (cpu, began) = (server.cpu()?, Instant::now());
    let mut latencies = round(server, token, load.clients, each).await?;
    let (elapsed, cpu) = (began.elapsed(), server.cpu()? - cpu);
    latencies.sort();
    let turns = latencies.len();
    Ok(Figures {
        turns_per_second: turns as f64 / elapsed.as_secs_f64(),
        cpu_per_turn: cpu / u32::try_from(turns)?,
        p50: percentile(&latencies, 0.50),
        p99: percentile(&latencies, 0.99),
    })
}

async fn round(server: &Process, token: Option<&str>, clients: usize, turns: usize) -> Result<Vec<Duration>> {
    let document = match token {
        Some(token) => Some(upload(server, token).await?),
        None => None,
    };
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..clients {
        let (address, token, document) = (server.address.clone(), token.map(str::to_owned), document.clone());
        tasks.spawn(async move { client(&address, token.as_deref(), document, turns).await });
    }
    let mut latencies = Vec::with_capacity(clients * turns);
    while let Some(done) = tasks.join_next().await {
        latencies.extend(done??);
    }
    Ok(latencies)
}

async fn client(address: &str, token: Option<&str>, document: Option<String>, turns: usize) -> Result<Vec<Duration>> {
    let mut client = ConversationServiceClient::new(connect(address).await?);
    let mut thread = String::new();
    let mut latencies = Vec::with_capacity(turns);
    for _ in 0..turns {
        let began = Instant::now();
        thread = chat(&mut client, token, document.as_ref(), &thread).await?.thread;
        latencies.push(began.elapsed());
    }
    Ok(latencies)
}

/// A channel to `http://HOST:PORT` or `HOST:PORT`.
pub(crate) async fn connect(address: &str) -> Result<Channel> {
    let url = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
    Ok(tonic::transport::Endpoint::from_shared(url)?.connect().await?)
}

/// A turn that was completed.
pub(crate) struct Turn {
    pub(crate) thread: String,
    /// The texts of its messages.
    pub(crate) message_bytes: u64,
}

const QUESTION: &str = "go on";

/// One turn to its end.
pub(crate) async fn chat(
    client: &mut ConversationServiceClient<Channel>,
    token: Option<&str>,
    document: Option<&String>,
    thread: &str,
) -> Result<Turn> {
    let request = v1::ChatRequest {
        text: QUESTION.to_owned(),
        thread_id: thread.to_owned(),
        document_ids: if thread.is_empty() { document.cloned().into_iter().collect() } else { Vec::new() },
        ..v1::ChatRequest::default()
    };
    let mut stream = client.chat(authorized(token, request)?).await?.into_inner();
    let mut thread = thread.to_owned();
    let mut completed = token.is_none();
    let mut answer_bytes = 0;
    while let Some(item) = stream.message().await? {
        match item.event.and_then(|event| event.kind) {
            Some(v1::event::Kind::TurnStarted(started)) => thread = started.thread_id,
            Some(v1::event::Kind::Completed(ended)) => {
                completed = true;
                answer_bytes = ended.text.len();
            }
            Some(v1::event::Kind::Failed(failed)) => anyhow::bail!("the turn failed: {failed:?}"),
            _ => {}
        }
    }
    anyhow::ensure!(completed, "the stream ended without a completed turn");
    Ok(Turn { thread, message_bytes: (QUESTION.len() + answer_bytes) as u64 })
}

/// A request that shows the token, where there is one.
pub(crate) fn authorized<T>(token: Option<&str>, message: T) -> Result<Request<T>> {
    let mut request = Request::new(message);
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse()?);
    }
    Ok(request)
}

/// Uploads a short text and waits until it is read; gives its id.
pub(crate) async fn upload(server: &Process, token: &str) -> Result<String> {
    let mut client = DocumentServiceClient::new(connect(&server.address).await?);
    let description = v1::DocumentDescription { name: "bench.txt".to_owned(), ..v1::DocumentDescription::default() };
    let parts = [
        v1::upload_document_request::Part::Description(description),
        v1::upload_document_request::Part::Chunk(b"Invoice Number: 1\nTotal: 2.00 EUR\n".to_vec()),
    ]
    .map(|part| v1::UploadDocumentRequest { part: Some(part) });
    let answer = client.upload_document(authorized(Some(token), tokio_stream::iter(parts))?).await?.into_inner();
    let mut document = answer.document.context("no document")?;
    while !matches!(document.state(), v1::DocumentState::Ready | v1::DocumentState::Failed | v1::DocumentState::NoText)
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let request = v1::GetDocumentRequest { document_id: document.document_id.clone() };
        document = client
            .get_document(authorized(Some(token), request)?)
            .await?
            .into_inner()
            .document
            .context("no document")?;
    }
    Ok(document.document_id)
}
