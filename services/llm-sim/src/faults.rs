//! Faults: what goes wrong, and when.

use rand::Rng;
use serde::{Deserialize, Serialize};

/// What goes wrong with one request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// Answers an HTTP status instead.
    Status {
        /// The status, 400 to 599.
        code: u16,
        /// The `Retry-After` header in seconds, if any.
        #[serde(default)]
        retry_after: Option<u64>,
        /// The body instead of the usual error object.
        #[serde(default)]
        body: Option<String>,
    },
    /// Never answers; `after_chunks` sends so many chunks of the stream first.
    Hang {
        /// Chunks before it; with none not even the headers are sent.
        #[serde(default)]
        after_chunks: usize,
    },
    /// Ends the stream too early, without a finish reason.
    Cut {
        /// Chunks before it.
        #[serde(default)]
        after_chunks: usize,
        /// Breaks the HTTP body off (an incomplete one) instead of ending it in order.
        #[serde(default)]
        broken: bool,
    },
    /// Sends what is no JSON.
    Garbage {
        /// Chunks before it; with none the whole body is garbage.
        #[serde(default)]
        after_chunks: usize,
    },
    /// Waits before the first byte.
    SlowStart {
        /// Milliseconds.
        ms: u64,
    },
    /// Sends the whole answer, but no finish reason.
    NoFinish,
    /// Resets the connection (RST).
    Reset {
        /// Chunks before it; with none no header is sent.
        #[serde(default)]
        after_chunks: usize,
    },
    /// Sends so many bytes of text, whatever the answer says.
    Flood {
        /// Bytes of text.
        bytes: usize,
    },
    /// Waits until the gate is opened ([`crate::LlmSim::open_gate`]): holds a request at a known place.
    Hold {
        /// The gate's name.
        gate: String,
        /// Chunks before it; with none not even the headers are sent.
        #[serde(default)]
        after_chunks: usize,
    },
}

impl Fault {
    /// What is wrong with it, if anything.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::Status { code, .. } if !(400..600).contains(code) => {
                Err(format!("status.code: {code} is no error status (400 to 599)"))
            }
            Self::Flood { bytes } if *bytes > 64 << 20 => Err("flood.bytes: at most 67108864".to_owned()),
            _ => Ok(()),
        }
    }
}

/// When which fault strikes. The first rule that applies wins.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FaultPlan {
    /// The rules.
    pub rules: Vec<FaultRule>,
}

/// One fault and when it strikes. All that is given must hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    /// The fault.
    pub fault: Fault,
    /// Only the nth chat request since the plan was set (from 1).
    #[serde(default)]
    pub nth: Option<u64>,
    /// Only from this one on.
    #[serde(default)]
    pub from: Option<u64>,
    /// Only up to this one.
    #[serde(default)]
    pub to: Option<u64>,
    /// Only with this probability, by the endpoint's seed.
    #[serde(default)]
    pub probability: Option<f64>,
    /// Only where the script's rule of this name answers.
    #[serde(default)]
    pub rule: Option<String>,
    /// At most so many times.
    #[serde(default)]
    pub times: Option<u64>,
}

impl FaultRule {
    /// Strikes always.
    pub fn always(fault: Fault) -> Self {
        Self { fault, nth: None, from: None, to: None, probability: None, rule: None, times: None }
    }

    /// Strikes the nth request (from 1).
    pub fn nth(nth: u64, fault: Fault) -> Self {
        Self { nth: Some(nth), ..Self::always(fault) }
    }
}

impl FaultPlan {
    /// No faults.
    pub fn none() -> Self {
        Self::default()
    }

    /// The same fault for each request.
    pub fn always(fault: Fault) -> Self {
        Self { rules: vec![FaultRule::always(fault)] }
    }

    /// A fault for the nth request (from 1).
    pub fn nth(nth: u64, fault: Fault) -> Self {
        Self { rules: vec![FaultRule::nth(nth, fault)] }
    }

    /// A fault for the first `times` requests.
    pub fn first(times: u64, fault: Fault) -> Self {
        Self { rules: vec![FaultRule { to: Some(times), ..FaultRule::always(fault) }] }
    }

    /// What is wrong with it, if anything.
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

/// A plan with what it counted.
#[derive(Debug, Default)]
pub(crate) struct FaultState {
    plan: FaultPlan,
    requests: u64,
    struck: Vec<u64>,
}

impl FaultState {
    /// Begins to count for a plan.
    pub(crate) fn new(plan: FaultPlan) -> Self {
        let struck = vec![0; plan.rules.len()];
        Self { plan, requests: 0, struck }
    }

    /// Whether there is no fault to come.
    pub(crate) fn is_empty(&self) -> bool {
        self.plan.rules.is_empty()
    }

    /// Counts a request, answered by the script's rule of this name, and says what goes wrong with it.
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
    fn a_fault_strikes_where_its_rule_says() {
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
