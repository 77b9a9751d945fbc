use folio_history::journal::{Accepted, AnswerType, Group, TurnOptions};
use folio_history::thread::NewThread;
use folio_types::profile::{COORDINATOR_PROFILE, DOCUMENT_PROFILE, Subject};
use folio_types::{CallId, Digest, DocumentId, GroupId, OrgId, SchemaId, SchemaRevId, ThreadId, TurnId, UserId};
use serde_json::{Value, json};

use super::*;
use crate::turn::ToolRun;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn names(names: &[&str]) -> Arc<[String]> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn turn_profile() -> TurnProfile {
    TurnProfile {
        name: COORDINATOR_PROFILE.to_owned(),
        version: 1,
        tools: names(&[RUN_TASKS, "list_tags", "create_tag"]),
        waiting_tools: names(&["create_tag"]),
        policy_tools: names(&[]),
        subject: Subject::Document(DocumentId::derive(&["d"])),
        running_seconds: None,
        credit_budget: None,
        answer: AnswerType::Text,
    }
}

fn header() -> ThreadHeader {
    let principal = Principal::new(OrgId::derive(&["o"]), UserId::derive(&["owner"]), Role::Member);
    let documents = vec![DocumentId::derive(&["d"])];
    NewThread::new(ThreadId::derive(&["t"]), &principal, COORDINATOR_PROFILE, documents, at(0)).header()
}

fn record() -> TurnRecord {
    let mut accepted = Accepted::new(3, "r".parse().unwrap(), UserId::derive(&["admin"]), "Check it.", at(1));
    accepted.role = Some(Role::Admin);
    accepted.options = TurnOptions {
        model: "m".into(),
        auto_approved_tools: vec!["create_tag".into(), RUN_TASKS.into()],
        profile: Some(turn_profile()),
        ..TurnOptions::default()
    };
    let mut record = TurnRecord::new(accepted);
    record.working.schema_revid = Some(SchemaRevId::new(SchemaId::derive(&["s"]), 1));
    record.working.profile_state = Some(Box::new(json!({ "step": 1 })));
    record
}

fn arguments() -> Value {
    json!({ "tasks": [
        { "delegate_agent": { "profile": DOCUMENT_PROFILE, "task": "Sum up.", "context": "Page 2.", "max_rounds": 4 } },
        { "use_tool": { "tool": "list_tags", "arguments": { "limit": 3 } } },
    ] })
}

fn run() -> GroupRun {
    let call = CallId::new(TurnId::new(ThreadId::derive(&["t"]), 3), 1, 1);
    let task = |number: &str, profile: &str, tool: Option<&str>, children_max| GroupTask {
        thread: ThreadId::derive(&["child", number]),
        profile: profile.to_owned(),
        tool: tool.map(str::to_owned),
        children_max,
        budget_parts: Vec::new(),
    };
    let group = Group {
        turn: 3,
        round: 1,
        index: 1,
        id: GroupId::derive(&["g"]),
        tasks: vec![task("1", DOCUMENT_PROFILE, None, 5), task("2", COORDINATOR_PROFILE, Some("list_tags"), 0)],
        running_max: 3,
        arguments: None,
        expires_at: at(1_000),
        event: 4,
        at: at(2),
    };
    let (arguments, digest) = (arguments(), Digest::of(b"x"));
    let run = ToolRun { call, name: RUN_TASKS.into(), arguments, digest, epoch: 1 };
    GroupRun { run, group, ended: Default::default() }
}

fn child(header: &ThreadHeader, number: u32) -> ChildPlan {
    let tools = Registry::standard().unwrap();
    Parent { header, record: &record(), tools: &tools }.child(&run(), number, at(5)).unwrap()
}

#[test]
fn a_child_acts_as_the_requester_in_a_hidden_thread_of_the_owner_about_the_same_documents() {
    let header = header();
    let plan = child(&header, 1);
    assert_eq!((&plan.principal.user, plan.principal.role), (&UserId::derive(&["admin"]), Role::Admin));
    let thread = &plan.thread;
    assert_eq!(
        (&thread.id, &thread.user, &thread.org),
        (&ThreadId::derive(&["child", "1"]), &header.user, &header.org)
    );
    assert_eq!(
        (thread.profile.as_str(), &thread.documents, thread.ephemeral),
        (DOCUMENT_PROFILE, &header.documents, true)
    );
    assert_eq!(thread.expires_at, Some(at(5 + 31 * 86_400)));
    let task = thread.task.as_deref().unwrap();
    assert_eq!((task.origin.number, task.origin.depth, task.rounds_max, task.children_max), (1, 1, Some(4), 5));
    assert_eq!(
        (&task.parent_profiles[..], &task.waiting_tools[..]),
        (&[COORDINATOR_PROFILE.to_owned()][..], &["create_tag".to_owned()][..])
    );
    assert_eq!(plan.shares, 3, "two children and the parent");
    assert_eq!(child(&header, 2).shares, 2);
}

#[test]
fn the_message_of_a_child_is_the_same_for_every_attempt() {
    let (first, again) = (child(&header(), 1), child(&header(), 1));
    assert_eq!(first.message, again.message);
    let request = |child: &ChildPlan| child.message.request_id.clone().unwrap();
    assert_ne!(request(&first), request(&child(&header(), 2)), "each child has a request id of its own");
    assert!(first.message.text.starts_with("Sum up.") && first.message.text.ends_with("Check it."));
    assert_eq!(first.message.auto_approved_tools, ["create_tag"], "the tools of its profile only");
    assert_eq!(first.message.model.as_deref(), Some("m"));
    let call = child(&header(), 2).message.direct_call.unwrap();
    assert_eq!((call.tool.as_str(), call.arguments), ("list_tags", json!({ "limit": 3 })));
}

#[test]
fn a_child_of_another_profile_starts_without_the_state_of_the_profile() {
    let working = |number| child(&header(), number).thread.header().working;
    assert_eq!(working(1).profile_state, None);
    assert!(working(1).schema_revid.is_some() && working(2).profile_state.is_some());
}

#[test]
fn a_child_of_an_ephemeral_thread_expires_with_it_and_a_grandchild_is_one_deeper() {
    let mut header = header();
    header.expires_at = Some(at(9));
    let task = child(&header, 1).thread.task.unwrap();
    header.task = Some(Box::new(ThreadTask { waiting_tools: vec!["delete_tag".into()], ..*task }));
    let plan = child(&header, 1);
    assert_eq!(plan.thread.expires_at, Some(at(9)));
    let below = plan.thread.task.unwrap();
    assert_eq!((below.origin.depth, below.parent_profiles.len()), (2, 2));
    assert_eq!(below.waiting_tools, ["create_tag", "delete_tag"], "of every turn above");
}

#[test]
fn a_task_that_does_not_exist_cannot_start() {
    let (tools, header, record) = (Registry::standard().unwrap(), header(), record());
    let parent = Parent { header: &header, record: &record, tools: &tools };
    assert!(parent.child(&run(), 3, at(5)).is_err());
    let mut other = run();
    other.run.arguments = json!({ "tasks": [] });
    assert!(parent.child(&other, 1, at(5)).is_err());
}

#[test]
fn a_child_turn_inherits_what_waits_and_delegates_only_within_its_bounds() {
    let task = child(&header(), 1).thread.task.unwrap();
    let of_document = TurnProfile {
        tools: names(&[RUN_TASKS, "create_tag", "list_tags", "delete_tag"]),
        waiting_tools: names(&["delete_tag"]),
        ..turn_profile()
    };
    let restricted = restrict(of_document.clone(), &task);
    assert_eq!(restricted.tools, of_document.tools);
    assert_eq!(restricted.waiting_tools, names(&["create_tag", "delete_tag"]));
    for (depth, children_max) in [(limits::TASK_DEPTH_MAX, 5), (1, 0)] {
        let mut task = task.clone();
        (task.origin.depth, task.children_max) = (depth, children_max);
        assert_eq!(restrict(of_document.clone(), &task).tools, names(&["create_tag", "list_tags", "delete_tag"]));
    }
}
