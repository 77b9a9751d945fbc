//! Placement of a thread or a job without a live owner: a pure function of its id and the live nodes.
//!
//! Rendezvous hashing with a load bound: every node has a score for the thread, and the best node below the bound is
//! chosen. All processes with the same membership view agree, a joining node takes only the threads for which it has
//! the best score, and a leaving node loses only its own threads. The score uses the node's address, so that a
//! restarted node gets its threads back.

use folio_storage::ClusterNode;
use folio_types::{OrgId, hash_parts};

folio_types::with_defaults! {
    /// Upper bound of a node's load relative to the mean.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct LoadBound {
        /// Percent of the mean, at least 100.
        pub percent: u64 = 125,
        /// Conversations in addition to the bound, so that single conversations do not change the placement in a nearly
        /// idle cluster.
        pub slack: u64 = 16,
    }
}

impl LoadBound {
    /// Returns the maximum number of conversations per node after one more is placed among nodes with these loads.
    pub fn of(self, loads: impl IntoIterator<Item = u64>) -> u64 {
        let (mut total, mut nodes) = (1u128, 0u128);
        for load in loads {
            total += u128::from(load);
            nodes += 1;
        }
        let max = (total * u128::from(self.percent.max(100))).div_ceil(100 * nodes.max(1)) + u128::from(self.slack);
        u64::try_from(max).unwrap_or(u64::MAX)
    }
}

/// Returns the best node that stays within the bound with one more conversation. None: there are no nodes.
pub fn place<'a>(
    org: &OrgId,
    id: &str,
    nodes: impl IntoIterator<Item = &'a ClusterNode> + Clone,
    bound: LoadBound,
) -> Option<&'a ClusterNode> {
    let max = bound.of(nodes.clone().into_iter().map(|node| node.node.conversations));
    nodes
        .into_iter()
        .filter(|node| node.node.conversations < max)
        .max_by_key(|node| (score(org, id, &node.node.address), &node.node.incarnation))
}

/// Returns the best of the nodes that do not drain, regardless of their load: load reports reach each process at a
/// different time, and all processes with the same membership view agree.
pub fn place_regardless_of_load<'a>(org: &OrgId, id: &str, members: &'a [ClusterNode]) -> Option<&'a ClusterNode> {
    let up: Vec<_> = members.iter().filter(|member| !member.node.draining).collect();
    place(org, id, up, LoadBound { percent: 100, slack: u64::MAX })
}

fn score(org: &OrgId, id: &str, address: &str) -> [u8; 32] {
    hash_parts([org.as_str(), id, address])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::tests::record;
    use folio_storage::NodeRecord;
    use folio_types::{Incarnation, ThreadId};
    use proptest::prelude::*;

    fn node(name: usize, conversations: u64) -> ClusterNode {
        let incarnation = Incarnation::derive(&[&name.to_string()]);
        let node = NodeRecord { conversations, ..record(&incarnation, &format!("node-{name}:7000")) };
        ClusterNode { node, silent_for: std::time::Duration::ZERO, is_dead: false }
    }

    fn nodes(loads: &[u64]) -> Vec<ClusterNode> {
        loads.iter().enumerate().map(|(name, load)| node(name, *load)).collect()
    }

    fn thread(number: u32) -> ThreadId {
        ThreadId::derive(&[&number.to_string()])
    }

    fn org() -> OrgId {
        OrgId::derive(&["o"])
    }

    fn address(number: u32, nodes: &[ClusterNode], bound: LoadBound) -> &str {
        &place(&org(), thread(number).as_str(), nodes, bound).unwrap().node.address
    }

    const LOOSE: LoadBound = LoadBound { percent: 125, slack: 1_000_000 };

    #[test]
    fn without_nodes_there_is_no_placement_and_a_single_node_gets_every_thread() {
        assert_eq!(place(&org(), thread(1).as_str(), &[], LoadBound::default()), None);
        for load in [0, 1, 1_000, u64::MAX / 4] {
            let single = nodes(&[load]);
            assert_eq!(address(1, &single, LoadBound { percent: 100, slack: 0 }), "node-0:7000");
        }
    }

    #[test]
    fn the_order_in_which_nodes_are_seen_does_not_matter() {
        let (forward, mut backward) = (nodes(&[0, 3, 9, 4]), nodes(&[0, 3, 9, 4]));
        backward.reverse();
        for number in 0..1_000 {
            let bound = LoadBound::default();
            assert_eq!(address(number, &forward, bound), address(number, &backward, bound));
        }
    }

    #[test]
    fn threads_are_spread_evenly() {
        for count in 2..=8usize {
            let nodes = nodes(&vec![0; count]);
            let mut placed = vec![0usize; count];
            for number in 0..4_000 {
                let to = address(number, &nodes, LOOSE);
                placed[nodes.iter().position(|node| node.node.address == to).unwrap()] += 1;
            }
            let mean = 4_000 / count;
            assert!(placed.iter().all(|threads_of_node| threads_of_node.abs_diff(mean) < mean / 4), "{placed:?}");
        }
    }

    #[test]
    fn a_joining_node_takes_its_share_and_moves_no_other_thread() {
        for count in 1..=8 {
            let (before, after) = (nodes(&vec![0; count]), nodes(&vec![0; count + 1]));
            let newcomer = format!("node-{count}:7000");
            let mut moved = 0;
            for number in 0..2_000 {
                let (was, is) = (address(number, &before, LOOSE), address(number, &after, LOOSE));
                assert!(was == is || is == newcomer, "{was} to {is}");
                moved += u32::from(was != is);
            }
            let share = 2_000 / (count as u32 + 1);
            assert!(moved.abs_diff(share) < share / 3, "{moved} of 2000 moved to one of {}", count + 1);
        }
    }

    #[test]
    fn a_restarted_node_gets_its_threads_back() {
        let before = nodes(&[0, 0, 0]);
        let mut after = before.clone();
        after[1].node.incarnation = Incarnation::derive(&["another incarnation"]);
        for number in 0..500 {
            assert_eq!(address(number, &before, LOOSE), address(number, &after, LOOSE));
        }
    }

    proptest! {
        #[test]
        fn one_more_conversation_is_always_within_the_bound(
            loads in proptest::collection::vec(0u64..100_000, 1..40),
            number: u32,
            percent in 100u64..300,
            slack in 0u64..50,
        ) {
            let bound = LoadBound { percent, slack };
            let nodes = nodes(&loads);
            let chosen = place(&org(), thread(number).as_str(), &nodes, bound).expect("some node is not above the mean");
            let total: u64 = loads.iter().sum::<u64>() + 1;
            let max = (total * percent).div_ceil(100 * loads.len() as u64) + slack;
            prop_assert!(chosen.node.conversations < max);
        }

        #[test]
        fn a_leaving_node_moves_only_its_own_threads(
            count in 2usize..10,
            removed in 0usize..10,
            numbers in proptest::collection::vec(any::<u32>(), 1..50),
        ) {
            let removed = removed % count;
            let before = nodes(&vec![0; count]);
            let mut after = before.clone();
            let left = after.remove(removed);
            for number in numbers {
                let was = address(number, &before, LOOSE);
                let is = address(number, &after, LOOSE);
                prop_assert!(was == is || was == left.node.address);
            }
        }

        #[test]
        fn filling_a_cluster_keeps_every_node_within_the_bound(count in 1usize..8, threads in 1u32..600) {
            let bound = LoadBound { percent: 125, slack: 2 };
            let mut nodes = nodes(&vec![0; count]);
            for number in 0..threads {
                let to = address(number, &nodes, bound).to_owned();
                nodes.iter_mut().find(|node| node.node.address == to).unwrap().node.conversations += 1;
            }
            let max = (u64::from(threads) * 125).div_ceil(100 * count as u64) + 2;
            prop_assert!(nodes.iter().all(|node| node.node.conversations <= max));
        }
    }
}
