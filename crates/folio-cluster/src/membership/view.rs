//! The membership view of a process: the last snapshot of the store of heartbeats. Pure: the time is an argument.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use folio_storage::{ClusterNode, MembershipSnapshot};
use folio_types::{Incarnation, Liveness};

/// Maximum number of unlisted incarnations whose first query is stored. Beyond it all are removed, which delays takeovers from them
/// by one snapshot.
const UNLISTED_MAX: usize = 1_024;

#[derive(Debug, Clone)]
pub(crate) struct MembershipView {
    snapshot: Option<(MembershipSnapshot, Instant)>,
    /// The time of the first query of each incarnation that no snapshot listed at the time of a query.
    unlisted: HashMap<Incarnation, Instant>,
    fresh_for: Duration,
}

impl MembershipView {
    pub(crate) fn new(fresh_for: Duration) -> Self {
        Self { snapshot: None, unlisted: HashMap::new(), fresh_for }
    }

    /// Applies a membership snapshot that was requested at `requested_at`. Returns true if a node may be newly dead: if
    /// the snapshot is the first one, if it reports a member as newly dead, if it is the first one after the first query of an
    /// unlisted incarnation, or if it is the first one since the store has been available for `dead_after`.
    ///
    /// Until the store has been available for `dead_after`, it may have lost its data: nodes that were live in the
    /// previous snapshot stay live. Afterwards an unknown node counts as dead.
    pub(crate) fn apply(&mut self, mut nodes: MembershipSnapshot, requested_at: Instant) -> bool {
        let is_reliable = |nodes: &MembershipSnapshot| nodes.available_for > nodes.dead_after;
        if let Some((before, _)) = self.snapshot.as_ref().filter(|_| !is_reliable(&nodes)) {
            let names =
                |member: &&ClusterNode| nodes.members.iter().any(|now| now.node.incarnation == member.node.incarnation);
            let remembered: Vec<ClusterNode> = before.live().filter(|member| !names(member)).cloned().collect();
            nodes.members.extend(remembered);
        }
        let before = self.snapshot.replace((nodes, requested_at));
        let (Some((before, before_at)), Some((now, _))) = (before, &self.snapshot) else { return true };
        let lost = |member: &ClusterNode| !member.is_dead && now.is_dead(&member.node.incarnation);
        let is_first = |queried_at: Instant| before_at < queried_at && queried_at <= requested_at;
        before.members.iter().any(lost)
            || self.unlisted.iter().any(|(incarnation, queried_at)| is_first(*queried_at) && now.is_dead(incarnation))
            || (is_reliable(now) && !is_reliable(&before))
    }

    pub(crate) fn live(&self) -> Vec<ClusterNode> {
        self.snapshot.iter().flat_map(|(nodes, _)| nodes.live().cloned()).collect()
    }

    /// Returns true if the last snapshot is fresh enough for a takeover.
    pub(crate) fn is_fresh(&self, now: Instant) -> bool {
        self.snapshot.as_ref().is_some_and(|(_, at)| now.saturating_duration_since(*at) <= self.fresh_for)
    }

    /// Returns the liveness of an incarnation. Only a fresh snapshot reports a dead node, because an unavailable store
    /// proves nothing. A node that was live in the last snapshot stays live.
    ///
    /// An unlisted incarnation may have joined after the snapshot was requested. Therefore it is dead only if a snapshot that was
    /// requested after the first query does not list it.
    pub(crate) fn liveness(&mut self, incarnation: &Incarnation, now: Instant) -> Liveness {
        let is_fresh = self.is_fresh(now);
        let mut members = self.snapshot.iter().flat_map(|(nodes, _)| &nodes.members);
        match members.find(|member| member.node.incarnation == *incarnation) {
            Some(member) if !member.is_dead && member.node.draining => return Liveness::Draining,
            Some(member) if !member.is_dead => return Liveness::Live,
            Some(_) if is_fresh => return Liveness::Dead,
            Some(_) => return Liveness::Unknown,
            None => {}
        }
        let queried_at = self.first_query(incarnation, now);
        match &self.snapshot {
            Some((nodes, requested_at)) if is_fresh && *requested_at >= queried_at && nodes.is_dead(incarnation) => {
                Liveness::Dead
            }
            _ => Liveness::Unknown,
        }
    }

    /// Returns the time of the first query of an unlisted incarnation.
    fn first_query(&mut self, incarnation: &Incarnation, now: Instant) -> Instant {
        if self.unlisted.len() >= UNLISTED_MAX && !self.unlisted.contains_key(incarnation) {
            self.unlisted.clear();
        }
        *self.unlisted.entry(incarnation.clone()).or_insert(now)
    }
}

#[cfg(test)]
mod tests {
    use folio_storage::NodeRecord;

    use super::super::tests::record;
    use super::*;

    const FRESH: Duration = Duration::from_secs(3);
    const DEAD_AFTER: Duration = Duration::from_secs(5);

    fn member(name: &str, draining: bool, is_dead: bool) -> ClusterNode {
        let node = NodeRecord { draining, ..record(&Incarnation::derive(&[name]), "127.0.0.1:1") };
        ClusterNode { node, silent_for: Duration::ZERO, is_dead }
    }

    #[test]
    fn liveness_of_a_member_in_every_case() {
        let start = Instant::now();
        let incarnation_of_member = Incarnation::derive(&["someone"]);
        assert_eq!(MembershipView::new(FRESH).liveness(&incarnation_of_member, start), Liveness::Unknown);
        for draining in [false, true] {
            for is_dead in [None, Some(false), Some(true)] {
                for answering in [Duration::ZERO, DEAD_AFTER, DEAD_AFTER + Duration::from_millis(1)] {
                    for age in [Duration::ZERO, FRESH, FRESH + Duration::from_millis(1)] {
                        let members = is_dead.map(|is_dead| member("someone", draining, is_dead)).into_iter().collect();
                        let mut view = MembershipView::new(FRESH);
                        // The first query of an incarnation precedes the snapshot.
                        assert_eq!(view.liveness(&incarnation_of_member, start), Liveness::Unknown);
                        let nodes = MembershipSnapshot { members, available_for: answering, dead_after: DEAD_AFTER };
                        view.apply(nodes, start);
                        let fresh = age <= FRESH;
                        let expected = match is_dead {
                            Some(false) if draining => Liveness::Draining,
                            Some(false) => Liveness::Live,
                            Some(true) if fresh => Liveness::Dead,
                            None if fresh && answering > DEAD_AFTER => Liveness::Dead,
                            Some(true) | None => Liveness::Unknown,
                        };
                        let case = (draining, is_dead, answering, age);
                        assert_eq!(view.liveness(&incarnation_of_member, start + age), expected, "{case:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn live_nodes_stay_live_after_the_store_lost_its_data_until_it_was_available_long_enough() {
        let start = Instant::now();
        let answer = |names: &[&str], available_for| {
            let members = names.iter().map(|name| member(name, false, false)).collect();
            MembershipSnapshot { members, available_for, dead_after: DEAD_AFTER }
        };
        let (reliable, a) = (DEAD_AFTER + Duration::from_millis(1), Incarnation::derive(&["a"]));
        let mut view = MembershipView::new(FRESH);
        view.apply(answer(&["a", "b"], reliable), start);
        assert!(!view.apply(answer(&[], Duration::ZERO), start), "no node is newly dead");
        assert_eq!((view.liveness(&a, start), view.live().len()), (Liveness::Live, 2));
        assert!(!view.apply(answer(&["b"], Duration::from_secs(1)), start));
        assert_eq!((view.liveness(&a, start), view.live().len()), (Liveness::Live, 2));
        assert!(view.apply(answer(&["b"], reliable), start), "the snapshot reports a newly dead node");
        assert_eq!((view.liveness(&a, start), view.live().len()), (Liveness::Dead, 1));
    }

    #[test]
    fn an_incarnation_that_joined_after_the_snapshot_is_not_dead() {
        let start = Instant::now();
        let nodes = |names: &[&str]| MembershipSnapshot {
            members: names.iter().map(|name| member(name, false, false)).collect(),
            available_for: DEAD_AFTER + Duration::from_millis(1),
            dead_after: DEAD_AFTER,
        };
        let (joined, unlisted) = (Incarnation::derive(&["joined"]), Incarnation::derive(&["unlisted"]));
        let mut view = MembershipView::new(FRESH);
        view.apply(nodes(&[]), start);
        let queried_at = start + Duration::from_secs(1);
        let before = [&joined, &unlisted].map(|incarnation| view.liveness(incarnation, queried_at));
        assert_eq!(before, [Liveness::Unknown; 2], "the snapshot is older than the queries");
        assert!(view.apply(nodes(&["joined"]), queried_at), "the snapshot reports the unlisted incarnation as dead");
        let after = [&joined, &unlisted].map(|incarnation| view.liveness(incarnation, queried_at));
        assert_eq!(after, [Liveness::Live, Liveness::Dead]);
        assert_eq!(
            view.liveness(&unlisted, queried_at + FRESH),
            Liveness::Dead,
            "a later query needs no later snapshot"
        );
        assert!(!view.apply(nodes(&["joined"]), queried_at + FRESH), "no node is newly dead");
    }

    #[test]
    fn a_bounded_number_of_unlisted_incarnations_is_stored() {
        let (start, mut view) = (Instant::now(), MembershipView::new(FRESH));
        for number in 0..=UNLISTED_MAX {
            view.liveness(&Incarnation::derive(&[&number.to_string()]), start);
            assert!(view.unlisted.len() <= UNLISTED_MAX);
        }
    }

    #[test]
    fn a_later_snapshot_replaces_an_earlier_one() {
        let start = Instant::now();
        let mut view = MembershipView::new(FRESH);
        let nodes = |is_dead| MembershipSnapshot {
            members: vec![member("a", false, is_dead)],
            available_for: DEAD_AFTER,
            dead_after: DEAD_AFTER,
        };
        let a = Incarnation::derive(&["a"]);
        assert!(view.apply(nodes(false), start), "the first snapshot");
        assert!(!view.apply(nodes(false), start));
        assert_eq!(view.liveness(&a, start + Duration::from_secs(60)), Liveness::Live, "the store is unavailable");
        assert!(view.apply(nodes(true), start + Duration::from_secs(60)), "the snapshot reports a newly dead node");
        assert_eq!(view.liveness(&a, start + Duration::from_secs(61)), Liveness::Dead);
        assert!(!view.is_fresh(start + Duration::from_secs(64)));
        assert_eq!(view.liveness(&a, start + Duration::from_secs(64)), Liveness::Unknown);
    }
}
