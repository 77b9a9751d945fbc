//! A scripted model for tests.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use folio_llm::{
    Catalogue, ModelError, ModelEvent, ModelInfo, ModelReply, ModelRequest, ModelStream, Models, RawToolCall,
};
use folio_types::message::{FinishReason, ThinkingBlock, Usage};
use folio_types::models::ModelOptions;
use folio_types::{Error, OrgId, Reason};
use futures::StreamExt as _;
use serde_json::Value;
use tokio::sync::Semaphore;

pub(super) enum Step {
    /// Text, one delta per word.
    Say(String),
    /// Text, one delta per word, with a yield before each delta, as from a connection.
    SayWithYields(String),
    Call(Vec<(String, Value)>),
    /// Tool calls with these exact arguments.
    Raw(Vec<(String, String)>),
    /// Text, one delta per word, and then an error.
    Break(String, ModelError),
    /// Signed thinking with this text, and tool calls.
    Think(&'static str, Vec<&'static str>),
    /// An error instead of a stream.
    Fail(ModelError),
    /// Waits unsent for a permit until [`Script::release`]; then sends the request and plays the inner step.
    Queued(Box<Step>),
    /// A text delta, and then nothing until the request is cancelled.
    Hang,
    /// Sends the request, waits for [`Script::release`], and plays the inner step.
    Gated(Box<Step>),
}

pub(super) fn say(text: &str) -> Step {
    Step::Say(text.to_owned())
}

pub(super) fn call(name: &str, arguments: Value) -> Step {
    Step::Call(vec![(name.to_owned(), arguments)])
}

pub(super) fn calls(calls: &[(&str, Value)]) -> Step {
    Step::Call(calls.iter().map(|(name, arguments)| ((*name).to_owned(), arguments.clone())).collect())
}

pub(super) fn gated(step: Step) -> Step {
    Step::Gated(Box::new(step))
}

/// Context size of a model, in tokens.
const CONTEXT: u32 = 100_000;

pub(super) struct Script {
    steps: Mutex<VecDeque<Step>>,
    requests: Mutex<Vec<ModelRequest>>,
    gate: Arc<Semaphore>,
    open: Arc<AtomicUsize>,
    other_context: AtomicU32,
    fallbacks: Mutex<Vec<String>>,
    unaffordable: Mutex<Vec<String>>,
    /// Credits of each model call.
    price: AtomicU32,
    /// Number of reads of the catalogue that will fail.
    catalogue_failures: AtomicUsize,
}

struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Script {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            steps: Mutex::default(),
            requests: Mutex::default(),
            gate: Arc::new(Semaphore::new(0)),
            open: Arc::default(),
            other_context: AtomicU32::new(CONTEXT),
            fallbacks: Mutex::new(vec!["other".to_owned()]),
            unaffordable: Mutex::default(),
            price: AtomicU32::default(),
            catalogue_failures: AtomicUsize::new(0),
        })
    }

    pub(super) fn then(&self, steps: impl IntoIterator<Item = Step>) {
        self.steps.lock().unwrap().extend(steps);
    }

    pub(super) fn release(&self) {
        self.gate.add_permits(1);
    }

    pub(super) fn set_other_context(&self, tokens: u32) {
        self.other_context.store(tokens, Ordering::SeqCst);
    }

    pub(super) fn set_fallbacks(&self, names: &[&str]) {
        *self.fallbacks.lock().unwrap() = names.iter().map(|name| (*name).to_owned()).collect();
    }

    pub(super) fn make_unaffordable(&self, names: &[&str]) {
        *self.unaffordable.lock().unwrap() = names.iter().map(|name| (*name).to_owned()).collect();
    }

    pub(super) fn is_unaffordable(&self, name: &str) -> bool {
        self.unaffordable.lock().unwrap().iter().any(|unaffordable| unaffordable == name)
    }

    pub(super) fn set_price(&self, credits: u32) {
        self.price.store(credits, Ordering::SeqCst);
    }

    pub(super) fn price(&self) -> u64 {
        self.price.load(Ordering::SeqCst).into()
    }

    pub(super) fn fail_catalogue_once(&self) {
        self.catalogue_failures.store(1, Ordering::SeqCst);
    }

    pub(super) fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().unwrap().clone()
    }

    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    pub(super) fn drain(&self) {
        self.steps.lock().unwrap().clear();
    }

    pub(super) fn left(&self) -> usize {
        self.steps.lock().unwrap().len()
    }
}

fn usage() -> Usage {
    Usage { input_tokens: 10, output_tokens: 5, reported: true, model_calls: 1, ..Usage::default() }
}

fn reply(text: &str, calls: Vec<RawToolCall>) -> ModelEvent {
    let finish = if calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    ModelEvent::Done(Box::new(ModelReply {
        model: "scripted".to_owned(),
        text: text.to_owned(),
        thinking: vec![],
        calls,
        finish: Some(finish),
        usage: usage(),
    }))
}

fn play(step: Step, gate: Arc<Semaphore>) -> Result<ModelStream, ModelError> {
    let raw = |calls: Vec<(String, String)>| {
        let calls = calls.into_iter().map(|(name, arguments)| RawToolCall { id: "call_0".into(), name, arguments });
        futures::stream::iter([Ok(reply("", calls.collect()))]).boxed()
    };
    let words_then_reply = |text: &str| {
        let deltas = text.split_inclusive(' ').map(|word| Ok(ModelEvent::Text(word.to_owned())));
        futures::stream::iter(deltas.chain([Ok(reply(text, vec![]))]).collect::<Vec<_>>())
    };
    Ok(match step {
        Step::Say(text) => words_then_reply(&text).boxed(),
        Step::SayWithYields(text) => {
            let later = |item| async move {
                tokio::task::yield_now().await;
                item
            };
            words_then_reply(&text).then(later).boxed()
        }
        Step::Break(text, error) => {
            let deltas = text.split_inclusive(' ').map(|word| Ok(ModelEvent::Text(word.to_owned())));
            futures::stream::iter(deltas.chain([Err(error)]).collect::<Vec<_>>()).boxed()
        }
        Step::Think(text, tools) => {
            let ModelEvent::Done(mut answer) = reply("So.", vec![]) else { unreachable!() };
            let signature = Some("signed".to_owned());
            answer.thinking = vec![ThinkingBlock { text: text.to_owned(), signature, ..ThinkingBlock::default() }];
            let call = |name: &&str| RawToolCall { id: "call_0".into(), name: (*name).into(), arguments: "{}".into() };
            answer.calls = tools.iter().map(call).collect();
            futures::stream::iter([Ok(ModelEvent::Done(answer))]).boxed()
        }
        Step::Queued(step) => play(*step, gate)?,
        Step::Call(calls) => raw(calls.into_iter().map(|(name, arguments)| (name, arguments.to_string())).collect()),
        Step::Raw(calls) => raw(calls),
        Step::Fail(error) => return Err(error),
        Step::Hang => {
            futures::stream::iter([Ok(ModelEvent::Text("Well, ".to_owned()))]).chain(futures::stream::pending()).boxed()
        }
        Step::Gated(step) => {
            let inner = play(*step, gate.clone());
            let wait = async move { gate.acquire().await.unwrap().forget() };
            let inner = inner.unwrap_or_else(|error| futures::stream::iter([Err(error)]).boxed());
            futures::stream::once(wait).filter_map(|()| futures::future::ready(None)).chain(inner).boxed()
        }
    })
}

#[async_trait]
impl Models for Script {
    async fn catalogue(&self, _org: &OrgId) -> Result<Arc<Catalogue>, Error> {
        if self.catalogue_failures.swap(0, Ordering::SeqCst) > 0 {
            return Err(Error::unavailable(Reason::StoreUnavailable, "the catalogue cannot be read"));
        }
        let model = |name: &str, context_tokens| ModelInfo {
            name: name.to_owned(),
            provider: "test".to_owned(),
            options: ModelOptions {
                context_tokens,
                max_output_tokens: 4_000,
                vision: name == "scripted",
                ..ModelOptions::default()
            },
        };
        let fallbacks = self.fallbacks.lock().unwrap().clone();
        let mut models = vec![model("scripted", CONTEXT), model("other", self.other_context.load(Ordering::SeqCst))];
        models.extend(fallbacks.iter().filter(|name| *name != "other").map(|name| model(name, CONTEXT)));
        Ok(Arc::new(Catalogue::new(models, "scripted".to_owned(), fallbacks)))
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let step = self.steps.lock().unwrap().pop_front();
        let step = step.unwrap_or_else(|| panic!("the script has no answer to {:?}", request.messages.last()));
        let progress = request.progress.clone();
        self.requests.lock().unwrap().push(request);
        self.open.fetch_add(1, Ordering::SeqCst);
        let open = Open(self.open.clone());
        if matches!(step, Step::Queued(_)) {
            self.gate.acquire().await.unwrap().forget();
        }
        progress.set_sent(!matches!(&step, Step::Fail(error) if !error.is_possibly_charged()));
        let stream = play(step, self.gate.clone())?;
        Ok(stream
            .map(move |item| {
                let _ = &open;
                item
            })
            .boxed())
    }

    async fn complete(&self, _request: ModelRequest) -> Result<ModelReply, ModelError> {
        Err(ModelError::Failed("the script only streams".to_owned()))
    }
}
