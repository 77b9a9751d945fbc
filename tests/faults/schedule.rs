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

impl Incident {
    /// Returns the kinds of the overlapping faults. None: the incident is a single fault, or the store of a drained node is not
    /// the stalled one.
    pub(super) fn overlap(&self) -> Option<(Kind, Kind)> {
        let [(_, first), (start, second)] = self.faults[..] else { return None };
        let pair = (first.kind, second.kind);
        let affects_both = pair != (Kind::CqlStalled, Kind::NodeDrained) || first.target == second.target;
        (start < first.lasts && affects_both).then_some(pair)
    }
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

/// Faults that overlap, once per round. The two faults of a pair affect different processes or connections, except that the
/// store of a drained node is stalled or stopped.
pub(super) const PAIRS: [(Kind, Kind); 8] = [
    (Kind::NodeStopped, Kind::RedisRestarted),
    (Kind::NodeStopped, Kind::RedisLost),
    (Kind::CqlStalled, Kind::NodeDrained),
    (Kind::CqlStopped, Kind::NodeDrained),
    (Kind::CqlStopped, Kind::NodeKilled),
    (Kind::RedisCut, Kind::NodeKilledAtStep),
    (Kind::ResponsesLost, Kind::GatewayKilled),
    (Kind::ListenerCut, Kind::CqlStalled),
];
/// Minimum duration of the first fault of a pair, within which the second one starts.
const OVERLAP_MIN: Duration = Duration::from_secs(2);

/// Returns the number of faults of a round. A run with as many faults contains every kind and every pair.
pub(super) fn faults_per_round() -> usize {
    2 * PAIRS.len() + SHARES.iter().map(|(_, share)| share).sum::<usize>()
}

/// An endless sequence of incidents from a seed.
#[derive(Debug)]
pub(super) struct Schedule {
    random: StdRng,
    /// Number of nodes of the cluster.
    nodes: usize,
    round: Vec<(Kind, Option<Kind>)>,
}

impl Schedule {
    pub(super) fn new(random: StdRng, nodes: usize) -> Self {
        Self { random, nodes, round: Vec::new() }
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
            let (start, mut other) = (self.seconds(0.2, 1.5), self.fault(second));
            let fault = &mut faults[0].1;
            fault.lasts = fault.lasts.max(OVERLAP_MIN);
            if second == Kind::NodeDrained {
                // The store responds again while the node drains: the exit of the node is awaited afterwards.
                other.lasts += fault.lasts.saturating_sub(start);
            }
            if (first, second) == (Kind::CqlStalled, Kind::NodeDrained) {
                // A number below the number of nodes selects the same node for both faults.
                other.target %= self.nodes;
                fault.target = other.target;
            }
            faults.push((start, other));
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
    use std::collections::BTreeSet;

    use rand::SeedableRng as _;

    use super::*;

    const NODES: usize = 3;

    fn incidents(seed: u64, rounds: usize) -> Vec<Incident> {
        let mut schedule = Schedule::new(StdRng::seed_from_u64(seed), NODES);
        (0..rounds * (faults_per_round() - PAIRS.len())).map(|_| schedule.next()).collect()
    }

    #[test]
    fn a_seed_determines_the_faults_and_every_kind_and_pair_occurs() {
        let incidents = |seed| incidents(seed, 1);
        assert_eq!(incidents(1), incidents(1));
        assert_ne!(incidents(1), incidents(2));
        let all = incidents(3);
        assert_eq!(all.iter().map(|incident| incident.faults.len()).sum::<usize>(), faults_per_round());
        let kinds = |incident: &Incident| incident.faults.iter().map(|(_, fault)| fault.kind).collect::<Vec<_>>();
        for (kind, _) in SHARES {
            assert!(all.iter().any(|incident| kinds(incident) == [kind]), "{kind:?}");
        }
        for (first, second) in PAIRS {
            let overlap = |incident: &&Incident| kinds(incident) == [first, second];
            let incident = all.iter().find(overlap).expect("each pair occurs");
            assert_eq!(incident.overlap(), Some((first, second)), "{incident:?}");
        }
    }

    #[test]
    fn a_node_is_drained_while_its_store_does_not_respond() {
        let mut stalled = BTreeSet::new();
        for incident in incidents(4, 20) {
            let [(_, store), (start, drain)] = incident.faults[..] else { continue };
            if drain.kind != Kind::NodeDrained {
                continue;
            }
            assert!(start < store.lasts && store.lasts <= start + drain.lasts, "{incident:?}");
            if store.kind == Kind::CqlStalled {
                assert_eq!(store.target, drain.target);
                stalled.insert(drain.target);
            }
        }
        assert_eq!(stalled, (0..NODES).collect::<BTreeSet<_>>(), "each node is drained");
    }

    #[test]
    fn a_stall_of_another_process_is_no_overlap_of_a_drain() {
        let fault = |kind, target| Fault { kind, target, lasts: OVERLAP_MIN };
        let of = |start, first, second| {
            let faults = vec![(Duration::ZERO, first), (start, second)];
            Incident { after: Duration::ZERO, faults }.overlap()
        };
        let (stall, drain) = (fault(Kind::CqlStalled, 1), fault(Kind::NodeDrained, 1));
        assert_eq!(of(Duration::from_secs(1), stall, drain), Some((Kind::CqlStalled, Kind::NodeDrained)));
        assert_eq!(of(Duration::from_secs(1), stall, fault(Kind::NodeDrained, 2)), None);
        assert_eq!(of(OVERLAP_MIN, stall, drain), None, "the second fault starts after the first one");
        let server = fault(Kind::CqlStopped, 0);
        assert_eq!(of(Duration::ZERO, server, drain), Some((Kind::CqlStopped, Kind::NodeDrained)));
        let single = Incident { after: Duration::ZERO, faults: vec![(Duration::ZERO, stall)] };
        assert_eq!(single.overlap(), None);
    }
}
