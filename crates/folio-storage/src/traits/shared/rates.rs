//! Rate limits: token buckets and sliding windows.

use std::collections::VecDeque;
use std::time::Duration;

use async_trait::async_trait;
use folio_types::{OrgId, Result, Timestamp};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Capacity in tokens.
    pub burst: u32,
    pub per_second: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateDecision {
    Allowed {
        /// Number of whole tokens that are left in the bucket, or of further events that the window permits now.
        remaining: u32,
    },
    /// The bucket has too few tokens, or the window is full; nothing was taken or counted.
    Refused {
        /// The time until the request is allowed, if no other request is counted before.
        retry_after: Duration,
    },
}

/// The maximum number of events in any period of this length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowLimit {
    pub events: u32,
    pub period: Duration,
}

/// Token buckets and sliding windows by organization and name. A bucket that the store lost counts as full, and a
/// window as empty.
#[async_trait]
pub trait RateStore: Send + Sync {
    /// Takes `cost` tokens, or none if the bucket has fewer.
    async fn take(&self, org: &OrgId, bucket: &str, rate: Rate, cost: u32) -> Result<RateDecision>;

    /// Counts an event in a window, or none if the window has as many as the limit.
    async fn count(&self, org: &OrgId, window: &str, limit: WindowLimit) -> Result<RateDecision>;

    /// Removes the newest event from a window.
    async fn uncount(&self, org: &OrgId, window: &str) -> Result<()>;
}

/// The times of the events in a sliding window, in order: at most as many as the limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventWindow(VecDeque<Timestamp>);

impl EventWindow {
    /// Counts an event. Refused: the period contains as many events as the limit.
    pub fn count(&mut self, limit: WindowLimit, now: Timestamp) -> RateDecision {
        let age = |at: &Timestamp| Duration::try_from(now.duration_since(*at)).unwrap_or_default();
        while self.0.front().is_some_and(|oldest| age(oldest) >= limit.period) {
            self.0.pop_front();
        }
        match self.0.front() {
            Some(oldest) if self.0.len() >= limit.events as usize => {
                RateDecision::Refused { retry_after: limit.period.saturating_sub(age(oldest)) }
            }
            _ => {
                self.0.push_back(now);
                let counted = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
                RateDecision::Allowed { remaining: limit.events.saturating_sub(counted) }
            }
        }
    }

    /// Removes the newest event.
    pub fn uncount(&mut self) {
        self.0.pop_back();
    }

    /// Returns true if the window has no event at or after a time.
    pub fn is_empty_since(&self, start: Timestamp) -> bool {
        self.0.back().is_none_or(|newest| *newest < start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_window_refuses_events_beyond_its_limit_until_the_oldest_leaves_it() {
        let limit = WindowLimit { events: 2, period: Duration::from_secs(10) };
        let refused = |seconds| RateDecision::Refused { retry_after: Duration::from_secs(seconds) };
        let mut window = EventWindow::default();
        let decisions = [0, 4, 5, 9, 10, 13, 14].map(|second| window.count(limit, at(second)));
        let allowed = |remaining| RateDecision::Allowed { remaining };
        let last = allowed(0);
        assert_eq!(decisions, [allowed(1), last, refused(5), refused(1), last, refused(1), last]);
        window.uncount();
        assert_eq!(window.count(limit, at(15)), last, "a removed event does not count");
        assert_eq!(window.count(limit, at(15)), refused(5));
        assert!(window.is_empty_since(at(16)) && !window.is_empty_since(at(15)));
        window.uncount();
        window.uncount();
        window.uncount();
        assert!(window.is_empty_since(at(0)));
    }
}
