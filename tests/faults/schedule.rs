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
    /// A CQL server is stopped (SIGSTOP) for longer than every time limit, and executes late what it received before.
    CqlStopped,
    /// A node or a gateway is unreachable.
    ListenerCut,
    /// A node or a gateway cannot reach Redis.
    RedisCut,
    /// Requests of a node or a gateway reach the CQL server, but responses are lost.
    ResponsesLost,
    /// The CQL server does not respond to a node or a gateway for a while, sometimes longer than every time limit.
    CqlStalled,
    /// The clock of a node is a month ahead for a while.
    ClockJumped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: Kind,
    /// Number that selects the process.
    pub(super) target: usize,
    pub(super) lasts: Duration,
}

/// A fault, or two faults of which the second one starts during the first one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Incident {
    pub(super) after: Duration,
    /// Faults with their start times.
    pub(super) faults: Vec<(Duration, Fault)>,
}

/// Number of faults of each kind in a round. A round contains its incidents in random order.
const SHARES: [(Kind, usize); 15] = [
    (Kind::NodeKilled, 3),
    (Kind::NodeKilledAtStep, 4),
    (Kind::NodeStopped, 3),
    (Kind::NodeDrained, 1),
    (Kind::GatewayKilled, 2),
    (Kind::RedisRestarted, 1),
    (Kind::RedisLost, 1),
    (Kind::RedisEmptied, 2),
    (Kind::CqlRestarted, 1),
    (Kind::CqlStopped, 1),
    (Kind::ListenerCut, 3),
    (Kind::RedisCut, 2),
    (Kind::ResponsesLost, 3),
    (Kind::CqlStalled, 2),
    (Kind::ClockJumped, 2),
];

/// Faults that overlap, once per round. The two faults of a pair affect different processes or connections.
const PAIRS: [(Kind, Kind); 7] = [
    (Kind::NodeStopped, Kind::RedisRestarted),
    (Kind::NodeStopped, Kind::RedisLost),
    (Kind::CqlStalled, Kind::NodeDrained),
    (Kind::CqlStopped, Kind::NodeKilled),
    (Kind::RedisCut, Kind::NodeKilledAtStep),
    (Kind::ResponsesLost, Kind::GatewayKilled),
    (Kind::ListenerCut, Kind::CqlStalled),
];
/// Minimum duration of the first fault of a pair, within which the second one starts.
const OVERLAP_MIN: Duration = Duration::from_secs(2);

/// An endless sequence of incidents from a seed.
#[derive(Debug)]
pub(super) struct Schedule {
    random: StdRng,
    round: Vec<(Kind, Option<Kind>)>,
}

impl Schedule {
    pub(super) fn new(random: StdRng) -> Self {
        Self { random, round: Vec::new() }
    }

    pub(super) fn next(&mut self) -> Incident {
        if self.round.is_empty() {
            let single = SHARES.iter().flat_map(|(kind, share)| std::iter::repeat_n((*kind, None), *share));
            self.round = single.chain(PAIRS.iter().map(|(first, second)| (*first, Some(*second)))).collect();
            self.round.shuffle(&mut self.random);
        }
        let (first, second) = self.round.pop().unwrap_or((Kind::NodeKilled, None));
        let after = self.seconds(0.2, 2.0);
        let mut faults = vec![(Duration::ZERO, self.fault(first))];
        if let Some(second) = second {
            faults[0].1.lasts = faults[0].1.lasts.max(OVERLAP_MIN);
            faults.push((self.seconds(0.2, 1.5), self.fault(second)));
        }
        Incident { after, faults }
    }

    fn seconds(&mut self, from: f64, to: f64) -> Duration {
        Duration::from_secs_f64(self.random.random_range(from..to))
    }

    fn fault(&mut self, kind: Kind) -> Fault {
        let (from, to) = match kind {
            Kind::NodeStopped => (0.2, 6.0),
            Kind::NodeKilled | Kind::NodeKilledAtStep => (0.0, 3.0),
            Kind::RedisRestarted | Kind::RedisLost => (0.0, 4.0),
            Kind::RedisCut | Kind::ClockJumped => (0.5, 6.0),
            Kind::ListenerCut => (0.3, 3.0),
            // Time limits of requests to CQL servers are 5 s by default.
            Kind::CqlStalled => (0.3, 8.0),
            Kind::CqlStopped => (7.0, 9.0),
            Kind::ResponsesLost => (0.05, 0.5),
            Kind::NodeDrained | Kind::GatewayKilled | Kind::RedisEmptied | Kind::CqlRestarted => (0.0, 1.0),
        };
        Fault { kind, target: self.random.random_range(0..usize::MAX), lasts: self.seconds(from, to) }
    }
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (_, fault)) in self.faults.iter().enumerate() {
            let separator = if number > 0 { ", meanwhile " } else { "" };
            write!(f, "{separator}{:?} for {:.1} s", fault.kind, fault.lasts.as_secs_f64())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn a_seed_determines_the_faults_and_every_kind_and_pair_occurs() {
        let round = PAIRS.len() + SHARES.iter().map(|(_, share)| share).sum::<usize>();
        let incidents = |seed| {
            let mut schedule = Schedule::new(StdRng::seed_from_u64(seed));
            (0..round).map(|_| schedule.next()).collect::<Vec<_>>()
        };
        assert_eq!(incidents(1), incidents(1));
        assert_ne!(incidents(1), incidents(2));
        let all = incidents(3);
        let kinds = |incident: &Incident| incident.faults.iter().map(|(_, fault)| fault.kind).collect::<Vec<_>>();
        for (kind, _) in SHARES {
            assert!(all.iter().any(|incident| kinds(incident) == [kind]), "{kind:?}");
        }
        for (first, second) in PAIRS {
            let overlap = |incident: &&Incident| kinds(incident) == [first, second];
            let incident = all.iter().find(overlap).expect("each pair occurs");
            assert!(incident.faults[1].0 < incident.faults[0].1.lasts, "{incident:?}");
        }
    }
}
