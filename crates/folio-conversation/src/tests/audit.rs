//! The audit log is complete after crashes.

use folio_history::journal::{End, Ended};
use folio_resources::audit::{AuditEntry, AuditKind, AuditPosition, Ground};
use folio_resources::policy::{Approver, Condition, Policy, Rule, Ruling, Test};
use folio_resources::{Organization, OrganizationChange};

use super::crash::wait_for_end;
use super::*;
use crate::audit::Auditor;

impl Sandbox {
    pub(super) async fn log(&self) -> Vec<AuditEntry> {
        let (low, high) = (AuditPosition::before(Timestamp::MIN), AuditPosition::before(Timestamp::MAX));
        self.stores.audit.list(&self.principal.org, &low, &high, false, 10_000).await.unwrap()
    }

    pub(super) async fn with_policy(&self, rules: Vec<Rule>) {
        let now = self.environment.now();
        let policy = OrganizationChange::SetPolicy { policy: Policy { rules }, approval_ttl_seconds: None };
        let create = OrganizationChange::Create { name: "tested".into() };
        for (key, expected, change) in [("create", Expected::Absent, create), ("rule", Expected::Version(1), policy)] {
            let write = Write::by_platform(OrgId::platform(), key.parse().unwrap(), now, expected, change);
            self.stores.of::<Organization>().decide(&self.principal.org, write).await.unwrap();
        }
    }
}

pub(super) fn rule(name: &str, tool: &str, argument: &str, ruling: Ruling) -> Rule {
    let arguments = vec![Condition { path: "name".into(), test: Test::Equals(json!(argument)) }];
    Rule { tools: vec![tool.into()], arguments, ..Rule::new(name, ruling) }
}

/// Returns the index of the call, the kind and the ground of each entry, ordered by index and kind.
fn summary(log: &[AuditEntry]) -> Vec<(u32, AuditKind, Option<Ground>)> {
    let index = |entry: &AuditEntry| entry.call.as_ref().map_or(0, |call| call.index);
    let mut summary: Vec<_> = log.iter().map(|entry| (index(entry), entry.kind, entry.ground.clone())).collect();
    summary.sort_by_key(|(index, kind, _)| (*index, *kind));
    summary
}

#[tokio::test]
async fn the_audit_log_records_decisions_with_user_rule_and_outcome() {
    let sandbox = Sandbox::start().await;
    let approval = Ruling::Ask(Approver::default());
    sandbox.with_policy(vec![rule("careful", "create_tag", "b", approval)]).await;
    let tags = [("create_tag", json!({"name": "a"})), ("create_tag", json!({"name": "b"}))];
    let (turn, waiting) = sandbox.pause_at(calls(&[&tags[..], &[("create_tag", json!({"name": "c"}))]].concat())).await;
    assert!(sandbox.log().await.is_empty(), "nothing is decided");
    sandbox.models.then([say("Made.")]);
    let edited = Decision::ApproveEdited { arguments: json!({"name": "other"}) };
    let decisions = [
        (&waiting[0], Decision::Approve),
        (&waiting[1], edited),
        (&waiting[2], Decision::Reject { reason: Some("a secret".into()) }),
    ];
    reached(sandbox.approve_with(decide(&turn, &decisions)).await.unwrap());

    let log = sandbox.log().await;
    let by_default = Some(Ground::WritesWait);
    let expected = [
        (1, AuditKind::CallApproved, by_default.clone()),
        (1, AuditKind::CallEffect, by_default.clone()),
        // The rule does not match the edited arguments.
        (2, AuditKind::CallEdited, by_default.clone()),
        (2, AuditKind::CallEffect, by_default.clone()),
        (3, AuditKind::CallRejected, by_default),
    ];
    assert_eq!(summary(&log), expected);
    assert!(log.iter().all(|entry| entry.user.as_ref() == Some(&sandbox.principal.user)));
    let effects: Vec<_> = log.iter().filter(|entry| entry.kind == AuditKind::CallEffect).collect();
    for effect in &effects {
        assert_eq!(effect.outcome.as_deref(), Some("ok"));
        assert_eq!(effect.target.as_ref().unwrap().kind, "tag");
    }
    assert_eq!(effects[1].arguments.as_ref().unwrap().digest, Digest::of_json(&json!({"name": "other"})));
    let text = serde_json::to_string(&log).unwrap();
    assert!(!text.contains("other") && !text.contains("secret"), "{text}");
    assert!(text.contains("<5 characters>"), "{text}");
    sandbox.finish().await;
}

#[tokio::test]
async fn writes_without_a_decision_are_audited_with_their_ground() {
    let sandbox = Sandbox::start().await;
    let rules = vec![
        rule("free", "create_tag", "free", Ruling::Allow),
        rule("never", "create_tag", "never", Ruling::Deny),
        rule("no list", "list_tags", "x", Ruling::Deny),
    ];
    sandbox.with_policy(rules).await;
    let tags = |names: [&str; 3]| calls(&names.map(|name| ("create_tag", json!({"name": name}))));
    let chats = [
        (ChatCommand { auto_approve: true, ..sandbox.chat("x") }, ["free", "never", "flag"], Ground::AutoApprove),
        (
            ChatCommand { auto_approved_tools: vec!["create_tag".into()], ..sandbox.chat("x") },
            ["plain", "never", "tool"],
            Ground::AutoApprovedTool,
        ),
    ];
    for (chat, names, ground) in chats {
        // The log is ordered by time, and entries with equal times by thread id.
        sandbox.environment.advance(Duration::from_secs(1));
        let before = sandbox.log().await.len();
        sandbox.models.then([tags(names), say("Done.")]);
        sandbox.run(chat).await;
        let log = sandbox.log().await.split_off(before);
        let first = if names[0] == "free" { Ground::Rule("free".into()) } else { ground.clone() };
        let expected = [
            (1, AuditKind::CallAllowed, Some(first.clone())),
            (1, AuditKind::CallEffect, Some(first)),
            (2, AuditKind::CallDenied, Some(Ground::Rule("never".into()))),
            (3, AuditKind::CallAllowed, Some(ground.clone())),
            (3, AuditKind::CallEffect, Some(ground)),
        ];
        assert_eq!(summary(&log), expected);
    }
    sandbox.finish().await;
}

#[tokio::test]
async fn a_turn_without_writes_adds_no_audit_entry() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([call("list_tags", json!({})), say("None.")]);
    sandbox.hang_at(Some("audit:before"));
    sandbox.run(sandbox.chat("look")).await;
    assert!(sandbox.log().await.is_empty());
    sandbox.finish().await;
}

#[tokio::test]
async fn invariant_2_the_audit_log_is_complete_for_an_approved_write_after_a_crash_at_any_step() {
    let points = "decide:before decide:after intent:after write:before write:after outcome:before outcome:after \
                  audit:before audit:after model:before end:before end:after";
    for point in points.split_whitespace() {
        let mut sandbox = Sandbox::start().await;
        let (turn, waiting) = sandbox.pause_at(call("create_tag", json!({"name": "once"}))).await;
        sandbox.models.then([say("Made."), say("Made.")]);
        sandbox.crash_at(point, |sandbox| sandbox.spawn_approve(approve_all(&turn, &waiting))).await;
        if point == "decide:before" {
            // Nothing was decided, and the log is empty.
            assert!(sandbox.log().await.is_empty());
        } else {
            // Without a request, the sweep finds the missing entries.
            wait_for_end(&sandbox, &turn).await;
            let log = complete(&sandbox, &turn).await;
            let kinds: Vec<_> = log.iter().map(|entry| entry.kind).collect();
            assert_eq!(kinds, [AuditKind::CallApproved, AuditKind::CallEffect], "{point}: {log:?}");
            let writes = usize::from(log[1].outcome.as_deref() == Some("ok"));
            assert_eq!(sandbox.tag_names().await.len(), writes, "{point}");
        }
        sandbox.models.drain();
        sandbox.finish().await;
    }
}

/// Waits until the open-turn row of the turn is removed, and returns the log, which is final then.
async fn complete(sandbox: &Sandbox, turn: &TurnId) -> Vec<AuditEntry> {
    wait_for("the rows of the turn to be removed", SOON, || async {
        sandbox.open_rows().await.iter().all(|row| row.turn != *turn).then_some(())
    })
    .await;
    sandbox.log().await
}

#[tokio::test]
async fn the_audit_log_is_complete_for_auto_approved_writes_after_a_crash_at_any_step() {
    for point in ["intent:after", "write:after", "audit:before", "end:after"] {
        let mut sandbox = Sandbox::start().await;
        sandbox.models.then([call("create_tag", json!({"name": "once"})), say("Made.")]);
        let chat = ChatCommand { auto_approve: true, ..sandbox.chat("make") };
        sandbox.crash_at(point, |sandbox| sandbox.spawn_chat(chat)).await;
        let turn = TurnId::new(sandbox.newest_thread().await, 1);
        wait_for_end(&sandbox, &turn).await;
        let kinds: Vec<_> = complete(&sandbox, &turn).await.iter().map(|entry| entry.kind).collect();
        assert_eq!(kinds, [AuditKind::CallAllowed, AuditKind::CallEffect], "{point}");
        sandbox.models.drain();
        sandbox.finish().await;
    }
}

#[tokio::test]
async fn a_thread_is_not_removed_before_its_audit_entries_are_durable() {
    // No sweep runs during the test.
    let options = Options { sweep_interval: Duration::from_secs(3_600), ..Options::default() };
    let mut sandbox = Sandbox::start_with(options).await;
    let (turn, waiting) = sandbox.pause_at(call("create_tag", json!({"name": "once"}))).await;
    sandbox.models.then([say("Made.")]);
    sandbox.crash_at("end:after", |sandbox| sandbox.spawn_approve(approve_all(&turn, &waiting))).await;
    sandbox.conversations.delete_thread(&sandbox.principal, &turn.thread, None).await.unwrap();
    let kinds: Vec<_> = sandbox.log().await.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [AuditKind::CallApproved, AuditKind::CallEffect]);
    sandbox.finish().await;
}

#[tokio::test]
async fn decisions_in_parts_are_in_the_audit_log_before_they_are_answered() {
    let sandbox = Sandbox::start().await;
    let step = calls(&[("create_tag", json!({"name": "a"})), ("create_tag", json!({"name": "b"}))]);
    let (turn, waiting) = sandbox.pause_at(step).await;
    sandbox.approve_with(decide(&turn, &[(&waiting[0], Decision::Approve)])).await.unwrap();
    assert_eq!(summary(&sandbox.log().await), [(1, AuditKind::CallApproved, Some(Ground::WritesWait))]);
    // The next message supersedes the turn: the approved call did not run, and the other call was never decided.
    sandbox.models.then([say("Well.")]);
    let chat = ChatCommand { if_pending: IfPending::Supersede, ..sandbox.chat_in(&turn.thread, "stop") };
    let events = sandbox.run(chat).await;
    assert!(matches!(events.last().unwrap().kind, EventKind::Completed { .. }));
    let log = sandbox.log().await;
    let kinds: Vec<_> = log.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [AuditKind::CallApproved, AuditKind::CallEffect]);
    assert_eq!(log[1].outcome.as_deref(), Some("superseded"));
    sandbox.finish().await;
}

#[tokio::test]
async fn the_auditor_writes_the_entries_of_an_intent_with_the_next_append() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([call("create_tag", json!({"name": "once"})), say("Made.")]);
    sandbox.run(ChatCommand { auto_approve: true, ..sandbox.chat("make") }).await;
    let thread = sandbox.newest_thread().await;
    let journal = sandbox.journal(&thread).await;
    let find = |is_found: fn(&Entry) -> bool| journal.iter().position(is_found).unwrap();
    let (intent, outcome) =
        (find(|entry| matches!(entry, Entry::Intent(_))), find(|entry| matches!(entry, Entry::Outcome(_))));
    let kinds = |entries: &[AuditEntry]| entries.iter().map(|entry| entry.kind).collect::<Vec<_>>();
    let (allowed, both) = ([AuditKind::CallAllowed], [AuditKind::CallAllowed, AuditKind::CallEffect]);

    let mut auditor = Auditor::new(thread);
    journal[..intent].iter().for_each(|entry| auditor.read(entry));
    let mut next_owner = auditor.clone();
    let writes = auditor.writes_for(&journal[intent..=intent]);
    assert!(writes.with_append.is_empty() && writes.after_commit.is_empty());
    auditor.commit();
    assert_eq!(kinds(auditor.due()), allowed);
    let writes = auditor.clone().writes_for(&journal[intent..=intent]);
    assert_eq!((kinds(&writes.with_append), writes.after_commit.len()), (allowed.to_vec(), 0));
    let writes = auditor.writes_for(&journal[outcome..]);
    assert_eq!((writes.with_append.len(), kinds(&writes.after_commit)), (0, both.to_vec()));
    assert!(Arc::ptr_eq(&writes, &auditor.in_flight_writes()));
    auditor.commit();
    assert!(auditor.due().is_empty() && auditor.in_flight_writes().after_commit.is_empty());

    next_owner.read(&journal[intent]);
    assert_eq!(kinds(next_owner.due()), allowed, "a node that loads the thread");
    let Some(Entry::Ended(ended)) = journal.last().cloned() else { panic!("the turn has not ended") };
    let end = End::Failed { error: Error::internal("a crash"), retriable: true };
    next_owner.read(&Entry::Ended(Box::new(Ended { end, ..(*ended).clone() })));
    next_owner.read(&journal[outcome]);
    assert_eq!(kinds(next_owner.due()), both, "a resumed turn");
    next_owner.read(&Entry::Ended(ended));
    next_owner.read(&journal[outcome]);
    assert_eq!(kinds(next_owner.due()), both, "an ended turn has no further entries");
    next_owner.read(&journal[0]);
    assert!(next_owner.due().is_empty(), "the sweep ensures the entries of earlier turns");
    sandbox.finish().await;
}
