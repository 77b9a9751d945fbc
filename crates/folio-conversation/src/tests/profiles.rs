//! Turns of a profile that the tests define: its subject, working state, waits, answer type and limits.

use async_trait::async_trait;
use folio_history::journal::Access;
use folio_history::thread::NewThread;
use folio_metering::{AbandonedCalls, BudgetScope, Share};
use folio_resources::Resource as _;
use folio_resources::audit::Ground;
use folio_resources::policy::{Approver, Rule, Ruling};
use folio_tools::{
    CallContext, Plan, ProfileState, ReadTool, Registry, Spellings, Tool, ToolError, ToolKind, ToolOutput, ToolSpec,
    WriteTool,
};
use folio_types::op::{OpResult, Target};
use folio_types::profile::{DocumentRule, Profile, ProfileAnswer, ProfileLimits, ProfileTool, Subject, SubjectKind};
use folio_types::{BudgetPart, BudgetRoot, BudgetUse, ExtractionId, JobId, RequestId, TagId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::sandbox::pending;
use super::*;

const PROBE: &str = "probe";

const TOOLS: &[ProfileTool] = &[
    ProfileTool::runs("show_subject"),
    ProfileTool::runs("add_step"),
    ProfileTool::runs("mark"),
    ProfileTool::waits("mark_later"),
];

/// A later version of the tools: one is removed, one is added, and one waits that did not.
const LATER_TOOLS: &[ProfileTool] =
    &[ProfileTool::runs("show_subject"), ProfileTool::waits("mark"), ProfileTool::runs("added")];

/// Returns the subject of the turn, and the arguments of the call.
struct ShowSubject;

#[async_trait]
impl ReadTool for ShowSubject {
    async fn run(&self, context: &CallContext, arguments: Value) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::new(json!({ "subject": context.subject, "arguments": arguments })))
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Steps {
    steps: Vec<String>,
}

impl ProfileState for Steps {
    const PROFILE: &'static str = PROBE;
}

/// Adds its argument to the working state of the profile.
struct AddStep;

#[async_trait]
impl ReadTool for AddStep {
    async fn run(&self, context: &CallContext, arguments: Value) -> Result<ToolOutput, ToolError> {
        let mut state: Steps = context.state()?;
        state.steps.push(arguments["step"].as_str().unwrap_or_default().to_owned());
        ToolOutput::new(json!({ "steps": state.steps.len() })).with_state(&state)
    }
}

/// A write without an effect.
struct Mark;

#[async_trait]
impl WriteTool for Mark {
    async fn plan(&self, _: &CallContext, _: &Value) -> Result<Plan, ToolError> {
        let target = Tag::target(&TagId::derive(&["mark"]));
        Ok(Plan { target, expected: Expected::Absent, resolved: Value::Null })
    }

    async fn run(&self, _: &CallContext, _: &Value, _: &Plan) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::new(json!({ "marked": true })))
    }

    fn output(&self, _: &Target, _: OpResult, _: &Value) -> ToolOutput {
        ToolOutput::new(Value::Null)
    }
}

fn probe() -> Profile {
    Profile {
        name: PROBE,
        version: 3,
        documents: DocumentRule { min: 1, max: 2, media_types: &["application/pdf"] },
        subject: SubjectKind::Extraction,
        has_excerpt: false,
        instructions: "Probe.",
        guide: "",
        tools: TOOLS,
        delegates: &[],
        limits: ProfileLimits { model_calls: 50, running_time: None, credit_budget: Some(7) },
        model: Some("other"),
        answer: ProfileAnswer::Text,
        graph: &[],
        has_own_usage: false,
    }
}

fn registry(profile: Profile) -> Arc<Registry> {
    let tool = |name, kind: ToolKind| {
        let access = match &kind {
            ToolKind::Read(_) => Access::ReadOnly,
            ToolKind::Write(_) | ToolKind::Tasks => Access::ReadWrite,
        };
        let spec = ToolSpec { name, description: "a probe", parameters: json!({"type": "object"}), access };
        Tool { spec, kind, calls_models: false, result_ids: &[], spellings: Spellings::default() }
    };
    let tools = [
        tool("show_subject", ToolKind::Read(Arc::new(ShowSubject))),
        tool("added", ToolKind::Read(Arc::new(ShowSubject))),
        tool("add_step", ToolKind::Read(Arc::new(AddStep))),
        tool("mark", ToolKind::Write(Arc::new(Mark))),
        tool("mark_later", ToolKind::Write(Arc::new(Mark))),
    ];
    Registry::new(tools, vec![profile]).unwrap()
}

/// Returns a sandbox with this profile only, and a thread of it about an extraction.
async fn start(profile: Profile) -> (Sandbox, ThreadId) {
    let sandbox = Sandbox::start_as(Options::default(), Some(registry(profile)), None, AbandonedCalls::Abort).await;
    let (id, at) = (ThreadId::generate(&*sandbox.environment), sandbox.environment.now());
    let new = NewThread::new(id, &sandbox.principal, PROBE, vec![sandbox.document.clone()], at);
    let thread = sandbox.stores.threads.create(NewThread { subject: Some(subject()), ..new }).await.unwrap().id;
    (sandbox, thread)
}

fn subject() -> Subject {
    Subject::Extraction(ExtractionId::derive(&["subject"]))
}

fn failure(events: &[Event]) -> (Reason, bool) {
    match closing(events) {
        EventKind::Failed { error, retriable } => (error.reason, *retriable),
        other => panic!("the turn has not failed: {other:?}"),
    }
}

#[tokio::test]
async fn tools_receive_the_subject_and_no_argument_changes_it() {
    let (sandbox, thread) = start(probe()).await;
    let other = json!({ "subject": Subject::Extraction(ExtractionId::derive(&["other"])) });
    sandbox.models.then([call("show_subject", other.clone()), say("Done.")]);
    let events = sandbox.run(sandbox.chat_in(&thread, "x")).await;
    let EventKind::Completed { rounds, .. } = closing(&events) else { panic!("{events:?}") };
    let result: Value = serde_json::from_str(&rounds[0].results[0].content).unwrap();
    assert_eq!(result, json!({ "subject": subject(), "arguments": other }));

    let journal = sandbox.journal(&thread).await;
    let Entry::Accepted(accepted) = &journal[0] else { panic!("{journal:?}") };
    let options = &accepted.options;
    let profile = options.profile.as_ref().unwrap();
    assert_eq!((profile.name.as_str(), profile.version, &profile.subject), (PROBE, 3, &subject()));
    assert_eq!(*profile.waiting_tools, ["mark_later"]);
    assert_eq!((options.rounds_max, profile.credit_budget, options.model.as_str()), (50, Some(7), "other"));
    let system = &sandbox.models.requests()[0].system;
    assert!(system.contains("invoice.pdf") && !system.contains("Total: 12.50"), "{system}");

    let forked = sandbox.conversations.fork_thread(&sandbox.principal, fork(&thread, None)).await.unwrap();
    assert_eq!(forked.subject, Some(subject()));
    let named = ChatCommand { profile: Some(PROBE.to_owned()), ..sandbox.chat("x") };
    assert_eq!(sandbox.chat_error(named).await.reason, Reason::InvalidField, "a chat names no subject");
    sandbox.finish().await;
}

#[tokio::test]
async fn the_working_state_of_a_profile_is_restored_by_truncation_and_fork() {
    let (sandbox, thread) = start(probe()).await;
    let step = |step: &str| call("add_step", json!({ "step": step }));
    let steps = |steps: &[&str]| Some(Box::new(json!({ "steps": steps })));
    sandbox.models.then([step("one"), say("1"), step("two"), say("2"), step("three"), say("3")]);
    sandbox.run(sandbox.chat_in(&thread, "first")).await;
    sandbox.run(sandbox.chat_in(&thread, "second")).await;
    assert_eq!(sandbox.header(&thread).await.working.profile_state, steps(&["one", "two"]));
    let first = ForkThreadCommand { message_count: Some(2), ..fork(&thread, None) };
    let forked = sandbox.conversations.fork_thread(&sandbox.principal, first).await.unwrap();
    assert_eq!(forked.working.profile_state, steps(&["one"]));
    let truncated = ChatCommand { truncate_to_message_count: Some(2), ..sandbox.chat_in(&thread, "third") };
    sandbox.run(truncated).await;
    assert_eq!(sandbox.header(&thread).await.working.profile_state, steps(&["one", "three"]));
    let state = &sandbox.models.requests().last().unwrap().state.clone();
    assert!(state.contains(r#"{"steps":["one","three"]}"#), "{state}");

    sandbox.models.then([step(&"x".repeat(limits::PROFILE_STATE_BYTES)), say("Too long.")]);
    let events = sandbox.run(sandbox.chat_in(&thread, "fourth")).await;
    let EventKind::Completed { rounds, .. } = closing(&events) else { panic!("{events:?}") };
    assert!(rounds[0].results[0].content.contains("the maximum is 32768"), "{rounds:?}");
    assert_eq!(sandbox.header(&thread).await.working.profile_state, steps(&["one", "three"]));
    sandbox.finish().await;
}

#[tokio::test]
async fn a_turn_keeps_its_recorded_profile_after_an_upgrade() {
    let (mut sandbox, thread) = start(probe()).await;
    sandbox.models.then([call("mark_later", json!({}))]);
    let (turn, waiting) = pending(&sandbox.run(sandbox.chat_in(&thread, "x")).await);
    sandbox.upgrade(registry(Profile { version: 4, tools: LATER_TOOLS, ..probe() })).await;

    sandbox.models.then([calls(&[("mark", json!({})), ("added", json!({}))]), say("Done.")]);
    let approve = ApproveCommand { continue_auto_approved: true, ..approve_all(&turn, &waiting) };
    let EventKind::Completed { rounds, .. } = reached(sandbox.approve_with(approve).await.unwrap()) else {
        panic!("the turn waits again")
    };
    let results: Vec<_> = rounds.iter().flat_map(|round| &round.results).collect();
    let [removed, marked, added] = results.as_slice() else { panic!("{results:?}") };
    assert!(removed.status == CallStatus::Failed && removed.content.contains("Unknown write tool"), "{removed:?}");
    assert_eq!(marked.status, CallStatus::Ok, "the recorded profile runs the tool without approval");
    assert!(added.status == CallStatus::Failed && added.content.contains("Unknown tool"), "{added:?}");

    sandbox.models.then([call("mark", json!({}))]);
    let events = sandbox.run(sandbox.chat_in(&thread, "y")).await;
    assert!(matches!(closing(&events), EventKind::AwaitingApproval { .. }), "the next turn has the later profile");
    sandbox.finish().await;
}

#[tokio::test]
async fn the_policy_overrides_the_waits_of_a_profile() {
    let rule = |ruling| Rule { tools: vec!["mark".to_owned()], ..Rule::new("two eyes", ruling) };
    let mark = || call("mark", json!({}));

    let (sandbox, thread) = start(probe()).await;
    sandbox.models.then([mark(), say("Done.")]);
    let events = sandbox.run(sandbox.chat_in(&thread, "x")).await;
    assert!(matches!(closing(&events), EventKind::Completed { .. }), "{events:?}");
    let grounds: Vec<_> = sandbox.log().await.into_iter().map(|entry| entry.ground).collect();
    assert_eq!(grounds, [Some(Ground::Profile), Some(Ground::Profile)], "the start and the effect of the call");
    sandbox.finish().await;

    let (sandbox, thread) = start(probe()).await;
    sandbox.with_policy(vec![rule(Ruling::Ask(Approver::default()))]).await;
    sandbox.models.then([mark(), say("Done.")]);
    let (turn, waiting) = pending(&sandbox.run(sandbox.chat_in(&thread, "x")).await);
    let ended = reached(sandbox.approve_with(approve_all(&turn, &waiting)).await.unwrap());
    assert!(matches!(ended, EventKind::Completed { .. }), "{ended:?}");
    sandbox.finish().await;

    let (sandbox, thread) = start(probe()).await;
    sandbox.with_policy(vec![rule(Ruling::Deny)]).await;
    sandbox.models.then([mark(), say("No.")]);
    let events = sandbox.run(sandbox.chat_in(&thread, "x")).await;
    let EventKind::Completed { rounds, .. } = closing(&events) else { panic!("{events:?}") };
    let result = &rounds[0].results[0];
    assert!(result.status == CallStatus::Failed && result.content.contains("two eyes"), "{result:?}");
    sandbox.finish().await;
}

#[tokio::test]
async fn an_answer_that_must_be_json_is_corrected_once() {
    let schema = r#"{"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}"#;
    let (sandbox, thread) = start(Profile { answer: ProfileAnswer::Json(schema), ..probe() }).await;
    sandbox.models.then([say("Seven."), say(r#"{"total": 7}"#)]);
    let events = sandbox.run(sandbox.chat_in(&thread, "x")).await;
    let EventKind::Completed { text, usage, .. } = closing(&events) else { panic!("{events:?}") };
    assert_eq!((text.as_str(), usage.model_calls), (r#"{"total": 7}"#, 2));
    let requests = sandbox.models.requests();
    assert!(requests[0].system.contains("# Answer"), "{}", requests[0].system);
    let last = requests[1].messages.last();
    assert!(matches!(last, Some(Message::User { text, .. }) if text.contains("Violations")), "{last:?}");

    sandbox.models.then([say("Seven."), say(r#"{"total": "seven"}"#)]);
    let events = sandbox.run(sandbox.chat_in(&thread, "again")).await;
    assert_eq!(failure(&events), (Reason::AnswerMismatch, false));
    let sent = format!("{:?}", sandbox.models.requests()[2].messages);
    assert!(!sent.contains("Seven."), "a later turn does not receive the wrong answer: {sent}");
    sandbox.finish().await;
}

#[tokio::test]
async fn a_model_call_is_stopped_at_the_end_of_the_running_time_and_is_paid_for() {
    let limits = ProfileLimits { running_time: Some(Duration::from_secs(1)), ..probe().limits };
    let (sandbox, thread) = start(Profile { limits, ..probe() }).await;
    sandbox.models.then([Step::Hang]);
    let events = sandbox.run(sandbox.chat_in(&thread, "x")).await;
    assert_eq!(failure(&events), (Reason::RunningTimeExceeded, false));
    let usage = wait_for("the settlement", SOON, || async { sandbox.usage().await.pop() }).await;
    assert!(!usage.completed && usage.usage.input_tokens > 0, "{usage:?}");
    sandbox.finish().await;
}

#[tokio::test]
async fn no_model_call_is_made_that_may_exceed_the_credit_budget() {
    let (sandbox, thread) = start(probe()).await;
    sandbox.models.set_price(4);
    sandbox.models.then([call("show_subject", json!({}))]);
    let events = sandbox.run(sandbox.chat_in(&thread, "x")).await;
    assert_eq!(failure(&events), (Reason::BudgetExhausted, false));
    assert_eq!(sandbox.models.requests().len(), 1);
    let (store, org) = (sandbox.stores.budgets(), sandbox.principal.org.clone());
    let turn = |number| TurnId::new(thread.clone(), number);
    let first = Some(BudgetUse { credits: 7, used: 4, rest: 3 });
    assert_eq!(sandbox.turn(&turn(1)).await.budget, first);
    assert_eq!(sandbox.turn(&turn(1)).await.usage.credits, 4, "the usage has the charge of the call");

    sandbox.models.set_price(3);
    sandbox.models.then([say("Next.")]);
    let events = sandbox.run(sandbox.chat_in(&thread, "again")).await;
    assert!(matches!(closing(&events), EventKind::Completed { .. }), "{events:?}");
    let EventKind::Completed { usage, .. } = closing(&events) else { panic!("{events:?}") };
    assert_eq!((usage.credits, sandbox.turn(&turn(2)).await.usage.credits), (3, 3));
    let second = sandbox.turn(&turn(2)).await.budget;
    assert_eq!(second, Some(BudgetUse { credits: 7, used: 3, rest: 4 }), "the next turn has a budget of its own");
    assert_eq!(sandbox.turn(&turn(1)).await.budget, first);
    sandbox.conversations.delete_thread(&sandbox.principal, &thread, None).await.unwrap();
    for number in [1, 2] {
        assert_eq!(store.read(&org, &BudgetRoot::Turn(turn(number))).await.unwrap(), None, "{number}");
    }
    sandbox.finish().await;
}

#[tokio::test]
async fn a_chat_limits_the_credit_of_its_turn_below_the_limit_of_the_profile() {
    let (sandbox, thread) = start(probe()).await;
    sandbox.models.set_price(4);
    let limited = |credits| ChatCommand { credit_budget: Some(credits), ..sandbox.chat_in(&thread, "x") };
    let events = sandbox.run(limited(3)).await;
    assert_eq!(failure(&events), (Reason::BudgetExhausted, false));
    assert!(sandbox.models.requests().is_empty());
    let turn = |number| TurnId::new(thread.clone(), number);
    assert_eq!(sandbox.turn(&turn(1)).await.budget, Some(BudgetUse::unused(3)));
    sandbox.models.then([say("Done.")]);
    let events = sandbox.run(limited(1_000)).await;
    assert!(matches!(closing(&events), EventKind::Completed { .. }), "{events:?}");
    assert_eq!(sandbox.turn(&turn(2)).await.budget, Some(BudgetUse { credits: 7, used: 4, rest: 3 }));

    let request_id: Option<RequestId> = Some("limited".parse().unwrap());
    let repeated = |credits| ChatCommand { request_id: request_id.clone(), ..limited(credits) };
    sandbox.run(repeated(3)).await;
    let refused = sandbox.chat_error(repeated(2)).await;
    assert_eq!(refused.reason, Reason::RequestIdConflict, "the budget is a part of the request");
    sandbox.finish().await;
}

#[tokio::test]
async fn the_part_of_a_job_and_the_limit_of_the_profile_both_bound_the_turns_of_a_thread() {
    let (sandbox, _) = start(probe()).await;
    let (store, org) = (sandbox.stores.budgets(), sandbox.principal.org.clone());
    let part = BudgetPart::whole(BudgetRoot::Job(JobId::derive(&["job"])), 20).child(1);
    let (id, at) = (ThreadId::generate(&*sandbox.environment), sandbox.environment.now());
    let new = NewThread::new(id, &sandbox.principal, PROBE, vec![sandbox.document.clone()], at);
    let new = NewThread { subject: Some(subject()), budget_part: Some(part.clone()), ..new };
    let thread = sandbox.stores.threads.create(new).await.unwrap().id;
    sandbox.models.set_price(4);
    let events = sandbox.run(sandbox.chat_in(&thread, "before the item starts")).await;
    assert_eq!(failure(&events), (Reason::BudgetExhausted, false));

    let scope = BudgetScope::new(store.clone(), org.clone(), part.clone());
    scope.grant(Share::Half, |_| false).await.unwrap();
    for used in [4, 8] {
        sandbox.models.then([say("Done.")]);
        let events = sandbox.run(sandbox.chat_in(&thread, "x")).await;
        assert!(matches!(closing(&events), EventKind::Completed { .. }), "{events:?}");
        let of_part = store.use_of(&org, &part).await.unwrap();
        assert_eq!(of_part, Some(BudgetUse { credits: 10, used, rest: 10 - used }));
    }
    let events = sandbox.run(sandbox.chat_in(&thread, "x")).await;
    assert_eq!(failure(&events), (Reason::BudgetExhausted, false));
    assert_eq!(sandbox.models.requests().len(), 2);
    let own = sandbox.turn(&TurnId::new(thread, 4)).await.budget;
    assert_eq!(own, Some(BudgetUse::unused(7)), "the refused call returned its reservation in the budget of the turn");
    sandbox.finish().await;
}

#[tokio::test]
async fn documents_of_another_type_than_the_profile_permits_are_refused() {
    const IMAGES: &[&str] = &["image/png"];
    const IMAGES_AND_PDF: &[&str] = &["image/png", "application/pdf"];
    let of_type = |media_types| Profile {
        subject: SubjectKind::Document,
        documents: DocumentRule { min: 1, max: 1, media_types },
        ..probe()
    };
    for (media_types, is_permitted) in [(IMAGES, false), (IMAGES_AND_PDF, true)] {
        let (sandbox, _) = start(of_type(media_types)).await;
        let create = CreateThreadCommand {
            profile: Some(PROBE.to_owned()),
            documents: vec![sandbox.document.clone()],
            title: String::new(),
            model: None,
            request_id: None,
        };
        let created = sandbox.conversations.create_thread(&sandbox.principal, create).await;
        let refused = created.err().map(|error| error.reason);
        assert_eq!(refused, (!is_permitted).then_some(Reason::UnsupportedType), "{media_types:?}");
        sandbox.finish().await;
    }
}
