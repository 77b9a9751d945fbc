//! Which faults come, when, and for how long: all of it follows from the seed.

use std::fmt;
use std::time::Duration;

use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// `kill -9` of a node, which is started again later.
    NodeKilled,
    /// A node dies at a step of the protocol, which is started again later.
    NodeKilledAtStep,
    /// A node stands still (SIGSTOP) and goes on.
    NodeStopped,
    /// A node is told to end in order, and started again.
    NodeDrained,
    /// `kill -9` of a gateway.
    GatewayKilled,
    /// Redis is killed and started again with its data.
    RedisRestarted,
    /// Redis is killed and started again with nothing.
    RedisLost,
    /// Redis is emptied where it runs.
    RedisEmptied,
    /// The CQL server is killed and started again; one of three where there are three.
    CqlRestarted,
    /// Nobody reaches a node.
    NodeCut,
    /// A node does not reach Redis.
    RedisCut,
    /// What a node asks the CQL server is done, and the answers are lost.
    AnswersLost,
    /// The CQL server does not answer a node for a while.
    CqlStalled,
}

/// One fault.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fault {
    /// How long nothing happens before.
    pub(super) after: Duration,
    /// What goes wrong.
    pub(super) kind: Kind,
    /// Chooses the process.
    pub(super) whom: usize,
    /// How long it lasts.
    pub(super) lasts: Duration,
}

/// Each kind with how often it comes in a round of all.
const SHARES: [(Kind, usize); 13] = [
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
    (Kind::AnswersLost, 3),
    (Kind::CqlStalled, 2),
];

/// Faults without an end, from a seed.
#[derive(Debug)]
pub(super) struct Schedule {
    random: StdRng,
    round: Vec<Kind>,
}

impl Schedule {
    pub(super) fn new(random: StdRng) -> Self {
        Self { random, round: Vec::new() }
    }

    /// The next fault.
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
            Kind::RedisCut => seconds(0.5, 6.0),
            Kind::NodeCut | Kind::CqlStalled => seconds(0.3, 3.0),
            Kind::AnswersLost => seconds(0.05, 0.5),
            Kind::NodeDrained | Kind::GatewayKilled | Kind::RedisEmptied | Kind::CqlRestarted => seconds(0.0, 1.0),
        };
        Fault { after, kind, whom: self.random.random_range(0..usize::MAX), lasts }
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
    fn a_seed_gives_the_same_faults_and_each_kind_comes() {
        let faults = |seed| {
            let mut schedule = Schedule::new(StdRng::seed_from_u64(seed));
            (0..29).map(|_| schedule.next()).map(|fault| (fault.kind, fault.after, fault.lasts)).collect::<Vec<_>>()
        };
        assert_eq!(faults(1), faults(1));
        assert_ne!(faults(1), faults(2));
        let mut kinds: Vec<_> = faults(3).into_iter().map(|(kind, ..)| kind).collect();
        kinds.sort();
        kinds.dedup();
        assert_eq!(kinds.len(), SHARES.len());
    }
}
