//! Tests of the rows of a batch.

use std::collections::BTreeSet;

use super::*;

#[test]
fn a_batch_contains_all_rows_of_few_partitions() {
    for partitions in 0..25_u32 {
        let rows = (0..3).flat_map(|row| (0..partitions).map(move |partition| (partition, (partition, row))));
        let batches = by_partitions(rows, 10);
        assert_eq!(batches.len(), partitions.div_ceil(10) as usize);
        assert!(batches.iter().all(|batch| batch.len() <= 30), "{batches:?}");
        let mut written = BTreeSet::new();
        for batch in &batches {
            let found: BTreeSet<u32> = batch.iter().map(|(partition, _)| *partition).collect();
            assert_eq!(batch.len(), 3 * found.len());
            assert!(found.into_iter().all(|partition| written.insert(partition)), "{batches:?}");
        }
        assert_eq!(written.len(), partitions as usize);
    }
}
