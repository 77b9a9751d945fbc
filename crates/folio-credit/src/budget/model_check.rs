//! Model check of a budget: two owners of the root, one of which is stale, change the stored row. A write is applied and
//! answered, is applied but its answer is lost, arrives later, or never arrives. An owner dies at any time. In each
//! reachable state, the calls that were permitted cost at most the budget.
//!
//! The search is breadth first up to a number of states or, with `FOLIO_CHECK_DEPTH` (`cargo xtask check-model`), up to
//! that many steps. A fault omits one rule; the search must find the overdraft that the rule prevents.

use std::collections::{BTreeMap, HashSet, VecDeque};

use super::{Allotment, Budget};

const CREDITS: u64 = 3;
/// Maximum cost of each call.
const COST: u64 = 2;
const OWNERS: usize = 2;
/// One call of each owner suffices for an overdraft.
const CALLS_PER_OWNER: usize = 1;
const CHILDREN: [Option<&str>; 2] = [None, Some("child")];
/// Maximum number of writes that arrive late.
const LATE_MAX: usize = 1;
/// Maximum number of states without `FOLIO_CHECK_DEPTH`. All reachable states are about 270,000.
const STATES_MAX: usize = 30_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// A write replaces the row without the condition.
    Unconditional,
    /// A returned part does not count its reservations as used.
    ReservationsForgotten,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Grant,
    TakeBack,
    Reserve { child: Option<&'static str>, call: usize },
    Settle { child: Option<&'static str>, call: usize, charge: u64 },
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
    child: Option<&'static str>,
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
    let mut budget = Budget::open(before.cloned(), 1, CREDITS).ok()?;
    match step {
        Step::Grant => budget.grant("child", 1).ok()?,
        Step::TakeBack => {
            if fault == Fault::ReservationsForgotten
                && let Some(part) = budget.parts.get_mut("child")
            {
                part.reserved.clear();
            }
            budget.take_back("child");
        }
        Step::Reserve { child, call } => budget.reserve(*child, &key(owner, *call), COST).ok()?,
        Step::Settle { child, call, charge } => budget.settle(*child, &key(owner, *call), *charge),
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
            Step::Reserve { child, call } => {
                let new = Call { child: *child, charge: None, is_settled: false };
                self.calls.entry((owner, *call)).or_insert(new);
            }
            Step::Settle { call, .. } => {
                if let Some(call) = self.calls.get_mut(&(owner, *call)) {
                    call.is_settled = true;
                }
            }
            Step::Grant | Step::TakeBack => {}
        }
    }

    /// Returns the steps that an owner may prepare. An owner makes a call once, and settles the calls that it made.
    fn steps(&self, owner: usize) -> Vec<Step> {
        let mut steps = vec![Step::Grant, Step::TakeBack];
        for call in 0..CALLS_PER_OWNER {
            match self.calls.get(&(owner, call)) {
                None => steps.extend(CHILDREN.map(|child| Step::Reserve { child, call })),
                Some(made) if !made.is_settled => {
                    let charges = made.charge.map_or(vec![0, COST], |charge| vec![charge]);
                    steps.extend(charges.into_iter().map(|charge| Step::Settle { child: made.child, call, charge }));
                }
                Some(_) => {}
            }
        }
        steps
    }

    fn next(&self, fault: Fault) -> Vec<Self> {
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
                    for step in self.steps(owner) {
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

    /// Returns true if the row counts more credits than it has.
    fn is_inconsistent(&self) -> bool {
        let Some(Budget { own, parts, .. }) = &self.stored else { return false };
        let in_parts: u64 = parts.values().map(|part| part.credits).sum();
        let is_over = |part: &Allotment| part.spent() > part.credits;
        own.spent() + in_parts > own.credits || parts.values().any(is_over)
    }
}

/// Searches breadth first, and returns the first overdraft with the number of states.
fn search(fault: Fault) -> (Option<World>, usize) {
    let depth_max = std::env::var("FOLIO_CHECK_DEPTH").ok().and_then(|depth| depth.parse::<u32>().ok());
    let mut visited = HashSet::new();
    let mut queue = VecDeque::from([(0_u32, World::default())]);
    while let Some((depth, world)) = queue.pop_front() {
        if world.is_overdrawn() || (fault == Fault::None && world.is_inconsistent()) {
            return (Some(world), visited.len());
        }
        let is_over = depth_max.map_or(visited.len() >= STATES_MAX, |depth_max| depth >= depth_max);
        if is_over {
            continue;
        }
        for next in world.next(fault) {
            if visited.insert(format!("{next:?}")) {
                queue.push_back((depth + 1, next));
            }
        }
    }
    (None, visited.len())
}

#[test]
fn no_order_of_writes_and_deaths_overdraws_a_budget() {
    let (overdrawn, states) = search(Fault::None);
    assert_eq!(overdrawn, None);
    assert!(states > 1_000, "{states} states");
    println!("credit budget: {states} states");
}

#[test]
fn each_omitted_rule_lets_a_budget_be_overdrawn() {
    for (name, fault) in
        [("condition", Fault::Unconditional), ("reservations of a returned part", Fault::ReservationsForgotten)]
    {
        assert!(search(fault).0.is_some(), "the search must find the overdraft without: {name}");
    }
}
