//! Random commands and random faults: longer traces than those of the exhaustive model check.

use std::sync::Arc;

use folio_history::TurnRecord;
use folio_history::journal::TurnProfile;
use folio_types::message::Usage;
use proptest::prelude::*;

use super::graph::graph;
use super::model_check::{Action, Ask, Scope, World};
use super::*;

/// A model whose repeated requests get different answers, with writes in several rounds.
fn changing_reply(turn: u32, round: u32, attempt: u32) -> Reply {
    match (turn + round + attempt) % 4 {
        0 => text_reply("done"),
        1 => calls_reply(&["r1", "w1"]),
        2 => calls_reply(&["w1", "w2", "nonsense"]),
        _ => calls_reply(&["r1"]),
    }
}

fn scope() -> Scope {
    let decide = |round| Ask::Decide(round, &[1, 2], &[]);
    let asks = [
        Ask::Chat("first", false),
        decide(1),
        decide(1),
        Ask::Decide(1, &[1], &[2]),
        decide(2),
        decide(2),
        decide(3),
        Ask::Resume,
        Ask::Cancel,
        Ask::Chat("second", true),
    ];
    let budget = super::model_check::Budget {
        crashes: 3,
        mishaps: 3,
        takeovers: 4,
        edits: 2,
        model_fails: 2,
        sweeps: 2,
        watches: 3,
        notices: 0,
        lost_children: 0,
    };
    let mut scope = Scope::empty(changing_reply, asks.map(|ask| (ask, None)).to_vec()).with(budget);
    scope.clocks = true;
    scope
}

/// Completes all work in progress without further faults.
fn run_until_idle(world: &mut World) {
    for _ in 0..2_000 {
        let next = world
            .enabled()
            .into_iter()
            .find(|action| matches!(action, Action::Step { .. } | Action::Reload { .. } | Action::Moved { .. }));
        match next {
            Some(action) => *world = world.after(action),
            None => return,
        }
    }
    panic!("the world does not become idle");
}

/// Cases of each property, unless `PROPTEST_CASES` is set.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(96)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    /// Two nodes, two turns, every fault: the invariants 1, 2, 3, 4, 7 and 9 hold in each state, and a final takeover
    /// brings the open turn to its end or pause (invariant 8).
    #[test]
    fn invariants_2_4_7_8_hold_over_random_faults(choices in proptest::collection::vec(any::<u16>(), 1..120)) {
        let mut world = World::new(Arc::new(scope()));
        for choice in choices {
            let enabled = world.enabled();
            if enabled.is_empty() {
                break;
            }
            world = world.after(enabled[usize::from(choice) % enabled.len()]);
            prop_assert_eq!(world.violation, None);
        }
        run_until_idle(&mut world);
        world.left.takeovers = 2;
        for node in 0..2 {
            world.nodes[node].live = None;
        }
        if world.enabled().contains(&Action::TakeOver { node: 0 }) {
            world = world.after(Action::TakeOver { node: 0 });
        }
        run_until_idle(&mut world);
        prop_assert_eq!(world.violation, None);
        let open = world.thread.history.open();
        prop_assert!(open.is_none_or(|record| record.pause().is_some()), "invariant 8: {:?}", open);
    }

    /// Any command in any state: no panic, every request is answered at most once, rounds and queues stay bounded
    /// (invariant 10), and the stored history can be sent (invariant 4, checked by the rig after each command).
    #[test]
    fn invariants_4_and_10_hold_over_random_commands(choices in proptest::collection::vec((0u8..18, any::<u8>()), 1..80)) {
        let mut rig = Rig::new();
        for (kind, size) in choices {
            random_command(&mut rig, kind, u32::from(size));
            let rounds = rig.machine.history().turns().iter().map(|record| record.rounds.len()).max();
            prop_assert!(rounds.unwrap_or_default() <= limits::ROUNDS_MAX as usize, "invariant 10");
            prop_assert!(rig.machine.deferred.len() <= DEFERRED_MAX + limits::CALLS_PER_ROUND_MAX, "invariant 10");
        }
        for (ticket, _) in &rig.answers {
            rig.answer(*ticket);
        }
        rig.check_stored();
        // A cancel ends the open turn in every state (invariant 8).
        rig.run();
        let ticket = rig.cancel();
        rig.run();
        rig.check_stored();
        let ended = rig.machine.history().last().is_none_or(|record| record.ended.is_some());
        prop_assert!(ended && rig.answer(ticket).is_some(), "invariant 8");
    }

    /// The same decisions get the same answer at every time and on every node; others are refused
    /// (invariant 7).
    #[test]
    fn invariant_7_holds_for_any_decisions(approved in proptest::collection::vec(any::<bool>(), 1..6), crash in any::<bool>()) {
        let mut rig = Rig::with_calls(&vec!["w1"; approved.len()]);
        let decisions: Vec<_> = approved.iter().zip(1..).map(|(yes, at)| if *yes { approve(at) } else { reject(at) }).collect();
        let first = rig.decide(1, &decisions);
        rig.finish();
        if crash {
            rig.crash();
        }
        rig.wait(10_000);
        let again = rig.decide(1, &decisions);
        prop_assert_eq!(rig.decided(first), rig.decided(again));
        let other: Vec<_> = approved.iter().zip(1..).map(|(yes, at)| if *yes { reject(at) } else { approve(at) }).collect();
        let refused = rig.decide(1, &other);
        prop_assert_eq!(rig.refusal(refused), Some(Reason::DecisionConflict));
        prop_assert_eq!(rig.aggregates.effects.len(), approved.iter().filter(|yes| **yes).count(), "invariant 2");
    }
}

fn random_command(rig: &mut Rig, kind: u8, size: u32) {
    let calls: Vec<&str> = ["r1", "w1", "w2", "r2", "bad"]
        .into_iter()
        .cycle()
        .skip(size as usize % 5)
        .take(1 + size as usize % 6)
        .collect();
    let round = rig.machine.history().last().and_then(TurnRecord::newest_round).map_or(1, |round| round.round);
    match kind {
        0 | 1 => drop(rig.start_as("hello", |start| {
            start.if_busy = if size.is_multiple_of(2) { IfBusy::Interrupt } else { IfBusy::Reject };
            start.if_pending = if size.is_multiple_of(3) { IfPending::Supersede } else { IfPending::Reject };
            start.options.auto_approve = size.is_multiple_of(5);
            start.truncate_to = (size.is_multiple_of(7)).then_some(size / 7);
            start.options.summarizes = size.is_multiple_of(2);
            if size % 4 == 1 {
                start.options.profile = Some(TurnProfile { graph: graph().into(), ..rig::profile() });
            }
        })),
        2..=5 if rig.calling().is_some() => rig.reply(calls_reply(&calls)),
        6 if rig.calling().is_some() => {
            let answer = if size.is_multiple_of(2) { "done" } else { r#"{"intent": "sum", "answer": "42"}"# };
            rig.reply(text_reply(answer));
        }
        7 if rig.calling().is_some() => rig.model_fails(size.is_multiple_of(2)),
        8 | 9 => drop(rig.step()),
        10 => rig.run(),
        11 => drop(rig.decide_as(round, &[approve(1 + size % 4), reject(2 + size % 3)], |decide| {
            decide.reject_undecided = size.is_multiple_of(2);
            decide.continue_auto_approved = size.is_multiple_of(3);
        })),
        12 => drop(rig.decide_as(round, &[], |decide| decide.reject_undecided = size.is_multiple_of(2))),
        13 if size.is_multiple_of(4) => drop(rig.cancel()),
        14 => drop(rig.resume()),
        15 if size.is_multiple_of(2) => {
            rig.crash();
            if size.is_multiple_of(4) {
                rig.send(Command::TakeOver);
            }
        }
        17 if size.is_multiple_of(2) => {
            let ticket = rig.ticket();
            rig.send(Command::Rename { ticket, title: "other".into(), request: None });
        }
        16 => rig.wait(i64::from(size) * 4),
        _ => {
            // Stale answers and unknown calls.
            let outcome = ToolOutcome::Unknown;
            rig.send(Command::ToolFinished { round: size % 4, index: size % 5, outcome });
            let usage = Usage { model_calls: 1, ..Usage::default() };
            rig.send(Command::Closed { round: size % 4, index: size % 5, result: None, usage });
            rig.send(Command::Planned {
                round: size % 4,
                index: size % 5,
                plan: Err(PlanFailure::Failed("late".into())),
            });
            rig.send(Command::AppendUnknown { batch: u128::from(size) });
            rig.send(Command::Expire { turn: size % 3 });
            let ticket = rig.ticket();
            rig.send(Command::Cancel { ticket, turn: 1_000 });
        }
    }
}

/// A regression of a failure that proptest found at the end of a turn.
#[test]
fn a_turn_that_is_cancelled_at_each_step_ends_cancelled() {
    for steps in 0..8 {
        let mut rig = Rig::with_calls(&["r1", "w1", "w2"]);
        rig.decide(1, &[approve(2), approve(3)]);
        for _ in 0..steps {
            rig.step();
        }
        rig.cancel();
        rig.run();
        assert_eq!(rig.end(), Some(&End::Cancelled), "{steps} steps");
    }
}
