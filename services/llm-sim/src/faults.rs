//! Faults and the rules that inject them.

use rand::Rng;
use serde::{Deserialize, Serialize};

/// A fault of one request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// Responds with an HTTP status.
    Status {
        /// Status, 400 to 599.
        code: u16,
        /// Seconds in the `Retry-After` header. None: no header.
        #[serde(default)]
        retry_after: Option<u64>,
        /// Body. None: the usual error object.
        #[serde(default)]
        body: Option<String>,
    },
    /// Never completes the response.
    Hang {
        /// Chunks that are sent before it. 0: not even headers are sent.
        #[serde(default)]
        after_chunks: usize,
    },
    /// Ends the stream early, without a finish reason.
    Cut {
        /// Chunks that are sent before it.
        #[serde(default)]
        after_chunks: usize,
        /// If true, the HTTP body is left incomplete; otherwise it ends normally.
        #[serde(default)]
        broken: bool,
    },
    /// Sends invalid JSON.
    Garbage {
        /// Chunks that are sent before it. 0: the whole body is garbage.
        #[serde(default)]
        after_chunks: usize,
    },
    /// Delays the first byte.
    SlowStart {
        /// Delay in milliseconds.
        ms: u64,
    },
    /// Sends the complete response without a finish reason.
    NoFinish,
    /// Resets the connection (RST).
    Reset {
        /// Chunks that are sent before it. 0: no header is sent.
        #[serde(default)]
        after_chunks: usize,
    },
    /// Sends this many bytes of text instead of the response.
    Flood {
        /// Size of the text.
        bytes: usize,
    },
    /// Waits until a gate is opened ([`crate::LlmSim::open_gate`]).
    Hold {
        /// Name of the gate.
        gate: String,
        /// Chunks that are sent before it. 0: not even headers are sent.
        #[serde(default)]
        after_chunks: usize,
    },
}

impl Fault {
    /// Validates the fault. The error describes the problem.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::Status { code, .. } if !(400..600).contains(code) => {
                Err(format!("status.code: {code} is not an error status (400 to 599)"))
            }
            Self::Flood { bytes } if *bytes > 64 << 20 => Err("flood.bytes: at most 67108864".to_owned()),
            _ => Ok(()),
        }
    }
}

/// Rules that inject faults. The first matching rule applies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FaultPlan {
    /// Rules in order.
    pub rules: Vec<FaultRule>,
}

/// A fault with its conditions, all of which must hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    /// The fault.
    pub fault: Fault,
    /// Number of the chat request since the plan was set, from 1.
    #[serde(default)]
    pub nth: Option<u64>,
    /// First number of a range of chat requests.
    #[serde(default)]
    pub from: Option<u64>,
    /// Last number of a range of chat requests.
    #[serde(default)]
    pub to: Option<u64>,
    /// Probability. The endpoint's seed determines the outcome.
    #[serde(default)]
    pub probability: Option<f64>,
    /// Name of the script's rule that matched the request.
    #[serde(default)]
    pub rule: Option<String>,
    /// Maximum number of injections.
    #[serde(default)]
    pub times: Option<u64>,
}

impl FaultRule {
    /// Creates a rule without conditions.
    pub fn always(fault: Fault) -> Self {
        Self { fault, nth: None, from: None, to: None, probability: None, rule: None, times: None }
    }

    /// Creates a rule for request number `nth` (from 1).
    pub fn nth(nth: u64, fault: Fault) -> Self {
        Self { nth: Some(nth), ..Self::always(fault) }
    }
}

impl FaultPlan {
    /// Creates a plan without faults.
    pub fn none() -> Self {
        Self::default()
    }

    /// Creates a plan with the same fault for each request.
    pub fn always(fault: Fault) -> Self {
        Self { rules: vec![FaultRule::always(fault)] }
    }

    /// Creates a plan with a fault for request number `nth` (from 1).
    pub fn nth(nth: u64, fault: Fault) -> Self {
        Self { rules: vec![FaultRule::nth(nth, fault)] }
    }

    /// Creates a plan with a fault for the first `times` requests.
    pub fn first(times: u64, fault: Fault) -> Self {
        Self { rules: vec![FaultRule { to: Some(times), ..FaultRule::always(fault) }] }
    }

    /// Validates the plan. The error contains the path of the field.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (index, rule) in self.rules.iter().enumerate() {
            rule.fault.check().map_err(|what| format!("faults[{index}].fault.{what}"))?;
            if rule.probability.is_some_and(|p| !(0.0..=1.0).contains(&p)) {
                return Err(format!("faults[{index}].probability: must be between 0 and 1"));
            }
            if rule.nth == Some(0) {
                return Err(format!("faults[{index}].nth: the first request is 1"));
            }
        }
        Ok(())
    }
}

/// A plan with its counters.
#[derive(Debug, Default)]
pub(crate) struct FaultState {
    plan: FaultPlan,
    requests: u64,
    struck: Vec<u64>,
}

impl FaultState {
    /// Creates the counters of a plan.
    pub(crate) fn new(plan: FaultPlan) -> Self {
        let struck = vec![0; plan.rules.len()];
        Self { plan, requests: 0, struck }
    }

    /// Returns true if the plan has no rules.
    pub(crate) fn is_empty(&self) -> bool {
        self.plan.rules.is_empty()
    }

    /// Counts a request that matched this rule of the script, and returns its fault.
    pub(crate) fn next(&mut self, script_rule: Option<&str>, rng: &mut impl Rng) -> Option<Fault> {
        self.requests += 1;
        for (rule, struck) in self.plan.rules.iter().zip(self.struck.iter_mut()) {
            let here = rule.nth.is_none_or(|nth| nth == self.requests)
                && rule.from.is_none_or(|from| self.requests >= from)
                && rule.to.is_none_or(|to| self.requests <= to)
                && rule.rule.as_deref().is_none_or(|name| script_rule == Some(name))
                && rule.times.is_none_or(|times| *struck < times);
            if here && rule.probability.is_none_or(|p| rng.random_bool(p.clamp(0.0, 1.0))) {
                *struck += 1;
                return Some(rule.fault.clone());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    use super::*;

    fn strikes(rule: FaultRule, requests: usize) -> Vec<bool> {
        let mut rng = StdRng::seed_from_u64(3);
        let mut state = FaultState::new(FaultPlan { rules: vec![rule] });
        (0..requests).map(|_| state.next(Some("here"), &mut rng).is_some()).collect()
    }

    #[test]
    fn a_fault_is_injected_where_its_rule_matches() {
        let always = FaultRule::always(Fault::NoFinish);
        assert_eq!(strikes(FaultRule::nth(2, Fault::NoFinish), 3), [false, true, false]);
        assert_eq!(strikes(FaultRule { from: Some(2), ..always.clone() }, 3), [false, true, true]);
        assert_eq!(strikes(FaultRule { times: Some(1), ..always.clone() }, 3), [true, false, false]);
        assert_eq!(strikes(FaultRule { rule: Some("other".into()), ..always.clone() }, 1), [false]);
        assert_eq!(strikes(FaultRule { rule: Some("here".into()), ..always }, 1), [true]);
    }

    #[test]
    fn a_probable_fault_repeats_with_its_seed() {
        let rule = FaultRule { probability: Some(0.3), ..FaultRule::always(Fault::NoFinish) };
        let struck = strikes(rule.clone(), 1_000);
        assert_eq!(struck, strikes(rule, 1_000));
        let count = struck.iter().filter(|struck| **struck).count();
        assert!((240..360).contains(&count), "{count}");
    }

    #[test]
    fn a_plan_out_of_bounds_is_refused_by_field() {
        let plan = FaultPlan::nth(0, Fault::NoFinish);
        assert_eq!(plan.check().unwrap_err(), "faults[0].nth: the first request is 1");
        let plan = FaultPlan::always(Fault::Status { code: 200, retry_after: None, body: None });
        assert!(plan.check().unwrap_err().contains("faults[0].fault.status.code"));
    }
}
