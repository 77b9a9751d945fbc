//! The client against endpoints: llm-sim with its faults, and a raw server for malformed responses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod answers;
mod bounds;
mod discovery;
mod faults;
mod health;
mod images;
mod raw;
mod refusals;
mod retrieval;

use std::sync::Arc;
use std::time::Duration;

use folio_llm::{
    ModelError, ModelEvent, ModelKind, ModelOptions, ModelReply, ModelRequest, ModelStream, Models, OpenAiModels,
    Options,
};
use folio_testkit::{Simulated, seed};
use folio_types::message::Message;
use folio_types::{OrgId, Secret};
use futures::StreamExt as _;
use llm_sim::{FaultPlan, LlmSim, Outcome, Script};

const LIMIT: Duration = Duration::from_secs(20);
const KEY: &str = "sk-test-abcdefghijklmnop";

/// Settings for an endpoint at this URL: short waits, circuit breaker disabled.
fn options(url: &str) -> Options {
    let mut options = Options::openai(Secret::new(KEY), Some(url), Some("scripted"));
    let provider = options.providers.get_mut("openai").unwrap();
    for (name, kind) in [("vectors", ModelKind::Embedding), ("rates", ModelKind::Rerank)] {
        provider.models.insert(name.to_owned(), ModelOptions { kind, ..ModelOptions::default() });
    }
    options.retries.retries = 2;
    options.retries.base_seconds = Duration::from_millis(2);
    options.breaker.failures = 0;
    options.timeouts.first_token_seconds = Duration::from_millis(10_000);
    options.timeouts.between_tokens_seconds = Duration::from_millis(10_000);
    options.timeouts.call_seconds = Duration::from_millis(15_000);
    options
}

fn client(url: &str, change: impl FnOnce(&mut Options)) -> (OpenAiModels, Arc<Simulated>) {
    let environment = Arc::new(Simulated::new(seed()));
    let mut options = options(url);
    change(&mut options);
    (OpenAiModels::new(options, Arc::<Simulated>::clone(&environment)).unwrap(), environment)
}

fn models(url: &str) -> OpenAiModels {
    client(url, |_| {}).0
}

async fn sim(script: Script) -> LlmSim {
    LlmSim::builder().script(script).start().await.unwrap()
}

/// Starts an endpoint with these faults that answers with a text of several chunks.
async fn faulty(plan: FaultPlan) -> LlmSim {
    let sim = sim(Script::always("The total of this invoice is 1,234.50 EUR, due on 3 March.")).await;
    sim.set_faults(plan);
    sim
}

fn org() -> OrgId {
    OrgId::derive(&["acme"])
}

fn request() -> ModelRequest {
    let messages = vec![Message::user("What is the total?")];
    ModelRequest {
        call_id: "turn.1".into(),
        system: "Be brief.".into(),
        ..ModelRequest::new(org(), "scripted", messages)
    }
}

struct Received {
    text: String,
    thinking: String,
    end: Option<Result<ModelReply, ModelError>>,
}

async fn receive(stream: &mut ModelStream) -> Received {
    let mut received = Received { text: String::new(), thinking: String::new(), end: None };
    let all = async {
        while let Some(event) = stream.next().await {
            assert!(received.end.is_none(), "something after the end: {event:?}");
            match event {
                Ok(ModelEvent::Text(delta)) => received.text.push_str(&delta),
                Ok(ModelEvent::Thinking(delta)) => received.thinking.push_str(&delta),
                Ok(ModelEvent::Done(reply)) => received.end = Some(Ok(*reply)),
                Err(error) => received.end = Some(Err(error)),
            }
        }
    };
    tokio::time::timeout(LIMIT, all).await.expect("the stream ends");
    received
}

/// Makes a streaming call. The error includes the text that preceded it.
async fn streamed(models: &OpenAiModels) -> Result<ModelReply, (String, ModelError)> {
    let mut stream = models.stream(request()).await.map_err(|error| (String::new(), error))?;
    let received = receive(&mut stream).await;
    match received.end.expect("a last item") {
        Ok(reply) => {
            assert_eq!(received.text, reply.text, "the deltas are the whole text");
            Ok(reply)
        }
        Err(error) => Err((received.text, error)),
    }
}

/// Waits until the endpoint detected that the client closed its last request.
async fn closed_by_client(sim: &LlmSim) {
    let closed = |requests: &[llm_sim::RecordedRequest]| {
        requests.last().is_some_and(|request| request.outcome == Outcome::ClosedByClient)
    };
    sim.wait_until(LIMIT, closed).await.expect("the endpoint sees that the client left");
}
