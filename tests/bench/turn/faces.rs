//! `cargo xtask bench turn --face FACE`: measures the CPU time of a turn over another protocol (a face of the gateway) relative to
//! gRPC: gRPC-Web, server-sent events of Connect, or the chat over REST. Also measures the memory of an open event stream.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Buf as _;
use folio_proto::v1;
use folio_proto::v1::event::Kind;
use folio_tests::harness::client::Client;
use folio_types::token::Token;
use prost::Message as _;
use serde_json::{Value, json};

use super::load::{self, Load};
use super::{ROUNDS, script_text};
use crate::client::{QUESTION, Turn, request, together, upload};
use crate::format::{Aims, kib, micros, row};
use crate::process::{Folio, memory, start_model};

/// Aim: maximum CPU time of a turn, as a multiple of that of a turn over gRPC.
const CPU_AIM: f64 = 1.2;
/// Number of concurrent event streams, each on a connection of its own.
const STREAMS: usize = 2_000;
const CHAT: &str = "/folio.v1.ConversationService/Chat";
const WATCH: &str = "/folio.v1.DocumentService/WatchDocument";

/// A protocol of the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Face {
    Grpc,
    GrpcWeb,
    /// A server stream of Connect.
    Sse,
    /// The document chat over REST.
    Rest,
}

impl Face {
    fn parse(name: &str) -> Result<Self> {
        Ok(match name {
            "grpc" => Self::Grpc,
            "grpc-web" => Self::GrpcWeb,
            "sse" => Self::Sse,
            "rest" => Self::Rest,
            _ => bail!("unknown face {name:?}: expected grpc, grpc-web, sse or rest"),
        })
    }
}

/// A client that calls a face, with its own connection.
pub(super) enum Caller {
    Grpc(Box<Client>),
    Http { face: Face, client: reqwest::Client, url: String, token: String },
}

impl Caller {
    pub(super) async fn connect(folio: &Folio, face: Face) -> Self {
        match face {
            Face::Grpc => Self::Grpc(Box::new(folio.client().await)),
            face => Self::Http {
                face,
                client: reqwest::Client::new(),
                url: folio.process.url(),
                token: folio.token().to_owned(),
            },
        }
    }

    /// Runs one turn to its end.
    pub(super) async fn chat(&self, document: &str, thread: &str) -> Result<Turn> {
        let (face, client, url, token) = match self {
            Self::Grpc(client) => return crate::client::chat(client, document, thread).await,
            Self::Http { face, client, url, token } => (*face, client, url, token),
        };
        if face == Face::Rest {
            return rest_chat((client, url.as_str(), token.as_str()), document, thread).await;
        }
        let message = request(document, thread, QUESTION);
        let call = client.post(format!("{url}{CHAT}")).bearer_auth(token);
        if face == Face::GrpcWeb {
            let body = framed(&message);
            let response = call.header("content-type", "application/grpc-web+proto").body(body).send().await?;
            return ended(thread, events_of_frames(&response.bytes().await?)?);
        }
        let body = json!({ "text": message.text, "thread_id": thread, "document_ids": message.document_ids });
        let response = call.json(&body).send().await?;
        ended(thread, events_of_text(&response.text().await?)?)
    }
}

/// Runs one turn over REST, in this thread, or in a new one for an empty id.
async fn rest_chat((client, url, token): (&reqwest::Client, &str, &str), document: &str, thread: &str) -> Result<Turn> {
    let org = token.parse::<Token>()?.org().clone();
    let path = format!("{url}/v0/orgs/{org}/documents/{document}/chat");
    let thread = if thread.is_empty() {
        let created = client.post(format!("{path}/threads")).bearer_auth(token).json(&json!({})).send().await?;
        let created: Value = serde_json::from_str(&created.error_for_status()?.text().await?)?;
        created["thread_id"].as_str().context("a thread without an id")?.to_owned()
    } else {
        thread.to_owned()
    };
    let messages = json!([{ "role": "user", "content": QUESTION }]);
    let body = json!({ "messages": messages, "stream": true, "thread_id": thread });
    let response = client.post(path).bearer_auth(token).json(&body).send().await?;
    ended(&thread, frames_of_text(&response.text().await?)?)
}

/// Returns the frame of gRPC-Web with a message.
fn framed(message: &impl prost::Message) -> Vec<u8> {
    let encoded = message.encode_to_vec();
    let length = u32::try_from(encoded.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&[0], length.as_slice(), &encoded].concat()
}

/// The thread and the size of the answer, as the events state them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ended {
    thread: Option<String>,
    answer_bytes: Option<usize>,
}

fn ended(thread: &str, ended: Ended) -> Result<Turn> {
    let answer_bytes = ended.answer_bytes.context("the stream ended without a completed turn")?;
    let thread = ended.thread.unwrap_or_else(|| thread.to_owned());
    Ok(Turn { thread, message_bytes: (QUESTION.len() + answer_bytes) as u64 })
}

/// Reads the frames of gRPC-Web. The last frame contains the trailers.
fn events_of_frames(mut body: &[u8]) -> Result<Ended> {
    let mut found = Ended::default();
    while body.len() >= 5 {
        let (flags, length) = (body.get_u8(), body.get_u32() as usize);
        let frame = body.get(..length).context("a frame is cut")?;
        if flags & 0x80 == 0 {
            match v1::ChatResponse::decode(frame)?.event.and_then(|event| event.kind) {
                Some(Kind::TurnStarted(started)) => found.thread = Some(started.thread_id),
                Some(Kind::Completed(completed)) => found.answer_bytes = Some(completed.text.len()),
                _ => {}
            }
        }
        body.advance(length);
    }
    Ok(found)
}

/// Reads server-sent events.
fn events_of_text(body: &str) -> Result<Ended> {
    let mut found = Ended::default();
    for data in body.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let data: Value = serde_json::from_str(data)?;
        if let Some(thread) = data.pointer("/event/turn_started/thread_id").and_then(Value::as_str) {
            found.thread = Some(thread.to_owned());
        }
        if let Some(text) = data.pointer("/event/completed/text").and_then(Value::as_str) {
            found.answer_bytes = Some(text.len());
        }
    }
    Ok(found)
}

/// Reads the frames of the document chat.
fn frames_of_text(body: &str) -> Result<Ended> {
    let mut found = Ended::default();
    for data in body.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let data: Value = serde_json::from_str(data)?;
        if data["type"] == "done" {
            found.answer_bytes = data.pointer("/result/text").and_then(Value::as_str).map(str::len);
        }
    }
    Ok(found)
}

/// Measures turns over a face and over gRPC, and prints the comparison. For server-sent events, also measures the memory of streams.
pub(crate) async fn measure(name: &str) -> Result<()> {
    let face = Face::parse(name)?;
    let folder = tempfile::tempdir()?;
    let endpoint = start_model(folder.path(), &script_text())?;
    let load = Load { clients: 16, turns: 4_000 };
    let (mut grpc, mut other) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for (face, measured) in [(Face::Grpc, &mut grpc), (face, &mut other)] {
            measured.push(load::of_face(&Folio::start(&endpoint.url(), &[])?, &load, face).await?.cpu_per_turn);
        }
    }
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times.swap_remove(ROUNDS / 2)
    };
    let (grpc, other) = (median(grpc), median(other));
    let ratio = other.as_secs_f64() / grpc.as_secs_f64();
    let mut aims = Aims::default();
    eprintln!("\n{:<60}{:>14}{name:>14}", "turn of one model call, 50 deltas", "grpc");
    row("CPU per turn", &micros(grpc), &micros(other));
    aims.row("CPU, times that over grpc (aim: at most 1.2)", "1", &format!("{ratio:.2}"), ratio <= CPU_AIM);
    let stream_bytes = if face == Face::Sse { Some(stream_bytes(&endpoint.url()).await?) } else { None };
    if let Some(bytes) = stream_bytes {
        row(&format!("memory per event stream, {STREAMS} of them"), "", &kib(bytes));
    }
    let report = json!({
        "face": name,
        "cpu_per_turn_microseconds": { "grpc": grpc.as_micros() as u64, "face": other.as_micros() as u64 },
        "cpu_ratio": ratio,
        "stream_bytes": stream_bytes,
        "missed": aims.missed(),
    });
    println!("{report}");
    aims.finish()
}

/// Returns the memory that an open event stream of a document adds, in bytes.
async fn stream_bytes(model_endpoint: &str) -> Result<f64> {
    let settings = [
        ("FOLIO_GATEWAY__CONNECTIONS", "4096"),
        ("FOLIO_GATEWAY__CONNECTIONS_PER_ORGANIZATION", "4096"),
        ("FOLIO_GATEWAY__UNAUTHENTICATED_CONNECTIONS", "4096"),
        ("FOLIO_GATEWAY__UNAUTHENTICATED_CONNECTIONS_PER_ADDRESS", "4096"),
        ("FOLIO_GATEWAY__LONG_CALLS_PER_USER", "4096"),
        ("FOLIO_GATEWAY__LONG_CALLS_PER_ORGANIZATION", "4096"),
    ];
    let folio = Folio::start(model_endpoint, &settings)?;
    let document = upload(&folio.client().await).await;
    let (url, token) = (format!("{}{WATCH}", folio.process.url()), folio.token().to_owned());
    let open = |count: usize| {
        let tasks = (0..count).map(|_| {
            let call = reqwest::Client::new().post(&url).bearer_auth(&token).json(&json!({ "document_id": document }));
            async move {
                let mut response = call.send().await?;
                ensure!(response.status().is_success(), "{}", response.status());
                // The first event has arrived: the stream is open.
                response.chunk().await?;
                Ok(response)
            }
        });
        together(tasks.collect::<Vec<_>>())
    };
    // The first streams fill the pools of the allocator and of the runtime.
    drop(open(STREAMS / 10).await?);
    let before = memory(&folio.process)?;
    let streams = open(STREAMS).await?;
    let after = memory(&folio.process)?;
    drop(streams);
    Ok(after.saturating_sub(before) as f64 / STREAMS as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_frame_of_a_chat_states_its_answer() {
        let text = "id: 1\ndata: {\"type\":\"assistant_text_chunk\",\"chunk\":\"fo\"}\n\n: ping\n\n\
                    data: {\"type\":\"done\",\"result\":{\"text\":\"four\"}}\n\n";
        assert_eq!(frames_of_text(text).unwrap(), Ended { thread: None, answer_bytes: Some(4) });
        assert!(ended("thr_1", frames_of_text("data: {\"type\":\"error\"}\n\n").unwrap()).is_err());
    }

    #[test]
    fn both_forms_of_a_stream_state_the_same_outcome() {
        let event = |kind: Kind| v1::ChatResponse { event: Some(v1::Event { kind: Some(kind), ..Default::default() }) };
        let started = event(Kind::TurnStarted(v1::TurnStarted { thread_id: "thr_1".into(), ..Default::default() }));
        let completed = event(Kind::Completed(v1::Completed { text: "four".into(), ..Default::default() }));
        let trailers = [&[0x80, 0, 0, 0, 3][..], b"a:b"].concat();
        let frames = [framed(&started), framed(&completed), trailers].concat();
        let text = "data: {\"event\":{\"turn_started\":{\"thread_id\":\"thr_1\"}}}\n\n: ping\n\n\
                    data: {\"event\":{\"completed\":{\"text\":\"four\"}}}\n\nevent: end\ndata: {}\n\n";
        let expected = Ended { thread: Some("thr_1".into()), answer_bytes: Some(4) };
        assert_eq!(events_of_frames(&frames).unwrap(), expected);
        assert_eq!(events_of_text(text).unwrap(), expected);
    }
}
