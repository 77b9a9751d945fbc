//! The scopes of the search: requests, model answers, faults, and store rules.

use std::sync::Arc;

use folio_history::History;
use folio_history::command::IfPending;
use folio_history::journal::{Decision, TurnProfile};
use folio_resources::policy::{Approver, Condition, Policy, Rule, Ruling, Test};
use serde_json::json;
use stateright::{Checker, HasDiscoveries, Model, Property};

use super::super::children::TASKS;
use super::super::graph::graph;
use super::super::rig::{self, calls_reply, text_reply};
use super::faults::Faults;
use super::group::{NO_GROUP, OUTLIVES};
use super::invariants::{
    COMMITTED_LOST, EXPIRED_AND_RAN, HIDDEN_EFFECT, NEVER_RUNS, NOT_FOUND, OTHER_CALL, OVERWRITTEN, SUPERSEDED,
    UNANSWERED, UNAPPROVED, UNKNOWN_NUMBER, UNRESOLVED,
};
use super::world::{Action, AskState, Budget, Late, World};
use crate::turn::{Command, Reply, Start, Ticket};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Ask {
    /// A chat with this request id. If true, its writes need no approval.
    Chat(&'static str, bool),
    /// Decisions on a round: the approved calls and the rejected calls.
    Decide(u32, &'static [u32], &'static [u32]),
    Cancel,
    Resume,
}

#[derive(Debug, Clone)]
pub(in super::super) struct Scope {
    /// The requests; each with the request that must be answered before it is sent.
    pub asks: Vec<(Ask, Option<usize>)>,
    /// The model's answers by turn, round and attempt.
    pub script: fn(u32, u32, u32) -> Reply,
    pub budget: Budget,
    pub clocks: bool,
    pub faults: Faults,
    /// The policy of the turns.
    pub rules: Vec<Rule>,
    /// The recorded profile of the turns. None: unknown, as in old entries.
    pub profile: Option<TurnProfile>,
    /// Number of children of the group.
    pub children: usize,
    /// If true, ten messages have left the window, and the turns summarize them.
    pub summarizes: bool,
    /// If true, the search starts when the turn of the first request waits at node 0.
    pub from_pause: bool,
}

impl Scope {
    /// Returns a scope of a turn that waits at node 0, with these requests.
    pub(in super::super) fn paused(script: fn(u32, u32, u32) -> Reply, asks: &[Ask]) -> Self {
        let mut all = vec![(Ask::Chat("first", false), None)];
        all.extend(asks.iter().map(|ask| (*ask, None)));
        Self { from_pause: true, ..Self::empty(script, all) }
    }

    /// Returns a scope of an empty thread, with these requests.
    pub(in super::super) fn empty(script: fn(u32, u32, u32) -> Reply, asks: Vec<(Ask, Option<usize>)>) -> Self {
        let budget = Budget::default();
        let (faults, rules) = (Faults::default(), Vec::new());
        Self {
            asks,
            script,
            budget,
            clocks: false,
            faults,
            rules,
            profile: None,
            children: 0,
            summarizes: false,
            from_pause: false,
        }
    }

    pub(in super::super) fn with(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    fn rules(mut self, rules: Vec<Rule>) -> Self {
        self.rules = rules;
        self
    }

    fn profile(mut self, profile: TurnProfile) -> Self {
        self.profile = Some(profile);
        self
    }

    fn children(mut self, children: usize) -> Self {
        self.children = children;
        self
    }

    fn summarizes(mut self) -> Self {
        self.summarizes = true;
        self
    }

    fn clocks(mut self) -> Self {
        self.clocks = true;
        self
    }

    pub(in super::super) fn may_send(&self, ask: usize, states: &[AskState]) -> bool {
        let after = self.asks.get(ask).and_then(|(_, after)| *after);
        after.is_none_or(|after| states.get(after) == Some(&AskState::Answered))
    }

    /// Returns the round that a request decides.
    pub(in super::super) fn decides(&self, ask: usize) -> Option<u32> {
        match self.asks.get(ask)?.0 {
            Ask::Decide(round, ..) => Some(round),
            _ => None,
        }
    }

    pub(in super::super) fn same_decisions(&self, one: usize, other: usize) -> bool {
        self.asks.get(one).map(|(ask, _)| ask) == self.asks.get(other).map(|(ask, _)| ask)
    }

    /// Returns the command of a request.
    pub(in super::super) fn command(&self, ask: usize, history: &History) -> Command {
        let ticket = Ticket(ask as u64);
        let turn = history.last().map_or(1, |record| record.number());
        match self.asks[ask].0 {
            Ask::Chat(name, auto) => {
                let mut start = Start { if_pending: IfPending::Supersede, ..rig::start(ticket, name, name) };
                start.options.auto_approve = auto;
                start.options.policy = Policy { rules: self.rules.clone() };
                start.options.profile = self.profile.clone();
                start.options.summarizes = self.summarizes;
                Command::Start(Box::new(start))
            }
            Ask::Decide(round, approved, rejected) => {
                let approved = approved.iter().map(|index| (*index, Decision::Approve));
                let rejected = rejected.iter().map(|index| (*index, Decision::Reject { reason: None }));
                let decisions: Vec<_> = approved.chain(rejected).collect();
                Command::Decide(Box::new(rig::decide(ticket, turn, round, &decisions)))
            }
            Ask::Cancel => Command::Cancel { ticket, turn },
            Ask::Resume => Command::Resume { ticket, turn },
        }
    }
}

#[derive(Debug, Clone)]
struct Search(Arc<Scope>);

impl Model for Search {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let mut world = World::new(self.0.clone());
        if self.0.from_pause {
            world.act(Action::Send { ask: 0, node: 0 });
            while !world.is_quiet() {
                world.act(Action::Step { node: 0 });
            }
        }
        vec![world]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        actions.extend(world.enabled());
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        Some(world.after(action))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("the invariants hold", |_, world: &World| world.violation.is_none())]
    }
}

#[derive(Debug, Clone, Copy)]
enum Bound {
    /// Breadth first, to about as many states.
    States(usize),
    /// Breadth first, to traces of so many steps.
    Steps(usize),
    /// To the last state; depth first, which needs less memory.
    All,
}

/// Returns the bound of a search without faults.
fn bound() -> Bound {
    match std::env::var("FOLIO_CHECK_DEPTH").ok().and_then(|text| text.parse::<u32>().ok()) {
        None => Bound::States(8_000),
        Some(u32::MAX) => Bound::All,
        Some(steps) => Bound::Steps(steps as usize),
    }
}

fn search(name: &str, scope: Scope, bound: Bound) -> Option<(Vec<Action>, World)> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let checker = Search(Arc::new(scope)).checker().threads(threads).finish_when(HasDiscoveries::AnyFailures);
    match bound {
        Bound::States(states) => report(name, checker.target_state_count(states).spawn_bfs()),
        // A path of n steps has n + 1 states, and stateright counts these.
        Bound::Steps(steps) => report(name, checker.target_max_depth(steps.saturating_add(1)).spawn_bfs()),
        Bound::All => report(name, checker.spawn_dfs()),
    }
}

fn report(name: &str, checker: impl Checker<Search>) -> Option<(Vec<Action>, World)> {
    let started = std::time::Instant::now();
    let checker = checker.join();
    println!("{name}: {} states, depth {}, {:?}", checker.unique_state_count(), checker.max_depth(), started.elapsed());
    let path = checker.discovery("the invariants hold")?;
    let world = path.last_state().clone();
    Some((path.into_actions(), world))
}

/// Searches a scope without faults. No invariant may be violated.
fn assert_holds(name: &str, scope: Scope) {
    if let Some((trace, world)) = search(name, scope, bound()) {
        panic!("{name}: {:?} after {trace:#?}\n{:#?}", world.violation, world.thread.row.entries);
    }
}

/// Searches a scope with a fault. The search must find a violation that the omitted step prevents.
fn assert_finds(name: &str, mut scope: Scope, fault: fn(&mut Faults), expected: &[&str]) {
    fault(&mut scope.faults);
    let Some((trace, world)) = search(name, scope, Bound::States(400_000)) else { panic!("{name}: nothing was found") };
    println!("{name}: {:?} in {} steps: {trace:?}", world.violation, trace.len());
    assert!(expected.contains(&world.violation.unwrap_or_default()), "{name}: {:?} after {trace:#?}", world.violation);
}

const APPROVE: Ask = Ask::Decide(1, &[1], &[]);
const APPROVE_BOTH: Ask = Ask::Decide(1, &[1, 2], &[]);

/// One write, then the answer.
fn one_write(_: u32, round: u32, _: u32) -> Reply {
    if round == 1 { calls_reply(&["w1"]) } else { text_reply("done") }
}

/// Two writes on one target, then the answer.
fn two_writes(_: u32, round: u32, _: u32) -> Reply {
    if round == 1 { calls_reply(&["w1", "w2"]) } else { text_reply("done") }
}

/// Two writes by two tools on targets of their own, then the answer.
fn two_tools(_: u32, round: u32, _: u32) -> Reply {
    if round == 1 { calls_reply(&["w1", "wy"]) } else { text_reply("done") }
}

/// A summary (round 0), one write, then the answer.
fn summary_first(_: u32, round: u32, _: u32) -> Reply {
    match round {
        0 => text_reply("They talked."),
        1 => calls_reply(&["w1"]),
        _ => text_reply("done"),
    }
}

/// Two writes, the second of which refers to the first, then the answer.
fn chained_writes(_: u32, round: u32, _: u32) -> Reply {
    if round > 1 {
        return text_reply("done");
    }
    let mut reply = calls_reply(&["w1", "wy"]);
    reply.calls[1].arguments = json!({ "on": "wy", "x_id": "$w1.made_id" });
    reply
}

/// A write in each of two rounds.
fn two_pauses(_: u32, round: u32, _: u32) -> Reply {
    if round <= 2 { calls_reply(&["w1"]) } else { text_reply("done") }
}

/// A group of children in the first turn, then the answer.
fn one_group(turn: u32, round: u32, _: u32) -> Reply {
    if (turn, round) == (1, 1) { calls_reply(&[TASKS]) } else { text_reply("done") }
}

/// A write, a wrong answer, and the answer.
fn wrong_answer(_: u32, round: u32, _: u32) -> Reply {
    match round {
        1 => calls_reply(&["w2"]),
        2 => rig::wrong_reply("seven"),
        _ => text_reply("{}"),
    }
}

/// The nodes of a graph: the classification, the answer, and the memory.
fn three_nodes(_: u32, round: u32, _: u32) -> Reply {
    match round {
        1 => text_reply(r#"{"intent": "sum"}"#),
        2 => text_reply(r#"{"answer": "42"}"#),
        _ => text_reply(r#"{"summary": "done"}"#),
    }
}

/// The nodes of a graph, of which the second one writes before its answer.
fn a_node_writes(_: u32, round: u32, _: u32) -> Reply {
    match round {
        1 => text_reply(r#"{"intent": "sum"}"#),
        2 => calls_reply(&["w2"]),
        3 => text_reply(r#"{"answer": "42"}"#),
        _ => text_reply(r#"{"summary": "done"}"#),
    }
}

/// A write, another one where it is requested again.
fn of_two_minds(_: u32, round: u32, attempt: u32) -> Reply {
    match (round, attempt) {
        (1, 1) => calls_reply(&["w1"]),
        (1, _) => calls_reply(&["w2"]),
        _ => text_reply("done"),
    }
}

fn budget(crashes: u8, mishaps: u8, takeovers: u8) -> Budget {
    Budget { crashes, mishaps, takeovers, ..Budget::default() }
}

#[test]
fn two_clients_approve_and_a_node_dies() {
    let budget = Budget { watches: 1, ..budget(1, 1, 1) };
    assert_holds("two clients", Scope::paused(one_write, &[APPROVE, APPROVE]).with(budget));
}

#[test]
fn approve_against_cancel() {
    assert_holds("approve, cancel", Scope::paused(one_write, &[APPROVE, Ask::Cancel]).with(budget(1, 1, 1)));
}

#[test]
fn approve_against_expiry() {
    assert_holds("approve, expiry", Scope::paused(one_write, &[APPROVE, APPROVE]).with(budget(1, 0, 1)).clocks());
}

#[test]
fn different_decisions() {
    let other = Ask::Decide(1, &[1], &[2]);
    assert_holds("different decisions", Scope::paused(two_writes, &[APPROVE_BOTH, other]).with(budget(1, 0, 1)));
}

#[test]
fn two_writes_and_a_concurrent_edit_by_another_user() {
    let budget = Budget { edits: 1, ..budget(1, 1, 1) };
    assert_holds("two writes", Scope::paused(two_writes, &[APPROVE_BOTH]).with(budget));
}

#[test]
fn two_tools_against_cancel() {
    let asks = [APPROVE_BOTH, Ask::Cancel];
    assert_holds("two tools", Scope::paused(two_tools, &asks).with(budget(1, 0, 1)));
}

#[test]
fn decisions_in_parts_against_cancel() {
    let parts = [Ask::Decide(1, &[1], &[]), Ask::Decide(1, &[2], &[]), Ask::Cancel];
    assert_holds("in parts", Scope::paused(two_writes, &parts).with(budget(1, 0, 1)));
}

#[test]
fn a_second_pause() {
    let decides = [APPROVE, Ask::Decide(2, &[1], &[])];
    assert_holds("second pause", Scope::paused(two_pauses, &decides).with(budget(1, 0, 1)).clocks());
}

#[test]
fn a_profile_in_which_one_of_two_writes_waits() {
    let budget = Budget { model_fails: 1, ..budget(1, 1, 1) };
    let asks = [Ask::Decide(1, &[2], &[]), Ask::Resume];
    assert_holds("profile", Scope::paused(two_writes, &asks).profile(rig::profile()).with(budget));
}

#[test]
fn an_answer_that_is_corrected() {
    let budget = Budget { model_fails: 1, ..budget(1, 1, 1) };
    let asks = [APPROVE, Ask::Resume];
    assert_holds("correction", Scope::paused(wrong_answer, &asks).profile(rig::json_profile()).with(budget));
}

#[test]
fn a_turn_with_nodes_whose_owner_dies_or_whose_user_cancels() {
    let profile = || TurnProfile { graph: graph().into(), ..rig::profile() };
    let budget = Budget { model_fails: 1, watches: 1, ..budget(1, 1, 1) };
    for other in [Ask::Resume, Ask::Cancel, Ask::Chat("second", true)] {
        let asks = vec![(Ask::Chat("first", true), None), (other, None)];
        assert_holds("nodes", Scope::empty(three_nodes, asks).profile(profile()).with(budget));
    }
}

#[test]
fn a_node_whose_write_is_approved_or_cancelled() {
    let profile = TurnProfile { graph: graph().into(), ..rig::profile() };
    let asks = [Ask::Decide(2, &[1], &[]), Ask::Cancel];
    let budget = Budget { model_fails: 1, ..budget(1, 1, 1) };
    assert_holds("node that writes", Scope::paused(a_node_writes, &asks).profile(profile).with(budget));
}

#[test]
fn a_summary_whose_owner_dies_or_whose_user_cancels() {
    let budget = Budget { model_fails: 1, watches: 1, ..budget(1, 1, 1) };
    for other in [Ask::Resume, Ask::Cancel, Ask::Chat("second", true)] {
        let asks = vec![(Ask::Chat("first", true), None), (other, None)];
        assert_holds("summary", Scope::empty(summary_first, asks).summarizes().with(budget));
    }
}

#[test]
fn a_write_that_refers_to_another_one() {
    let asks = [APPROVE_BOTH, Ask::Decide(1, &[2], &[1]), Ask::Cancel];
    assert_holds("chained writes", Scope::paused(chained_writes, &asks).with(budget(1, 1, 1)));
    let auto = vec![(Ask::Chat("first", true), None), (Ask::Resume, None)];
    let budget = Budget { model_fails: 1, edits: 1, ..budget(1, 1, 1) };
    assert_holds("chained writes without approval", Scope::empty(chained_writes, auto).with(budget));
}

#[test]
fn a_write_whose_ids_need_another_approval() {
    let condition = Condition { path: "x_id".into(), test: Test::Equals(json!("x_1")) };
    let ask = Rule { arguments: vec![condition], ..Rule::new("a rule", Ruling::Ask(Approver::default())) };
    let asks = [APPROVE_BOTH, APPROVE_BOTH, Ask::Decide(2, &[1], &[])];
    let scope = Scope::paused(chained_writes, &asks).rules(vec![ask]);
    assert_holds("approved again", scope.with(budget(1, 1, 1)).clocks());
}

#[test]
fn an_intent_without_ids_is_found() {
    let scope = Scope::paused(chained_writes, &[APPROVE_BOTH]);
    assert_finds("ids in intent", scope, |faults| faults.ids_dropped = true, &[UNRESOLVED]);
}

#[test]
fn writes_without_approval_and_a_model_that_changes_its_mind() {
    let asks = vec![(Ask::Chat("first", true), None), (Ask::Resume, None)];
    let budget = Budget { model_fails: 1, ..budget(2, 1, 2) };
    assert_holds("auto-approved", Scope::empty(of_two_minds, asks).with(budget));
}

#[test]
fn writes_that_are_refused_before_they_begin() {
    let budget = Budget { model_fails: 1, ..budget(1, 1, 1) };
    assert_holds("refused, resumed", Scope::paused(two_writes, &[APPROVE_BOTH, Ask::Resume]).with(budget));
    assert_holds("refused, approved again", Scope::paused(two_writes, &[APPROVE_BOTH, APPROVE_BOTH]).with(budget));
}

#[test]
fn a_group_of_children_whose_owner_dies() {
    let asks = vec![(Ask::Chat("first", true), None), (Ask::Resume, None)];
    let budget = Budget { notices: 3, lost_children: 1, ..budget(1, 1, 1) };
    assert_holds("group", Scope::empty(one_group, asks).children(2).with(budget));
}

#[test]
fn a_group_of_children_against_cancel() {
    let asks = vec![(Ask::Chat("first", true), None), (Ask::Cancel, None)];
    let budget = Budget { notices: 2, ..budget(1, 1, 1) };
    assert_holds("group, cancel", Scope::empty(one_group, asks).children(2).with(budget));
}

#[test]
fn a_group_of_children_is_approved_and_superseded() {
    let asks = [APPROVE, Ask::Chat("second", true)];
    let budget = Budget { notices: 2, ..budget(1, 0, 1) };
    assert_holds("group, superseded", Scope::paused(one_group, &asks).children(2).with(budget));
}

#[test]
fn a_child_whose_start_is_not_prevented_outlives_its_parent() {
    let asks = vec![(Ask::Chat("first", true), None), (Ask::Cancel, None)];
    let scope = Scope::empty(one_group, asks).children(1).with(budget(0, 1, 0));
    assert_finds("prevention", scope, |faults| faults.prevention_dropped = true, &[OUTLIVES]);
}

#[test]
fn children_without_a_group_in_the_journal_are_lost_with_their_owner() {
    let asks = vec![(Ask::Chat("first", true), None)];
    let scope = Scope::empty(one_group, asks).children(1);
    assert_finds("group recorded", scope, |faults| faults.group_dropped = true, &[NO_GROUP]);
}

#[test]
fn requests_and_the_sweep() {
    let asks = vec![
        (Ask::Chat("first", false), None),
        (Ask::Chat("first", false), None),
        (Ask::Chat("second", false), Some(0)),
        (Ask::Resume, Some(0)),
    ];
    let budget = Budget { sweeps: 1, model_fails: 1, ..budget(1, 0, 1) };
    assert_holds("requests", Scope::empty(one_write, asks).with(budget));
}

#[test]
fn without_the_fence_a_committed_entry_is_lost() {
    let scope = Scope::paused(one_write, &[APPROVE, APPROVE]);
    assert_finds("fence", scope, |faults| faults.fence_off = true, &[COMMITTED_LOST]);
}

#[test]
fn without_the_op_row_as_condition_a_late_write_happens_after_closing() {
    let scope = Scope::paused(one_write, &[APPROVE, Ask::Cancel]);
    assert_finds("op row", scope, |faults| faults.op_row_ignored = true, &[HIDDEN_EFFECT]);
}

#[test]
fn without_closing_a_late_write_happens_after_the_end() {
    let scope = Scope::paused(one_write, &[APPROVE, Ask::Cancel]);
    assert_finds("closing", scope, |faults| faults.close_dropped = true, &[HIDDEN_EFFECT]);
}

#[test]
fn a_conflict_that_is_only_read_is_wrong_where_the_write_was_late() {
    let scope = Scope::paused(one_write, &[APPROVE]).with(budget(1, 0, 1));
    assert_finds("closing by conflict", scope, |faults| faults.conflict_unclosed = true, &[HIDDEN_EFFECT]);
}

#[test]
fn a_version_that_is_read_later_overwrites_an_edit() {
    let scope = Scope::paused(one_write, &[APPROVE]).with(Budget { edits: 1, ..Budget::default() });
    assert_finds("expected version", scope, |faults| faults.expected_ignored = true, &[OVERWRITTEN]);
}

#[test]
fn turn_expired_before_its_end_is_committed_is_wrong() {
    let scope = Scope::paused(one_write, &[APPROVE, APPROVE]).clocks();
    assert_finds("expired first", scope, |faults| faults.expired_returned_early = true, &[EXPIRED_AND_RAN]);
}

#[test]
fn expiry_evaluated_before_recorded_decisions_is_wrong() {
    let scope = Scope::paused(one_write, &[APPROVE, APPROVE]).clocks();
    assert_finds("recorded first", scope, |faults| faults.expiry_before_recorded = true, &[EXPIRED_AND_RAN]);
}

#[test]
fn decided_calls_without_recovery_never_run_or_run_unseen() {
    let scope = Scope::paused(one_write, &[APPROVE]).with(budget(1, 0, 1));
    assert_finds("carried", scope, |faults| faults.recovery_dropped = true, &[NEVER_RUNS, HIDDEN_EFFECT]);
}

#[test]
fn a_takeover_without_an_append_calls_the_model_under_the_same_key() {
    let scope = Scope::paused(one_write, &[APPROVE, APPROVE]).with(budget(1, 0, 3));
    assert_finds(
        "takeover",
        scope,
        |faults| faults.takeover_dropped = true,
        &["two model calls have the same ledger key"],
    );
}

#[test]
fn a_cancel_without_its_entry_that_dies_half_way_leaves_an_approved_call_aborted() {
    let scope = Scope::paused(one_write, &[APPROVE, Ask::Cancel]).with(budget(1, 0, 1));
    assert_finds("closing entry", scope, |faults| faults.closing_entry_dropped = true, &[NEVER_RUNS]);
}

#[test]
fn an_intent_without_its_assistant_message_shows_another_call() {
    let asks = vec![(Ask::Chat("first", true), None), (Ask::Resume, Some(0))];
    let scope = Scope::empty(of_two_minds, asks).with(budget(1, 0, 0));
    assert_finds("round with intent", scope, |faults| faults.round_dropped = true, &[OTHER_CALL]);
}

#[test]
fn decisions_that_are_not_recorded_leave_an_effect_without_approval() {
    let scope = Scope::paused(one_write, &[APPROVE]);
    assert_finds("decisions recorded", scope, |faults| faults.decisions_dropped = true, &[UNAPPROVED]);
}

#[test]
fn an_outcome_after_the_next_pause_is_lost_with_its_node() {
    let scope = Scope::paused(two_pauses, &[APPROVE, Ask::Decide(2, &[1], &[])]).with(budget(1, 0, 0)).clocks();
    assert_finds("outcome before pause", scope, |faults| faults.outcome_dropped = true, &[UNANSWERED]);
}

#[test]
fn an_open_turn_whose_row_is_written_later_is_found_by_no_sweep() {
    let asks = vec![(Ask::Chat("first", false), None)];
    let scope = Scope::empty(one_write, asks).with(budget(1, 0, 0));
    assert_finds("row first", scope, |faults| faults.row_late = true, &[NOT_FOUND]);
}

#[test]
fn a_row_without_epoch_is_removed_by_the_previous_owner() {
    let asks = vec![(Ask::Chat("first", false), None), (Ask::Resume, Some(0))];
    let scope = Scope::empty(one_write, asks).with(Budget { model_fails: 1, ..Budget::default() });
    assert_finds("epoch in row", scope, |faults| faults.epoch_dropped = true, &[NOT_FOUND]);
}

#[test]
fn an_unguarded_removal_removes_the_row_of_an_append_in_flight() {
    let asks = vec![(Ask::Chat("first", false), None), (Ask::Resume, Some(0))];
    let scope = Scope::empty(one_write, asks).with(Budget { model_fails: 1, sweeps: 1, ..Budget::default() });
    assert_finds("guarded removal", scope, |faults| faults.removal_unguarded = true, &[NOT_FOUND]);
}

#[test]
fn a_request_that_is_not_read_again_supersedes_the_turn_of_the_next() {
    let asks = vec![
        (Ask::Chat("first", false), None),
        (Ask::Chat("first", false), None),
        (Ask::Chat("second", false), Some(0)),
    ];
    let scope = Scope::empty(one_write, asks);
    assert_finds("request read again", scope, |faults| faults.requests_hidden = true, &[SUPERSEDED]);
}

#[test]
fn a_closing_event_without_its_number_in_the_journal_is_sent_twice() {
    let scope = Scope::paused(one_write, &[APPROVE]).with(Budget { watches: 1, ..budget(1, 0, 1) });
    assert_finds("closing number", scope, |faults| faults.closing_number_dropped = true, &[UNKNOWN_NUMBER]);
}

#[test]
fn a_write_that_was_sent_may_arrive_after_its_node_died() {
    let mut world = World::new(Arc::new(Scope::paused(one_write, &[APPROVE]).with(budget(1, 0, 1))));
    let model = Search(world.scope.clone());
    world = model.init_states().remove(0);
    for action in
        [Action::Send { ask: 1, node: 0 }, Action::Step { node: 0 }, Action::Step { node: 0 }, Action::Step { node: 0 }]
    {
        world.act(action);
    }
    world.act(Action::Crash { node: 0 });
    assert!(matches!(world.late.first(), Some(Late::Write(..))), "{:?}", world.late);
    world.act(Action::Arrive { late: 0 });
    assert_eq!(world.aggregates.calls(), ["1.1.1"]);
}
