//! Comparison of a candidate policy with the current one on recorded tool calls.
//!
//! The calls are those of the journals of the newest threads, with the arguments that the model sent. A policy is evaluated
//! as at the acceptance of the turn: with its requester, the role of the request, its profile and its options.

use std::collections::BTreeMap;

use folio_history::journal::{Accepted, Call, Entry};
use folio_history::thread::{ThreadFilter, ThreadHeader};
use folio_resources::policy::{Approver, Policy, Ruling};
use folio_tools::policy;
use folio_types::page::PageRequest;
use folio_types::{CallId, Error, Result, Role, Timestamp, TurnId, UserId, limits};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::Serialize;

use crate::context::Context;
use crate::declaration::Declaration;
use crate::operation::Operation;
use crate::organizations::visible_organization;
use crate::policies::{SERVICE, check};

/// Maximum number of calls of a comparison, and its default.
// proto: TestPolicyRequest.calls_max "at most {}. Default: {}."
const CALLS_MAX: u32 = 1_000;
/// Maximum number of threads whose journals are read.
// proto: PolicyService.TestPolicy "newest {} threads"
const THREADS_MAX: usize = 200;
/// Maximum number of journal entries that are read of a thread.
// proto: PolicyService.TestPolicy "last {} entries"
const ENTRIES_MAX: u64 = 100;
/// Maximum number of journals that are read at once.
const THREADS_AT_ONCE: usize = 4;

/// Evaluates a candidate policy and the current one on the newest recorded calls. Stores nothing.
#[derive(Debug, Clone, Serialize)]
pub struct TestPolicy {
    #[serde(rename = "rules")]
    pub policy: Policy,
    /// Maximum number of calls, at most 1,000. 0: 1,000.
    pub calls_max: u32,
}

impl Operation for TestPolicy {
    // The calls of every user's threads are read, as only an admin may.
    const DECLARATION: Declaration = SERVICE.read("TestPolicy").role(Role::Admin);
    type Output = PolicyTest;

    async fn run(self, context: &Context) -> Result<PolicyTest> {
        check(&self.policy)?;
        if self.calls_max > CALLS_MAX {
            return Err(Error::invalid_field("calls_max", format!("must be at most {CALLS_MAX}")));
        }
        let calls_max = if self.calls_max == 0 { CALLS_MAX } else { self.calls_max } as usize;
        let current = visible_organization(context, None).await?.policy;
        let _permit = context.journal_permit().await?;
        let (threads, has_more) = newest_threads(context).await?;
        let reads = threads.into_iter().map(|header| recorded_turns(context, header));
        let mut journals = stream::iter(reads).buffered(THREADS_AT_ONCE);
        let mut test = PolicyTest { has_more, ..PolicyTest::default() };
        while let Some(Journal { turns, is_whole }) = journals.try_next().await? {
            test.has_more |= !is_whole;
            for turn in turns {
                if !test.add(&turn, (&current, &self.policy), calls_max) {
                    test.has_more = true;
                    return Ok(test);
                }
            }
        }
        Ok(test)
    }
}

/// The effect of a policy on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The call runs without approval.
    Runs,
    /// The call waits for approval.
    Waits,
    /// The call does not run.
    Denied,
}

/// A verdict with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuledVerdict {
    pub verdict: Verdict,
    /// The name of the first matching rule. None: no rule matches, and the options of the turn decide.
    pub rule: Option<String>,
    /// The approvers of a call that waits.
    pub approver: Approver,
}

/// A recorded call with its verdicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestedCall {
    pub call: CallId,
    pub tool: String,
    /// The user that started the turn.
    pub user: UserId,
    pub profile: String,
    /// The acceptance of the turn.
    pub at: Timestamp,
    pub current: RuledVerdict,
    pub candidate: RuledVerdict,
}

/// The result of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyTest {
    /// The calls of the newest threads first; in a thread, those of the newest turn first.
    pub calls: Vec<TestedCall>,
    /// The number of calls by current and candidate verdict.
    pub counts: BTreeMap<(Verdict, Verdict), u32>,
    /// The number of calls whose verdict, rule or approvers differ.
    pub changed: u32,
    /// True if a bound left out recorded calls.
    pub has_more: bool,
}

impl PolicyTest {
    /// Adds the calls of a turn. Returns false if a call was left out because of `calls_max`.
    fn add(&mut self, turn: &RecordedTurn, (current, candidate): (&Policy, &Policy), calls_max: usize) -> bool {
        let RecordedTurn { id, profile, parents, accepted, calls } = turn;
        // The role of an old entry is unknown; a viewer starts no turn.
        let role = accepted.role.unwrap_or(Role::Member);
        let of_turn = |policy: &Policy| policy.of_turn(&accepted.user, role, profile, parents);
        let (current, candidate) = (of_turn(current), of_turn(candidate));
        for (round, call) in calls {
            if self.calls.len() >= calls_max {
                return false;
            }
            let (current, candidate) = (verdict(&current, accepted, call), verdict(&candidate, accepted, call));
            *self.counts.entry((current.verdict, candidate.verdict)).or_default() += 1;
            self.changed += u32::from(current != candidate);
            self.calls.push(TestedCall {
                call: CallId::new(id.clone(), *round, call.index),
                tool: call.name.clone(),
                user: accepted.user.clone(),
                profile: profile.clone(),
                at: accepted.at,
                current,
                candidate,
            });
        }
        true
    }
}

/// Returns the verdict of the rules that may apply to a turn, else that of the turn's options.
fn verdict(rules: &Policy, accepted: &Accepted, call: &Call) -> RuledVerdict {
    let options = &accepted.options;
    let Some(rule) = policy::rule(rules, &call.name, call.access, &call.arguments) else {
        let verdict = if options.waits(&call.name, call.access) { Verdict::Waits } else { Verdict::Runs };
        return RuledVerdict { verdict, rule: None, approver: Approver::default() };
    };
    let (verdict, approver) = match &rule.ruling {
        Ruling::Deny => (Verdict::Denied, Approver::default()),
        Ruling::Ask(approver) => (Verdict::Waits, approver.clone()),
        Ruling::Allow => (Verdict::Runs, Approver::default()),
    };
    RuledVerdict { verdict, rule: Some(rule.name.clone()), approver }
}

/// A turn with the calls that a policy decided on, and the rounds of the calls.
struct RecordedTurn {
    id: TurnId,
    profile: String,
    /// Profiles of the turns above a child turn.
    parents: Vec<String>,
    accepted: Accepted,
    calls: Vec<(u32, Call)>,
}

/// The turns of a journal, the newest first.
struct Journal {
    turns: Vec<RecordedTurn>,
    /// False if earlier entries were not read.
    is_whole: bool,
}

/// Returns the newest threads, and true if there are more.
async fn newest_threads(context: &Context) -> Result<(Vec<ThreadHeader>, bool)> {
    let (threads, org) = (&context.stores().threads, &context.principal().org);
    let (mut page, mut found) = (PageRequest::default(), Vec::new());
    loop {
        page.size = u32::try_from(THREADS_MAX.saturating_sub(found.len())).unwrap_or(limits::PAGE_SIZE_MAX);
        let read = threads.list(org, &ThreadFilter::default(), &page).await?;
        found.extend(read.items);
        page.token = read.next;
        if page.token.is_none() || found.len() >= THREADS_MAX {
            return Ok((found, page.token.is_some()));
        }
    }
}

async fn recorded_turns(context: &Context, header: ThreadHeader) -> Result<Journal> {
    let from = header.entries.saturating_sub(ENTRIES_MAX);
    let limit = usize::try_from(ENTRIES_MAX).unwrap_or(usize::MAX);
    let entries = context.stores().threads.entries(&header.org, &header.id, from, limit).await?;
    let turns = turns_of(&header, entries.into_iter().map(|(_, entry)| entry));
    Ok(Journal { turns, is_whole: from == 0 })
}

/// Returns the turns with calls, the newest first. Calls of a turn whose acceptance is not among the entries are left out.
fn turns_of(header: &ThreadHeader, entries: impl Iterator<Item = Entry>) -> Vec<RecordedTurn> {
    let mut turns: Vec<RecordedTurn> = Vec::new();
    for entry in entries {
        match entry {
            Entry::Accepted(accepted) => turns.push(RecordedTurn {
                id: TurnId::new(header.id.clone(), accepted.turn),
                profile: header.profile.clone(),
                parents: header.task.as_ref().map(|task| task.parent_profiles.clone()).unwrap_or_default(),
                accepted: *accepted,
                calls: Vec::new(),
            }),
            Entry::Round(round) => {
                let Some(turn) = turns.last_mut().filter(|turn| turn.accepted.turn == round.turn) else { continue };
                let number = round.round;
                let decided = round.calls.into_iter().filter(|call| is_decided_by_policy(&turn.accepted, call));
                turn.calls.extend(decided.map(|call| (number, call)));
            }
            _ => {}
        }
    }
    turns.retain(|turn| !turn.calls.is_empty());
    turns.reverse();
    turns
}

/// Returns true if the policy decided on a call: the call could run, or the recorded policy denied it.
fn is_decided_by_policy(accepted: &Accepted, call: &Call) -> bool {
    let is_denied = || {
        let rule = policy::rule(&accepted.options.policy, &call.name, call.access, &call.arguments);
        rule.is_some_and(|rule| rule.ruling == Ruling::Deny)
    };
    call.problem.is_none() || is_denied()
}

#[cfg(test)]
mod tests {
    use folio_history::journal::{Access, Round};
    use folio_resources::policy::Rule;
    use folio_types::{OrgId, RequestId, ThreadId};
    use serde_json::json;

    use super::*;

    fn call(index: u32, name: &str, problem: Option<&str>) -> Call {
        Call {
            index,
            provider_id: String::new(),
            name: name.to_owned(),
            arguments: json!({ "name": name }),
            access: if name.starts_with("list") { Access::ReadOnly } else { Access::ReadWrite },
            needs_approval: false,
            approval_requirement: None,
            problem: problem.map(str::to_owned),
            repairs: Vec::new(),
        }
    }

    fn accepted(turn: u32) -> Accepted {
        let request: RequestId = format!("r{turn}").parse().unwrap();
        Accepted::new(turn, request, UserId::derive(&["ann"]), "x", Timestamp::UNIX_EPOCH)
    }

    fn turn(calls: Vec<Call>) -> RecordedTurn {
        RecordedTurn {
            id: TurnId::new(ThreadId::derive(&["t"]), 1),
            profile: "document".to_owned(),
            parents: Vec::new(),
            accepted: accepted(1),
            calls: calls.into_iter().map(|call| (1, call)).collect(),
        }
    }

    fn policy_of(rules: Vec<Rule>) -> Policy {
        Policy { rules }
    }

    #[test]
    fn a_candidate_is_compared_with_the_current_policy_for_each_call() {
        let of_tool = |name: &str, ruling| Rule { tools: vec![name.to_owned()], ..Rule::new(name, ruling) };
        let admins = Approver { roles: vec![Role::Admin], not_by_requester: false };
        let current = policy_of(vec![of_tool("create_tag", Ruling::Allow), of_tool("delete_tag", Ruling::Deny)]);
        let candidate = policy_of(vec![
            of_tool("create_tag", Ruling::Ask(admins.clone())),
            of_tool("delete_tag", Ruling::Deny),
            of_tool("update_tag", Ruling::Ask(Approver::default())),
        ]);
        let names = ["create_tag", "delete_tag", "update_tag", "list_tags"];
        let turn = turn(names.iter().zip(1..).map(|(name, index)| call(index, name, None)).collect());
        let mut test = PolicyTest::default();
        assert!(test.add(&turn, (&current, &candidate), 10));
        let ruled = |verdict, rule: Option<&str>, approver: &Approver| RuledVerdict {
            verdict,
            rule: rule.map(str::to_owned),
            approver: approver.clone(),
        };
        let anyone = Approver::default();
        let found: Vec<_> = test.calls.iter().map(|call| (call.current.clone(), call.candidate.clone())).collect();
        let denied = ruled(Verdict::Denied, Some("delete_tag"), &anyone);
        let reads = ruled(Verdict::Runs, None, &anyone);
        assert_eq!(
            found,
            [
                (ruled(Verdict::Runs, Some("create_tag"), &anyone), ruled(Verdict::Waits, Some("create_tag"), &admins)),
                (denied.clone(), denied),
                (ruled(Verdict::Waits, None, &anyone), ruled(Verdict::Waits, Some("update_tag"), &anyone)),
                (reads.clone(), reads),
            ]
        );
        let counts = [
            ((Verdict::Runs, Verdict::Runs), 1),
            ((Verdict::Runs, Verdict::Waits), 1),
            ((Verdict::Waits, Verdict::Waits), 1),
            ((Verdict::Denied, Verdict::Denied), 1),
        ];
        assert_eq!((test.counts, test.changed), (counts.into(), 2));
    }

    #[test]
    fn the_conditions_of_a_rule_on_user_role_and_profile_apply_to_the_recorded_turn() {
        let turn = turn(vec![call(1, "create_tag", None)]);
        let rule = || Rule::new("deny", Ruling::Deny);
        let bob = UserId::derive(&["bob"]);
        for (rule, verdict) in [
            (Rule { users: vec![turn.accepted.user.clone()], ..rule() }, Verdict::Denied),
            (Rule { users: vec![bob], ..rule() }, Verdict::Waits),
            (Rule { roles: vec![Role::Member], ..rule() }, Verdict::Denied),
            (Rule { roles: vec![Role::Admin], ..rule() }, Verdict::Waits),
            (Rule { profiles: vec!["document".to_owned()], ..rule() }, Verdict::Denied),
            (Rule { profiles: vec!["extraction".to_owned()], ..rule() }, Verdict::Waits),
        ] {
            let mut test = PolicyTest::default();
            assert!(test.add(&turn, (&Policy::default(), &policy_of(vec![rule.clone()])), 1));
            assert_eq!(test.calls[0].candidate.verdict, verdict, "{rule:?}");
        }
    }

    #[test]
    fn the_number_of_calls_is_bounded() {
        let turn = turn((1..=3).map(|index| call(index, "create_tag", None)).collect());
        let mut test = PolicyTest::default();
        let policies = (&Policy::default(), &Policy::default());
        assert!(!test.add(&turn, policies, 2));
        assert_eq!((test.calls.len(), test.changed), (2, 0));
    }

    #[test]
    fn calls_that_no_policy_decided_on_and_calls_of_unread_turns_are_left_out() {
        let header = header();
        let deny = policy_of(vec![Rule { tools: vec!["delete_tag".to_owned()], ..Rule::new("d", Ruling::Deny) }]);
        let mut second = accepted(2);
        second.options.policy = deny;
        let round = |turn, calls| Entry::Round(Box::new(Round { turn, round: 1, calls, ..Round::default() }));
        let entries = vec![
            round(1, vec![call(1, "create_tag", None)]),
            Entry::Accepted(Box::new(second)),
            round(
                2,
                vec![
                    call(1, "create_tag", None),
                    call(2, "create_tag", Some("invalid arguments")),
                    call(3, "delete_tag", Some("denied")),
                ],
            ),
            Entry::Accepted(Box::new(accepted(3))),
            round(3, vec![call(1, "list_tags", None)]),
            Entry::Accepted(Box::new(accepted(4))),
        ];
        let turns = turns_of(&header, entries.into_iter());
        let found: Vec<_> = turns
            .iter()
            .map(|turn| (turn.accepted.turn, turn.calls.iter().map(|(_, call)| call.index).collect::<Vec<_>>()))
            .collect();
        assert_eq!(found, [(3, vec![1]), (2, vec![1, 3])]);
    }

    fn header() -> ThreadHeader {
        ThreadHeader {
            id: ThreadId::derive(&["t"]),
            org: OrgId::derive(&["o"]),
            user: UserId::derive(&["ann"]),
            profile: "document".to_owned(),
            documents: Vec::new(),
            subject: None,
            budget_part: None,
            job: None,
            title: String::new(),
            model: None,
            task: None,
            ephemeral: false,
            expires_at: None,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            epoch: 0,
            owner: None,
            version: 0,
            entries: 0,
            bytes: 0,
            turns: 0,
            working: folio_history::journal::WorkingState::default(),
            open_turn: None,
            unknown: folio_types::UnknownFields::default(),
        }
    }
}
