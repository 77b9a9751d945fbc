//! Model check of a budget: two owners, one of which is stale, change the stored row. A write is applied and answered, is
//! applied but its answer is lost, arrives later, or never arrives. An owner dies at any time. In each reachable state, the
//! calls that were permitted cost at most the budget, and each part covers its own parts.
//!
//! The search is breadth first up to a number of states or, with `FOLIO_CHECK_DEPTH` (`cargo xtask check-model`), up to
//! that many steps. A fault omits one rule; the search must find the overdraft that the rule prevents.

use std::collections::{BTreeMap, HashSet, VecDeque};

use super::{Allotment, Budget, Share, is_within, parent_of};

const CREDITS: u64 = 3;
/// Maximum cost of each call.
const COST: u64 = 2;
const OWNERS: usize = 2;
/// One call of each owner suffices for an overdraft.
const CALLS_PER_OWNER: usize = 1;
/// Maximum number of writes that arrive late.
const LATE_MAX: usize = 1;

/// The parts of a search, by path.
struct Scope {
    name: &'static str,
    /// Parts that owners grant and take back.
    parts: &'static [&'static str],
    /// Parts from which calls are paid.
    payers: &'static [&'static str],
    /// Maximum number of states without `FOLIO_CHECK_DEPTH`.
    states_max: usize,
}

/// A root and its child, such as an item of a job. All reachable states are about 270,000.
const CHILD: Scope = Scope { name: "child", parts: &["child"], payers: &["", "child"], states_max: 30_000 };
/// A root and a group with an item, such as a turn and its job. The reachable states are more than 1,500,000.
const GROUP: Scope =
    Scope { name: "group", parts: &["group", "group/1"], payers: &["", "group/1"], states_max: 60_000 };

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// A write replaces the row without the condition.
    Unconditional,
    /// A returned part does not count its reservations as used.
    ReservationsForgotten,
    /// A returned group does not count what its items used.
    ItemsForgotten,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Grant { part: &'static str },
    TakeBack { part: &'static str },
    Reserve { payer: &'static str, call: usize },
    Settle { payer: &'static str, call: usize, charge: u64 },
}

/// A write that an owner has prepared from the row that it read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Write {
    before: Option<Budget>,
    after: Budget,
    step: Step,
}

/// A permitted call.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    payer: &'static str,
    /// Actual cost. None: the call is in flight, or its owner died.
    charge: Option<u64>,
    is_settled: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Owner {
    is_dead: bool,
    prepared: Option<Write>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct World {
    stored: Option<Budget>,
    owners: [Owner; OWNERS],
    late: Vec<Write>,
    /// Permitted calls by owner and number.
    calls: BTreeMap<(usize, usize), Call>,
}

fn key(owner: usize, call: usize) -> String {
    format!("{owner}.{call}")
}

/// Executes a step on the row that an owner read. None: the step is refused.
fn changed(before: Option<&Budget>, owner: usize, step: &Step, fault: Fault) -> Option<Budget> {
    let mut budget = before.cloned().unwrap_or_else(|| Budget::new(1, CREDITS));
    match step {
        Step::Grant { part } => budget.grant(part, Share::Equal { open: 1 }).ok()?,
        Step::TakeBack { part } => {
            for (path, returned) in budget.parts.iter_mut().filter(|(path, _)| is_within(path, part)) {
                match fault {
                    Fault::ReservationsForgotten => returned.reserved.clear(),
                    Fault::ItemsForgotten if path != part => *returned = Allotment::default(),
                    _ => {}
                }
            }
            budget.take_back(part);
        }
        Step::Reserve { payer, call } => budget.reserve(payer, &key(owner, *call), COST).ok()?,
        Step::Settle { payer, call, charge } => budget.settle(payer, &key(owner, *call), *charge),
    }
    Some(budget)
}

impl World {
    fn applies(&self, write: &Write, fault: Fault) -> bool {
        fault == Fault::Unconditional || self.stored == write.before
    }

    /// Records that an owner knows that its step is stored.
    fn confirm(&mut self, owner: usize, step: &Step) {
        match step {
            Step::Reserve { payer, call } => {
                let new = Call { payer, charge: None, is_settled: false };
                self.calls.entry((owner, *call)).or_insert(new);
            }
            Step::Settle { call, .. } => {
                if let Some(call) = self.calls.get_mut(&(owner, *call)) {
                    call.is_settled = true;
                }
            }
            Step::Grant { .. } | Step::TakeBack { .. } => {}
        }
    }

    /// Returns the steps that an owner may prepare. An owner makes a call once, and settles the calls that it made.
    fn steps(&self, owner: usize, scope: &Scope) -> Vec<Step> {
        let parts = scope.parts.iter().copied();
        let mut steps: Vec<Step> = parts.flat_map(|part| [Step::Grant { part }, Step::TakeBack { part }]).collect();
        for call in 0..CALLS_PER_OWNER {
            match self.calls.get(&(owner, call)) {
                None => steps.extend(scope.payers.iter().copied().map(|payer| Step::Reserve { payer, call })),
                Some(made) if !made.is_settled => {
                    let charges = made.charge.map_or(vec![0, COST], |charge| vec![charge]);
                    steps.extend(charges.into_iter().map(|charge| Step::Settle { payer: made.payer, call, charge }));
                }
                Some(_) => {}
            }
        }
        steps
    }

    fn next(&self, scope: &Scope, fault: Fault) -> Vec<Self> {
        let mut worlds = Vec::new();
        for (owner, Owner { is_dead, prepared }) in self.owners.iter().enumerate() {
            if *is_dead {
                continue;
            }
            let mut dead = self.clone();
            dead.owners[owner] = Owner { is_dead: true, prepared: None };
            worlds.push(dead);
            match prepared {
                None => {
                    for step in self.steps(owner, scope) {
                        let Some(after) = changed(self.stored.as_ref(), owner, &step, fault) else { continue };
                        let mut world = self.clone();
                        if let Step::Settle { call, charge, .. } = &step
                            && let Some(call) = world.calls.get_mut(&(owner, *call))
                        {
                            call.charge = Some(*charge);
                        }
                        if self.stored.as_ref() == Some(&after) {
                            // An unchanged row needs no write.
                            world.confirm(owner, &step);
                        } else {
                            let before = self.stored.clone();
                            world.owners[owner].prepared = Some(Write { before, after, step });
                        }
                        worlds.push(world);
                    }
                }
                Some(write) => {
                    let mut sent = self.clone();
                    sent.owners[owner].prepared = None;
                    // The write never arrives, or it is refused: the owner reads the row again.
                    worlds.push(sent.clone());
                    if self.late.len() < LATE_MAX {
                        let mut late = sent.clone();
                        late.late.push(write.clone());
                        worlds.push(late);
                    }
                    if self.applies(write, fault) {
                        sent.stored = Some(write.after.clone());
                        // The answer is lost.
                        worlds.push(sent.clone());
                        sent.confirm(owner, &write.step);
                        worlds.push(sent);
                    }
                }
            }
        }
        for position in 0..self.late.len() {
            let mut world = self.clone();
            let write = world.late.remove(position);
            if world.applies(&write, fault) {
                world.stored = Some(write.after);
            }
            worlds.push(world);
        }
        worlds
    }

    fn is_overdrawn(&self) -> bool {
        let cost: u64 = self.calls.values().map(|call| call.charge.unwrap_or(COST)).sum();
        cost > CREDITS
    }

    /// Returns true if the root or a part counts more credits than it has, or if a part has no parent.
    fn is_inconsistent(&self) -> bool {
        let Some(Budget { own, parts, .. }) = &self.stored else { return false };
        let is_over = |path: &str, of: &Allotment| {
            let children = parts.iter().filter(|(child, _)| parent_of(child) == path);
            of.spent() + children.map(|(_, part)| part.credits).sum::<u64>() > of.credits
        };
        let has_parent = |path: &str| parent_of(path).is_empty() || parts.contains_key(parent_of(path));
        is_over("", own) || parts.iter().any(|(path, part)| is_over(path, part) || !has_parent(path))
    }
}

/// Searches breadth first, and returns the first overdraft with the number of states.
fn search(scope: &Scope, fault: Fault) -> (Option<World>, usize) {
    let depth_max = std::env::var("FOLIO_CHECK_DEPTH").ok().and_then(|depth| depth.parse::<u32>().ok());
    let mut visited = HashSet::new();
    let mut queue = VecDeque::from([(0_u32, World::default())]);
    while let Some((depth, world)) = queue.pop_front() {
        if world.is_overdrawn() || (fault == Fault::None && world.is_inconsistent()) {
            return (Some(world), visited.len());
        }
        let is_over = depth_max.map_or(visited.len() >= scope.states_max, |depth_max| depth >= depth_max);
        if is_over {
            continue;
        }
        for next in world.next(scope, fault) {
            if visited.insert(format!("{next:?}")) {
                queue.push_back((depth + 1, next));
            }
        }
    }
    (None, visited.len())
}

#[test]
fn no_order_of_writes_and_deaths_overdraws_a_budget() {
    for scope in [CHILD, GROUP] {
        let (overdrawn, states) = search(&scope, Fault::None);
        assert_eq!(overdrawn, None, "{}", scope.name);
        assert!(states > 1_000, "{states} states");
        println!("credit budget, {}: {states} states", scope.name);
    }
}

#[test]
fn each_omitted_rule_lets_a_budget_be_overdrawn() {
    for (scope, fault, name) in [
        (CHILD, Fault::Unconditional, "the condition"),
        (CHILD, Fault::ReservationsForgotten, "the reservations of a returned part"),
        (GROUP, Fault::ReservationsForgotten, "the reservations of a returned item"),
        (GROUP, Fault::ItemsForgotten, "the items of a returned group"),
    ] {
        assert!(search(&scope, fault).0.is_some(), "the search must find the overdraft without {name}");
    }
}
