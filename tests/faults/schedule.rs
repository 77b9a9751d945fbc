//! Kinds, times and durations of faults, all derived from the seed.

use std::fmt;
use std::time::Duration;

use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// `kill -9` of a node, which is restarted later.
    NodeKilled,
    /// A node exits at a step of the protocol and is restarted later.
    NodeKilledAtStep,
    /// A node is stopped (SIGSTOP) and continued later.
    NodeStopped,
    /// A node is terminated gracefully and restarted.
    NodeDrained,
    /// `kill -9` of a gateway.
    GatewayKilled,
    /// Redis is killed and restarted with its data.
    RedisRestarted,
    /// Redis is killed and restarted without data.
    RedisLost,
    /// Redis is flushed while it runs.
    RedisEmptied,
    /// A CQL server is killed and restarted, one at a time.
    CqlRestarted,
    /// A node is unreachable.
    NodeCut,
    /// A node cannot reach Redis.
    RedisCut,
    /// Requests of a node reach the CQL server, but responses are lost.
    ResponsesLost,
    /// The CQL server does not respond to a node for a while.
    CqlStalled,
    /// The clock of a node is a month ahead for a while.
    ClockJumped,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Fault {
    pub(super) after: Duration,
    pub(super) kind: Kind,
    /// Number that selects the process.
    pub(super) target: usize,
    pub(super) lasts: Duration,
}

/// Number of faults of each kind in a round. A round contains its faults in random order.
const SHARES: [(Kind, usize); 14] = [
    (Kind::NodeKilled, 4),
    (Kind::NodeKilledAtStep, 4),
    (Kind::NodeStopped, 4),
    (Kind::NodeDrained, 1),
    (Kind::GatewayKilled, 2),
    (Kind::RedisRestarted, 1),
    (Kind::RedisLost, 1),
    (Kind::RedisEmptied, 2),
    (Kind::CqlRestarted, 1),
    (Kind::NodeCut, 2),
    (Kind::RedisCut, 2),
    (Kind::ResponsesLost, 3),
    (Kind::CqlStalled, 2),
    (Kind::ClockJumped, 2),
];

/// An endless sequence of faults from a seed.
#[derive(Debug)]
pub(super) struct Schedule {
    random: StdRng,
    round: Vec<Kind>,
}

impl Schedule {
    pub(super) fn new(random: StdRng) -> Self {
        Self { random, round: Vec::new() }
    }

    pub(super) fn next(&mut self) -> Fault {
        if self.round.is_empty() {
            self.round = SHARES.iter().flat_map(|(kind, share)| std::iter::repeat_n(*kind, *share)).collect();
            self.round.shuffle(&mut self.random);
        }
        let kind = self.round.pop().unwrap_or(Kind::NodeKilled);
        let mut seconds = |from: f64, to: f64| Duration::from_secs_f64(self.random.random_range(from..to));
        let after = seconds(0.2, 2.0);
        let lasts = match kind {
            Kind::NodeStopped => seconds(0.2, 6.0),
            Kind::NodeKilled | Kind::NodeKilledAtStep => seconds(0.0, 3.0),
            Kind::RedisRestarted | Kind::RedisLost => seconds(0.0, 4.0),
            Kind::RedisCut | Kind::ClockJumped => seconds(0.5, 6.0),
            Kind::NodeCut | Kind::CqlStalled => seconds(0.3, 3.0),
            Kind::ResponsesLost => seconds(0.05, 0.5),
            Kind::NodeDrained | Kind::GatewayKilled | Kind::RedisEmptied | Kind::CqlRestarted => seconds(0.0, 1.0),
        };
        Fault { after, kind, target: self.random.random_range(0..usize::MAX), lasts }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} for {:.1} s", self.kind, self.lasts.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn a_seed_determines_the_faults_and_every_kind_occurs() {
        let faults = |seed| {
            let mut schedule = Schedule::new(StdRng::seed_from_u64(seed));
            (0..31).map(|_| schedule.next()).map(|fault| (fault.kind, fault.after, fault.lasts)).collect::<Vec<_>>()
        };
        assert_eq!(faults(1), faults(1));
        assert_ne!(faults(1), faults(2));
        let mut kinds: Vec<_> = faults(3).into_iter().map(|(kind, ..)| kind).collect();
        kinds.sort();
        kinds.dedup();
        assert_eq!(kinds.len(), SHARES.len());
    }
}
