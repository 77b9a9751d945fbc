use std::collections::{HashSet, VecDeque};

use super::*;

const OPEN: Duration = Duration::from_millis(1_000);

fn options(failures: u32) -> BreakerOptions {
    BreakerOptions { failures, open_seconds: OPEN }
}

fn at(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(1_790_000_000_000 + milliseconds).unwrap()
}

/// A state of the explored system: the breaker, the calls in flight, the clock in milliseconds.
#[derive(Clone)]
struct ExploredState {
    breaker: Breaker,
    calls: Vec<Admission>,
    clock: i64,
}

impl ExploredState {
    /// Identity of a state. Absolute admission numbers and times do not distinguish states.
    fn key(&self) -> String {
        let state = match self.breaker.state() {
            BreakerState::Open { until } => {
                format!("open for {}", (until.as_millisecond() - at(self.clock).as_millisecond()).max(0))
            }
            BreakerState::HalfOpen { probe } => {
                format!("half-open, probe {:?}", self.calls.iter().position(|call| call.number == probe))
            }
            closed @ BreakerState::Closed { .. } => format!("{closed:?}"),
        };
        format!("{state}, {} calls", self.calls.len())
    }
}

/// Explores every reachable state with at most three calls in flight and checks each transition against the state
/// diagram.
#[test]
fn every_reachable_transition_follows_the_state_diagram() {
    let threshold = 3;
    let start = ExploredState { breaker: Breaker::new(options(threshold)), calls: Vec::new(), clock: 0 };
    let mut seen = HashSet::from([start.key()]);
    let mut queue = VecDeque::from([start]);
    let mut steps = 0;
    while let Some(world) = queue.pop_front() {
        for next in successors(&world, threshold) {
            steps += 1;
            if seen.insert(next.key()) {
                queue.push_back(next);
            }
        }
    }
    assert!(seen.len() >= 20 && steps >= 100, "explored only {} states, {steps} steps", seen.len());
    for expected in ["Closed { failures: 0 }", "Closed { failures: 2 }", "open for 1000", "half-open, probe Some"] {
        assert!(seen.iter().any(|key| key.contains(expected)), "never reached {expected}");
    }
}

fn successors(world: &ExploredState, threshold: u32) -> Vec<ExploredState> {
    let mut all = Vec::new();
    for step in [500, 1_000] {
        let mut next = world.clone();
        next.clock += step;
        all.push(next);
    }
    if world.calls.len() < 3 {
        all.push(admitted(world));
    }
    for index in 0..world.calls.len() {
        for outcome in [Outcome::Success, Outcome::FirstToken, Outcome::Failure, Outcome::Abandoned] {
            all.push(recorded(world, index, outcome, threshold));
        }
    }
    all
}

fn admitted(world: &ExploredState) -> ExploredState {
    let mut next = world.clone();
    let now = at(world.clock);
    let before = world.breaker.state();
    let answer = next.breaker.admit(now);
    match before {
        BreakerState::Closed { .. } => {
            assert!(answer.is_ok());
            assert_eq!(next.breaker.state(), before);
        }
        BreakerState::Open { until } if now < until => {
            assert_eq!(answer, Err(Duration::try_from(until.duration_since(now)).unwrap()));
            assert_eq!(next.breaker.state(), before);
        }
        BreakerState::Open { .. } => {
            let admission = answer.expect("a probe");
            assert_eq!(next.breaker.state(), BreakerState::HalfOpen { probe: admission.number });
        }
        BreakerState::HalfOpen { .. } => {
            assert!(answer.is_err(), "a second probe");
            assert_eq!(next.breaker.state(), before);
        }
    }
    next.calls.extend(answer);
    next
}

fn recorded(world: &ExploredState, index: usize, outcome: Outcome, threshold: u32) -> ExploredState {
    let mut next = world.clone();
    let now = at(world.clock);
    let call = if outcome == Outcome::FirstToken { next.calls[index] } else { next.calls.remove(index) };
    next.breaker.record(call, outcome, now);
    let (before, after) = (world.breaker.state(), next.breaker.state());
    let opened = BreakerState::Open { until: now + OPEN };
    match (before, outcome) {
        (BreakerState::Closed { .. }, Outcome::Success) => assert_eq!(after, BreakerState::Closed { failures: 0 }),
        (BreakerState::Closed { failures }, Outcome::Failure) if failures + 1 == threshold => assert_eq!(after, opened),
        (BreakerState::Closed { failures }, Outcome::Failure) => {
            assert_eq!(after, BreakerState::Closed { failures: failures + 1 });
        }
        (BreakerState::HalfOpen { probe }, _) if probe == call.number => match outcome {
            Outcome::Success => assert_eq!(after, BreakerState::Closed { failures: 0 }),
            Outcome::FirstToken => assert_eq!(after, BreakerState::Closed { failures: threshold - 1 }),
            Outcome::Failure => assert_eq!(after, opened),
            Outcome::Abandoned => assert_eq!(after, BreakerState::Open { until: now }),
        },
        _ => assert_eq!(after, before),
    }
    next
}

#[test]
fn a_probe_that_fails_after_its_first_token_opens_the_breaker() {
    let mut breaker = Breaker::new(options(2));
    for _ in 0..2 {
        let call = breaker.admit(at(0)).unwrap();
        breaker.record(call, Outcome::Failure, at(0));
    }
    let probe = breaker.admit(at(1_000)).unwrap();
    breaker.record(probe, Outcome::FirstToken, at(1_100));
    breaker.record(probe, Outcome::Failure, at(1_200));
    assert_eq!(breaker.state(), BreakerState::Open { until: at(2_200) });
}

#[test]
fn a_clock_that_is_set_back_keeps_the_breaker_open_for_at_most_one_period() {
    let mut breaker = Breaker::new(options(1));
    let call = breaker.admit(at(1_000_000)).unwrap();
    breaker.record(call, Outcome::Failure, at(1_000_000));
    assert_eq!(breaker.admit(at(0)), Err(OPEN));
    assert!(breaker.admit(at(1_000)).is_ok());
}

#[test]
fn a_disabled_breaker_never_opens() {
    let mut breaker = Breaker::new(options(0));
    for _ in 0..1_000 {
        let call = breaker.admit(at(0)).unwrap();
        breaker.record(call, Outcome::Failure, at(0));
    }
    assert_eq!(breaker.state(), BreakerState::Closed { failures: 0 });
}
