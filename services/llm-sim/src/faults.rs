//! Faults and the rules that inject them.

use std::collections::BTreeMap;

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
        /// Chunks that are sent before the fault. 0: not even headers are sent.
        #[serde(default)]
        after_chunks: usize,
    },
    /// Ends the stream early, without a finish reason.
    Cut {
        /// Chunks that are sent before the fault.
        #[serde(default)]
        after_chunks: usize,
        /// If true, the HTTP body is left incomplete; otherwise it ends normally.
        #[serde(default)]
        broken: bool,
    },
    /// Sends invalid JSON.
    Garbage {
        /// Chunks that are sent before the fault. 0: the whole body is garbage.
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
        /// Chunks that are sent before the fault. 0: no header is sent.
        #[serde(default)]
        after_chunks: usize,
    },
    /// Sends this many bytes of text instead of the response.
    Flood { bytes: usize },
    /// Waits until a gate is opened ([`crate::LlmSim::open_gate`]).
    Hold {
        gate: String,
        /// Chunks that are sent before the fault. 0: not even headers are sent.
        #[serde(default)]
        after_chunks: usize,
    },
}

impl Fault {
    /// Returns the number of chunks that are sent before a fault within the response. None: any other fault.
    pub(crate) fn after_chunks(&self) -> Option<usize> {
        match self {
            Self::Hang { after_chunks }
            | Self::Cut { after_chunks, .. }
            | Self::Garbage { after_chunks }
            | Self::Reset { after_chunks }
            | Self::Hold { after_chunks, .. } => Some(*after_chunks),
            Self::Status { .. } | Self::SlowStart { .. } | Self::NoFinish | Self::Flood { .. } => None,
        }
    }

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

/// The requests that a rule applies to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultTarget {
    /// `chat/completions`.
    #[default]
    Chat,
    Embeddings,
    Rerank,
}

/// Rules that inject faults. The first matching rule applies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FaultPlan {
    pub rules: Vec<FaultRule>,
}

/// A fault with its conditions, all of which must hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    pub fault: Fault,
    /// The requests that may get the fault, which have a count of their own. Default: chats.
    #[serde(default)]
    pub on: FaultTarget,
    /// Number of the request that gets the fault, counted from 1 since the plan was set. None: any.
    #[serde(default)]
    pub nth: Option<u64>,
    /// Number of the last request that may get the fault. None: no end.
    #[serde(default)]
    pub to: Option<u64>,
}

impl FaultRule {
    /// Creates a rule for each chat request.
    pub fn always(fault: Fault) -> Self {
        Self { fault, on: FaultTarget::Chat, nth: None, to: None }
    }
}

impl FaultPlan {
    pub fn none() -> Self {
        Self::default()
    }

    pub fn always(fault: Fault) -> Self {
        Self { rules: vec![FaultRule::always(fault)] }
    }

    /// Creates a plan with a fault for the first `times` requests.
    pub fn first(times: u64, fault: Fault) -> Self {
        Self { rules: vec![FaultRule { to: Some(times), ..FaultRule::always(fault) }] }
    }

    /// Returns the plan with all of its rules for other requests than chats.
    #[must_use]
    pub fn on(mut self, target: FaultTarget) -> Self {
        self.rules.iter_mut().for_each(|rule| rule.on = target);
        self
    }

    /// Validates the plan. The error contains the path of the field.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (index, rule) in self.rules.iter().enumerate() {
            rule.fault.check().map_err(|problem| format!("faults[{index}].fault.{problem}"))?;
            if rule.nth == Some(0) {
                return Err(format!("faults[{index}].nth: must be at least 1 (requests are counted from 1)"));
            }
        }
        Ok(())
    }
}

/// A plan with its counter of requests.
#[derive(Debug, Default)]
pub(crate) struct FaultState {
    plan: FaultPlan,
    requests: BTreeMap<FaultTarget, u64>,
}

impl FaultState {
    pub(crate) fn new(plan: FaultPlan) -> Self {
        Self { plan, requests: BTreeMap::new() }
    }

    /// Counts a request, and returns its fault.
    pub(crate) fn next(&mut self, target: FaultTarget) -> Option<Fault> {
        let count = self.requests.entry(target).or_default();
        *count += 1;
        let number = *count;
        let applies = |rule: &&FaultRule| {
            rule.on == target && rule.nth.is_none_or(|nth| nth == number) && rule.to.is_none_or(|to| number <= to)
        };
        self.plan.rules.iter().find(applies).map(|rule| rule.fault.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_injected_where_its_rule_matches() {
        let nth = |nth| FaultPlan { rules: vec![FaultRule { nth: Some(nth), ..FaultRule::always(Fault::NoFinish) }] };
        let injected = |plan: FaultPlan| {
            let mut state = FaultState::new(plan);
            assert!(state.next(FaultTarget::Embeddings).is_none(), "requests of another kind");
            [1, 2, 3].map(|_| state.next(FaultTarget::Chat).is_some())
        };
        assert_eq!(injected(nth(2)), [false, true, false]);
        assert_eq!(injected(FaultPlan::first(2, Fault::NoFinish)), [true, true, false]);
        assert_eq!(injected(FaultPlan::always(Fault::NoFinish)), [true, true, true]);
    }

    #[test]
    fn a_plan_out_of_bounds_is_refused_by_field() {
        let rule = FaultRule { nth: Some(0), ..FaultRule::always(Fault::NoFinish) };
        let plan = FaultPlan { rules: vec![rule] };
        assert_eq!(plan.check().unwrap_err(), "faults[0].nth: must be at least 1 (requests are counted from 1)");
        let plan = FaultPlan::always(Fault::Status { code: 200, retry_after: None, body: None });
        assert!(plan.check().unwrap_err().contains("faults[0].fault.status.code"));
    }
}
