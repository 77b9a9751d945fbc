//! Tools that panic or hang, actors that fail, and a store whose answers are lost.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use folio_history::journal::Access;
use folio_metering::{AbandonedCalls, MeteredCall, Settlement};
use folio_resources::Resource as _;
use folio_tools::{
    CallContext, Plan, ReadTool, Registry, Spellings, Tool, ToolError, ToolKind, ToolOutput, ToolSpec, WriteTool,
};
use folio_types::TagId;
use folio_types::message::Usage;
use folio_types::op::{OpKey, OpResult, OpState, Target};
use folio_types::profile::{
    DOCUMENT_PROFILE, DocumentRule, Profile, ProfileAnswer, ProfileLimits, ProfileTool, SubjectKind,
};
use serde_json::Value;

use super::crash::wait_for_end;
use super::flaky::Loss;
use super::*;

/// A tool that panics, hangs, calls a model, or measures concurrency, depending on its argument `do`.
struct FaultyTool {
    running: AtomicUsize,
    max_running: Arc<AtomicUsize>,
    /// Number of plans and of writes that failed with an error of the store.
    outage: [AtomicUsize; 2],
}

impl FaultyTool {
    /// Fails with an error in the first two plans and in the first five writes.
    fn fail_in_outage(&self, step: usize, error: Error) -> Result<(), ToolError> {
        let failures = self.outage[step].fetch_add(1, Ordering::SeqCst);
        if failures < [2, 5][step] { Err(ToolError::Failed(error)) } else { Ok(()) }
    }
}

/// Returns the error of a cause that ends some time later. None: the argument names no such cause.
fn passing_cause(arguments: &Value) -> Option<Error> {
    Some(match arguments["do"].as_str()? {
        "outage" => unreachable_store(),
        "contention" => Error::contended("the target has too many concurrent writes"),
        "overload" => Error::exhausted(Reason::StoreUnavailable, "too many writes are queued in the store"),
        "conflict" => Error::version_conflict("the target changed"),
        "overload of a model" => Error::exhausted(Reason::Overloaded, "the endpoint has too many calls"),
        _ => return None,
    })
}

/// The error of a store that does not answer.
fn unreachable_store() -> Error {
    Error::unavailable(Reason::StoreUnavailable, "the store is unreachable")
}

/// Makes a metered model call of 7 tokens.
async fn ask_model(context: &CallContext) -> Result<(), ToolError> {
    let call = MeteredCall {
        org: context.principal.org.clone(),
        user: context.principal.user.clone(),
        key: context.call.to_string(),
        operation: "odd",
        model: "scripted".to_owned(),
        prices: folio_types::models::ModelPrices::default(),
        document: None,
        input_tokens: 7,
        max_output_tokens: 7,
    };
    let permit = context.resources.meter.request_permit(call).await?;
    let used = Usage { input_tokens: 7, reported: true, model_calls: 1, ..Usage::default() };
    context.resources.meter.settle(permit, Settlement::Partial(used)).await?;
    Ok(())
}

#[async_trait]
impl ReadTool for FaultyTool {
    async fn run(&self, context: &CallContext, arguments: Value) -> Result<ToolOutput, ToolError> {
        match arguments["do"].as_str() {
            Some("panic") => panic!("the tool breaks"),
            Some("hang") => std::future::pending().await,
            Some("ask a model") => {
                ask_model(context).await?;
                Err(ToolError::ForModel("the model returned nothing".to_owned()))
            }
            _ => {
                let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
                self.max_running.fetch_max(running, Ordering::SeqCst);
                tokio::task::yield_now().await;
                self.running.fetch_sub(1, Ordering::SeqCst);
                Ok(ToolOutput::new(json!({ "text": "x".repeat(100_000) })))
            }
        }
    }
}

#[async_trait]
impl WriteTool for FaultyTool {
    async fn plan(&self, _: &CallContext, arguments: &Value) -> Result<Plan, ToolError> {
        if arguments["do"] == "panic early" {
            panic!("the plan breaks");
        }
        // A plan calls no model. The wait of a plan makes the whole wait long enough for a watcher that begins late.
        if let Some(error) = passing_cause(arguments).filter(|error| error.reason != Reason::Overloaded) {
            self.fail_in_outage(0, error)?;
        }
        let target = Tag::target(&TagId::derive(&["odd"]));
        Ok(Plan { target, expected: Expected::Absent, resolved: Value::Null })
    }

    async fn run(&self, context: &CallContext, arguments: &Value, _: &Plan) -> Result<ToolOutput, ToolError> {
        match arguments["do"].as_str() {
            Some("hang") => std::future::pending().await,
            Some("ask a model and hang") => {
                ask_model(context).await?;
                std::future::pending().await
            }
            Some("ask a model in an outage") => {
                ask_model(context).await?;
                self.fail_in_outage(1, unreachable_store())?;
                Ok(ToolOutput::new(json!({ "written": true })))
            }
            Some("refuse") => Err(ToolError::ForModel("the tag is in use".to_owned())),
            Some("lasting outage") => Err(ToolError::Failed(unreachable_store())),
            _ => {
                self.fail_in_outage(1, passing_cause(arguments).expect("the write breaks"))?;
                Ok(ToolOutput::new(json!({ "written": true })))
            }
        }
    }

    fn output(&self, _: &Target, _: OpResult, _: &Value) -> ToolOutput {
        ToolOutput::new(Value::Null)
    }
}

fn odd_tools() -> (Arc<Registry>, Arc<AtomicUsize>) {
    odd_tools_with(false)
}

fn odd_tools_with(calls_models: bool) -> (Arc<Registry>, Arc<AtomicUsize>) {
    let max_running = Arc::new(AtomicUsize::new(0));
    let spec = |name, access| ToolSpec { name, description: "odd", parameters: json!({"type": "object"}), access };
    let odd =
        || FaultyTool { running: AtomicUsize::new(0), max_running: max_running.clone(), outage: Default::default() };
    let tool = |spec, kind| Tool { spec, kind, calls_models, result_ids: &[], spellings: Spellings::default() };
    let read = tool(spec("odd_read", Access::ReadOnly), ToolKind::Read(Arc::new(odd())));
    let write = tool(spec("odd_write", Access::ReadWrite), ToolKind::Write(Arc::new(odd())));
    let profile = Profile {
        name: DOCUMENT_PROFILE,
        version: 1,
        documents: DocumentRule { min: 1, max: 1, media_types: &[] },
        subject: SubjectKind::Document,
        has_excerpt: true,
        instructions: "Be odd.",
        guide: "",
        tools: const { &[ProfileTool::runs("odd_read"), ProfileTool::waits("odd_write")] },
        limits: ProfileLimits { model_calls: 10, running_time: None, credit_budget: None },
        model: None,
        answer: ProfileAnswer::Text,
        graph: &[],
        has_own_usage: false,
        delegates: &[],
    };
    (Registry::new([read, write], vec![profile]).unwrap(), max_running)
}

#[tokio::test]
async fn output_before_a_models_refusal_is_charged() {
    let refused = ModelError::Refused { status: 400, message: "too long".to_owned() };
    for error in [ModelError::RateLimited { retry_after: None }, refused] {
        let sandbox = Sandbox::start().await;
        sandbox.models.then([Step::Break("one two three four".to_owned(), error.clone())]);
        let events = sandbox.run(sandbox.chat("x")).await;
        let EventKind::Failed { retriable, .. } = closing(&events) else { panic!("{events:?}") };
        assert_eq!(*retriable, matches!(error, ModelError::RateLimited { .. }));
        let usage = wait_for("the settlement", SOON, || async { sandbox.usage().await.pop() }).await;
        let used = usage.usage;
        assert!(!usage.completed && used.output_tokens > 0 && used.input_tokens > 0, "{error}: {usage:?}");
        sandbox.finish().await;
    }
}

fn short_timeouts() -> Options {
    Options {
        tool_timeout: Duration::from_secs(1),
        effect_patience: Duration::from_secs(2),
        read_calls_at_once: 2,
        ..Options::default()
    }
}

#[tokio::test]
async fn a_panic_or_timeout_of_a_tool_is_a_failed_result_and_a_long_result_is_truncated() {
    let (tools, max_running) = odd_tools();
    let sandbox = Sandbox::start_as(short_timeouts(), Some(tools), None, AbandonedCalls::Abort).await;
    let odd = |what: &str| ("odd_read", json!({ "do": what }));
    sandbox.models.then([calls(&[odd("panic"), odd("hang"), odd("a"), odd("b"), odd("c"), odd("d")]), say("Odd.")]);
    let events = sandbox.run(sandbox.chat("x")).await;
    let EventKind::Completed { rounds, .. } = closing(&events) else { panic!("{events:?}") };
    let results = &rounds[0].results;
    assert_eq!((results[0].status, results[1].status), (CallStatus::Failed, CallStatus::Failed));
    assert!(results[2..].iter().all(|result| result.status == CallStatus::Ok));
    let long = &results[2].content;
    assert!(long.len() <= limits::TOOL_RESULT_BYTES && long.contains("[truncated:"));
    assert!(max_running.load(Ordering::SeqCst) <= 2, "invariant 10");
    sandbox.finish().await;
}

#[tokio::test]
async fn the_usage_of_a_turn_includes_the_model_calls_of_its_tools() {
    let (tools, _) = odd_tools();
    let sandbox = Sandbox::start_as(Options::default(), Some(tools), None, AbandonedCalls::Abort).await;
    let ask = || ("odd_read", json!({ "do": "ask a model" }));
    sandbox.models.then([calls(&[ask(), ask()]), say("Odd.")]);
    let events = sandbox.run(sandbox.chat("x")).await;
    let EventKind::Completed { rounds, usage, .. } = closing(&events) else { panic!("{events:?}") };
    assert_eq!(rounds[0].results[0].status, CallStatus::Failed, "the result of the call is discarded");
    assert_eq!((usage.model_calls, usage.input_tokens), (4, 2 * 10 + 2 * 7));
    let recorded = sandbox.usage().await;
    assert_eq!(recorded.len(), 4, "one record per metered call");
    let view = sandbox.turn(&events[0].turn).await;
    assert_eq!(view.usage, *usage, "the journal contains the same usage");
    sandbox.finish().await;
}

#[tokio::test]
async fn the_usage_of_a_turn_includes_the_model_calls_of_a_cancelled_write() {
    let (tools, _) = odd_tools();
    let sandbox = Sandbox::start_as(Options::default(), Some(tools), None, AbandonedCalls::Abort).await;
    let (turn, pending) = sandbox.pause_at(call("odd_write", json!({ "do": "ask a model and hang" }))).await;
    let approval = sandbox.spawn_approve(approve_all(&turn, &pending));
    let is_settled = async || (sandbox.usage().await.len() == 2).then_some(());
    wait_for("the model call of the tool", SOON, is_settled).await;
    let ended = sandbox.conversations.cancel(&sandbox.principal, &turn).await.unwrap();
    assert_eq!((ended.status, ended.usage.model_calls, ended.usage.input_tokens), (TurnStatus::Cancelled, 2, 10 + 7));
    approval.await.unwrap().unwrap();
    assert_eq!(sandbox.turn(&turn).await.usage, ended.usage, "the journal contains the same usage");
    sandbox.finish().await;
}

#[tokio::test]
async fn the_usage_of_a_turn_includes_all_attempts_of_a_recovered_write() {
    let (tools, _) = odd_tools();
    let sandbox = Sandbox::start_as(Options::default(), Some(tools), None, AbandonedCalls::Abort).await;
    let (turn, pending) = sandbox.pause_at(call("odd_write", json!({ "do": "ask a model in an outage" }))).await;
    sandbox.models.then([say("Written.")]);
    let ended = reached(sandbox.approve_with(approve_all(&turn, &pending)).await.unwrap());
    let EventKind::Completed { rounds, usage, .. } = &ended else { panic!("{ended:?}") };
    assert_eq!(rounds[0].results[0].status, CallStatus::Ok);
    assert_eq!((usage.model_calls, usage.input_tokens), (2 + 6, 2 * 10 + 6 * 7), "five attempts failed");
    sandbox.finish().await;
}

#[tokio::test]
async fn invariant_3_a_write_that_fails_is_closed_before_it_is_reported() {
    for fault in ["panic", "panic early", "hang", "refuse", "lasting outage"] {
        let (tools, _) = odd_tools();
        let sandbox = Sandbox::start_as(short_timeouts(), Some(tools), None, AbandonedCalls::Abort).await;
        let (turn, pending) = sandbox.pause_at(call("odd_write", json!({ "do": fault }))).await;
        sandbox.models.then([say("It failed.")]);
        let approved_at = Instant::now();
        let ended = reached(sandbox.approve_with(approve_all(&turn, &pending)).await.unwrap());
        let is_patient = approved_at.elapsed() >= short_timeouts().effect_patience;
        assert!(is_patient || !["hang", "lasting outage"].contains(&fault), "{fault}: the write is retried first");
        let EventKind::Completed { rounds, .. } = &ended else { panic!("{fault}: {ended:?}") };
        assert_eq!(rounds[0].results[0].status, CallStatus::Failed, "{fault}");
        let (target, op) = (Tag::target(&TagId::derive(&["odd"])), OpKey::Call(pending[0].id.clone()));
        let row = sandbox.stores.ops.row(&sandbox.principal.org, &target, &op).await.unwrap();
        let state = row.map(|row| row.state);
        let closed = (fault != "panic early").then_some(OpState::Conflict);
        assert_eq!(state, closed, "{fault}: a call with an intent cannot take effect later");
        sandbox.finish().await;
    }
}

#[tokio::test]
async fn invariant_3_an_approved_write_is_made_when_the_store_answers_again() {
    for (cause, calls_models) in [
        ("outage", false),
        ("conflict", false),
        ("contention", false),
        ("overload", false),
        ("contention", true),
        ("overload", true),
    ] {
        let (tools, _) = odd_tools_with(calls_models);
        let sandbox = Sandbox::start_as(Options::default(), Some(tools), None, AbandonedCalls::Abort).await;
        let (turn, pending) = sandbox.pause_at(call("odd_write", json!({ "do": cause }))).await;
        sandbox.models.then([say("Written.")]);
        let approval = sandbox.spawn_approve(approve_all(&turn, &pending));
        // A stream that begins before the approval is executed ends with the pause.
        let is_seen = async || {
            let events = all(sandbox.conversations.watch(&sandbox.principal, &turn, 1).await.unwrap()).await;
            names(&events).iter().any(|name| name == "waiting_for_store").then_some(())
        };
        wait_for("watchers see the wait", SOON, is_seen).await;
        let ended = reached(approval.await.unwrap().unwrap());
        let EventKind::Completed { rounds, .. } = &ended else { panic!("{cause}: {ended:?}") };
        assert_eq!(rounds[0].results[0].status, CallStatus::Ok, "{cause} {calls_models}");
        sandbox.finish().await;
    }
}

#[tokio::test]
async fn a_write_that_a_model_or_another_write_prevents_waits_for_no_store() {
    for cause in ["overload of a model", "conflict"] {
        let (tools, _) = odd_tools_with(true);
        let sandbox = Sandbox::start_as(Options::default(), Some(tools), None, AbandonedCalls::Abort).await;
        let (turn, pending) = sandbox.pause_at(call("odd_write", json!({ "do": cause }))).await;
        sandbox.models.then([say("It failed.")]);
        let ended = reached(sandbox.approve_with(approve_all(&turn, &pending)).await.unwrap());
        let EventKind::Completed { rounds, .. } = &ended else { panic!("{cause}: {ended:?}") };
        assert_eq!(rounds[0].results[0].status, CallStatus::Failed, "{cause}: a later attempt would succeed");
        sandbox.finish().await;
    }
}

/// Checks that a turn has failed, and completes when it is resumed.
async fn assert_resumes(sandbox: Sandbox, turn: &TurnId) {
    let view = sandbox.turn(turn).await;
    assert_eq!((view.status, view.retriable), (TurnStatus::Failed, true), "invariant 8");
    let resumed = all(sandbox.conversations.resume(&sandbox.principal, turn).await.unwrap()).await;
    assert!(matches!(closing(&resumed), EventKind::Completed { .. }));
    sandbox.finish().await;
}

#[tokio::test]
async fn a_broken_invariant_stops_the_conversation_not_the_node() {
    let sandbox = Sandbox::start_with(Options { sweep_interval: Duration::from_secs(60), ..Options::default() }).await;
    sandbox.models.then([Step::Hang, say("Back.")]);
    let stream = sandbox.begin(sandbox.chat("x")).await;
    sandbox.wait_for_model_calls(1).await;
    let thread = sandbox.newest_thread().await;
    sandbox.conversations.break_conversation(&(sandbox.principal.org.clone(), thread.clone()));
    let rest: Vec<_> = stream.collect().await;
    assert!(rest.last().unwrap().is_err(), "the stream ends with an error: {rest:?}");
    let turn = TurnId::new(thread, 1);
    wait_for_end(&sandbox, &turn).await;
    assert_eq!(sandbox.conversations.snapshot().failed, 1);
    assert_resumes(sandbox, &turn).await;
}

#[tokio::test]
async fn an_append_with_an_unknown_outcome_is_committed_once() {
    for loss in [Loss::Answer, Loss::Request, Loss::Late] {
        // The appends of the turn: the acceptance, the pause, the decision with the intent, the outcome with the end.
        for at in 1..=4 {
            let (sandbox, flaky) = Sandbox::start_flaky(Options::default(), loss, at).await;
            let (turn, pending) = sandbox.pause_at(call("create_tag", json!({"name": "once"}))).await;
            sandbox.models.then([say("Made.")]);
            let ended = reached(sandbox.approve_with(approve_all(&turn, &pending)).await.unwrap());
            assert!(matches!(ended, EventKind::Completed { .. }), "{loss:?} {at}: {ended:?}");
            assert_eq!(sandbox.tag_names().await, ["once"], "{loss:?} {at}");
            let journal = sandbox.journal(&turn.thread).await;
            let count = |wanted: fn(&Entry) -> bool| journal.iter().filter(|entry| wanted(entry)).count();
            assert_eq!(count(|entry| matches!(entry, Entry::Accepted(_))), 1, "{loss:?} {at}");
            assert_eq!(count(|entry| matches!(entry, Entry::Intent(_))), 1, "{loss:?} {at}");
            assert_eq!(count(|entry| matches!(entry, Entry::Ended(_))), 1, "{loss:?} {at}");
            assert!(flaky.appends() >= 4);
            sandbox.finish().await;
        }
    }
}

#[tokio::test]
async fn a_store_that_refuses_writes_ends_the_stream_but_not_the_turn() {
    // The store loses the append that ends the turn and every later append.
    let (sandbox, flaky) = Sandbox::start_flaky(Options::default(), Loss::Writes, 2).await;
    sandbox.models.then([say("Answered."), say("Answered again.")]);
    let events: Vec<_> = sandbox.begin(sandbox.chat("x")).await.collect().await;
    let error = events.last().unwrap().as_ref().unwrap_err();
    assert_eq!((error.reason, error.is_retriable()), (Reason::StoreUnavailable, true));
    // The acceptance and eight attempts to end the turn. The restarted conversation may have sent one append more.
    assert!((9..=10).contains(&flaky.appends()), "{}", flaky.appends());
    flaky.repair();
    let turn = TurnId::new(sandbox.newest_thread().await, 1);
    wait_for_end(&sandbox, &turn).await;
    assert_resumes(sandbox, &turn).await;
}

#[tokio::test]
async fn a_turn_that_the_store_refuses_permanently_fails_and_the_thread_stays_usable() {
    // The store refuses the append that ends a turn without tools.
    let (sandbox, _) = Sandbox::start_flaky(Options::default(), Loss::Large, 2).await;
    sandbox.models.then([say("Too much."), say("Less.")]);
    let events = sandbox.run(sandbox.chat("x")).await;
    let EventKind::Failed { error, retriable: false } = closing(&events) else { panic!("{events:?}") };
    assert_eq!(error.reason, Reason::TooLarge);
    let turn = events[0].turn.clone();
    let view = sandbox.turn(&turn).await;
    assert_eq!((view.status, view.retriable), (TurnStatus::Failed, false), "invariant 8");
    let refused = sandbox.conversations.resume(&sandbox.principal, &turn).await.err().unwrap();
    assert_eq!(refused.reason, Reason::TurnNotResumable, "a resumed turn would fail again");
    let events = sandbox.run(sandbox.chat_in(&turn.thread, "y")).await;
    assert!(matches!(closing(&events), EventKind::Completed { .. }), "{events:?}");
    sandbox.finish().await;

    let (sandbox, _) = Sandbox::start_flaky(Options::default(), Loss::Large, 4).await;
    let (turn, pending) = sandbox.pause_at(call("create_tag", json!({"name": "once"}))).await;
    sandbox.models.then([say("Made.")]);
    let ended = reached(sandbox.approve_with(approve_all(&turn, &pending)).await.unwrap());
    let EventKind::Failed { error, retriable: false } = &ended else { panic!("{ended:?}") };
    assert_eq!(error.reason, Reason::TooLarge);
    assert_eq!(sandbox.tag_names().await, ["once"], "invariant 3: the effect is kept");
    let again = reached(sandbox.approve_with(approve_all(&turn, &pending)).await.unwrap());
    assert_eq!(again, ended, "invariant 7");
    sandbox.finish().await;
}
