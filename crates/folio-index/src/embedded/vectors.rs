//! The vectors of a segment in memory, and the bound on the memory of all segments.
//!
//! A segment never changes, so its vectors are read once. They are scanned exactly: each search compares its vector
//! with that of each passage that matches the filter.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use folio_types::OrgId;
use tantivy::SegmentReader;
use tantivy::index::SegmentId;
use tantivy::schema::{TantivyDocument, Value as _};

use super::failure::Failure;
use super::fields::{Fields, decode};

/// Slot of a passage without a vector.
const NO_VECTOR: u32 = u32::MAX;
/// Time without a search after which a block of an organization may be evicted for any other organization.
const IDLE: Duration = Duration::from_secs(10 * 60);
/// Largest value of a quantized number.
const QUANTUM_MAX: f32 = 127.0;

/// The vectors of a segment in one space.
#[derive(Debug)]
pub(super) struct Block {
    /// The slots of the entries of the segment. [`NO_VECTOR`]: the entry has no vector in the space.
    slots: Vec<u32>,
    dimensions: usize,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Float(Vec<f32>),
    /// Numbers between -127 and 127, and the scale of each vector.
    Quantized {
        values: Vec<i8>,
        scales: Vec<f32>,
    },
}

/// The vector of a search.
#[derive(Debug)]
pub(super) struct Needle {
    pub(super) space: String,
    values: Vec<f32>,
    quantized: Vec<i8>,
    scale: f32,
}

impl Needle {
    /// Creates the vector of a search from values of length 1.
    pub(super) fn new(space: String, values: Vec<f32>) -> Self {
        let (quantized, scale) = quantize(&values);
        Self { space, values, quantized, scale }
    }
}

fn quantize(values: &[f32]) -> (Vec<i8>, f32) {
    let largest = values.iter().fold(f32::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
    let quantized = values.iter().map(|value| (value / largest * QUANTUM_MAX).round() as i8).collect();
    (quantized, largest / QUANTUM_MAX)
}

/// Returns the product of two vectors. Sixteen sums are independent, so that the compiler uses vector instructions.
fn product(left: &[f32], right: &[f32]) -> f32 {
    let (left_lanes, right_lanes) = (left.chunks_exact(16), right.chunks_exact(16));
    let rest: f32 = left_lanes.remainder().iter().zip(right_lanes.remainder()).map(|(left, right)| left * right).sum();
    let mut sums = [0f32; 16];
    for (left, right) in left_lanes.zip(right_lanes) {
        for ((sum, left), right) in sums.iter_mut().zip(left).zip(right) {
            *sum += left * right;
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// Returns the product of two quantized vectors. 8,192 products of at most 127 * 127 fit into 32 bits.
fn quantized_product(left: &[i8], right: &[i8]) -> i32 {
    left.iter().zip(right).map(|(left, right)| i32::from(*left) * i32::from(*right)).sum()
}

impl Block {
    /// Returns the bytes that a block of this number of entries uses at most.
    fn bytes(entries: u32, dimensions: usize, is_quantized: bool) -> u64 {
        let number = if is_quantized { size_of::<i8>() } else { size_of::<f32>() };
        let of_entry = dimensions.saturating_mul(number).saturating_add(2 * size_of::<u32>());
        u64::from(entries).saturating_mul(u64::try_from(of_entry).unwrap_or(u64::MAX))
    }

    /// Reads the vectors of a segment. Vectors with another number of dimensions are skipped.
    fn read(
        segment: &SegmentReader,
        fields: &Fields,
        space: &str,
        dimensions: usize,
        is_quantized: bool,
    ) -> Result<Self, Failure> {
        let entries = usize::try_from(segment.max_doc()).unwrap_or(usize::MAX);
        let mut slots = Vec::with_capacity(entries);
        let numbers = entries.saturating_mul(dimensions);
        let mut values = if is_quantized {
            Values::Quantized { values: Vec::with_capacity(numbers), scales: Vec::with_capacity(entries) }
        } else {
            Values::Float(Vec::with_capacity(numbers))
        };
        let mut count = 0u32;
        for entry in segment.get_store_reader(1)?.iter::<TantivyDocument>(None) {
            let entry = entry?;
            let mut found = entry.get_all(fields.vector).filter_map(|value| value.as_bytes());
            let bytes = found.find_map(|bytes| decode(bytes, space)).filter(|bytes| bytes.len() == dimensions * 4);
            let Some(bytes) = bytes else {
                slots.push(NO_VECTOR);
                continue;
            };
            let numbers = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
            match &mut values {
                Values::Float(values) => values.extend(numbers),
                Values::Quantized { values, scales } => {
                    let (quantized, scale) = quantize(&numbers.collect::<Vec<_>>());
                    values.extend(quantized);
                    scales.push(scale);
                }
            }
            slots.push(count);
            count += 1;
        }
        Ok(Self { slots, dimensions, values })
    }

    /// Returns the cosine of a search and an entry. None: the entry has no vector.
    pub(super) fn cosine(&self, entry: u32, needle: &Needle) -> Option<f32> {
        let slot = self.slots.get(usize::try_from(entry).ok()?).copied().filter(|slot| *slot != NO_VECTOR)?;
        let slot = usize::try_from(slot).ok()?;
        let start = slot.checked_mul(self.dimensions)?;
        let range = start..start.checked_add(self.dimensions)?;
        match &self.values {
            Values::Float(values) => Some(product(values.get(range)?, &needle.values)),
            Values::Quantized { values, scales } => {
                let product = quantized_product(values.get(range)?, &needle.quantized);
                Some(product as f32 * scales.get(slot)? * needle.scale)
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    org: OrgId,
    segment: SegmentId,
    space: String,
    dimensions: usize,
    is_quantized: bool,
}

#[derive(Debug)]
struct Cached {
    block: Arc<Block>,
    bytes: u64,
    last_used: Instant,
}

#[derive(Debug, Default)]
struct State {
    blocks: HashMap<Key, Cached>,
    /// Bytes of the blocks, and of those that are being read.
    bytes: u64,
    /// The part of each organization in `bytes`.
    bytes_by_org: HashMap<OrgId, u64>,
}

impl State {
    /// Reserves bytes for an organization, and evicts the blocks that were not used for the longest time and that no search uses.
    /// Returns false, and evicts nothing, if the bytes do not fit.
    ///
    /// An organization that has more than half of the limit displaces only its own blocks, those of another one with more than half,
    /// and blocks that were not used for [`IDLE`]. So the searches of one organization leave half of the memory to the others.
    fn reserve(&mut self, org: &OrgId, bytes: u64, limit: u64, now: Instant) -> bool {
        let half = limit / 2;
        let unused = self.blocks.iter().filter(|(_, cached)| Arc::strong_count(&cached.block) == 1);
        let mut unused: Vec<_> = unused.map(|(key, cached)| (cached.last_used, cached.bytes, key.clone())).collect();
        unused.sort_by_key(|(last_used, _, _)| *last_used);
        let mut total = self.bytes.saturating_add(bytes);
        let mut own = self.bytes_of(org).saturating_add(bytes);
        let mut evicted = Vec::new();
        // The second pass sees the memory of the organization without those of its blocks that the first pass evicted.
        for _ in 0..2 {
            unused.retain(|(last_used, size, key)| {
                let is_own = key.org == *org;
                let is_idle = now.saturating_duration_since(*last_used) >= IDLE;
                let is_evictable = is_own || is_idle || own <= half || self.bytes_of(&key.org) > half;
                if total <= limit || !is_evictable {
                    return true;
                }
                total = total.saturating_sub(*size);
                if is_own {
                    own = own.saturating_sub(*size);
                }
                evicted.push(key.clone());
                false
            });
        }
        if total > limit {
            return false;
        }
        evicted.iter().for_each(|key| self.remove(key));
        self.bytes = self.bytes.saturating_add(bytes);
        let of_org = self.bytes_by_org.entry(org.clone()).or_default();
        *of_org = of_org.saturating_add(bytes);
        true
    }

    /// Returns the bytes of an organization, with those of the blocks that are being read.
    fn bytes_of(&self, org: &OrgId) -> u64 {
        self.bytes_by_org.get(org).copied().unwrap_or_default()
    }

    fn remove(&mut self, key: &Key) {
        if let Some(cached) = self.blocks.remove(key) {
            self.release(&key.org, cached.bytes);
        }
    }

    fn release(&mut self, org: &OrgId, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
        let left = self.bytes_of(org).saturating_sub(bytes);
        if left == 0 {
            self.bytes_by_org.remove(org);
        } else {
            self.bytes_by_org.insert(org.clone(), left);
        }
    }
}

/// The blocks of all organizations.
#[derive(Debug)]
pub(super) struct VectorCache {
    limit: u64,
    state: Mutex<State>,
}

impl VectorCache {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the vectors of a segment, and reads them if they are not in memory. None: they do not fit.
    pub(super) fn block(
        &self,
        org: &OrgId,
        segment: &SegmentReader,
        fields: &Fields,
        needle: &Needle,
        is_quantized: bool,
    ) -> Result<Option<Arc<Block>>, Failure> {
        let (space, dimensions) = (needle.space.clone(), needle.values.len());
        let key = Key { org: org.clone(), segment: segment.segment_id(), space, dimensions, is_quantized };
        let bytes = Block::bytes(segment.max_doc(), dimensions, is_quantized);
        {
            let (mut state, now) = (self.lock(), Instant::now());
            if let Some(cached) = state.blocks.get_mut(&key) {
                cached.last_used = now;
                return Ok(Some(Arc::clone(&cached.block)));
            }
            if !state.reserve(org, bytes, self.limit, now) {
                return Ok(None);
            }
        }
        let mut reservation = Reservation { cache: self, org: org.clone(), bytes };
        let block = Arc::new(Block::read(segment, fields, &key.space, dimensions, is_quantized)?);
        let mut state = self.lock();
        if let Some(other) = state.blocks.get(&key) {
            // Another search has read the same vectors. Dropping the reservation locks the state.
            let other = Arc::clone(&other.block);
            drop(state);
            return Ok(Some(other));
        }
        reservation.bytes = 0;
        state.blocks.insert(key, Cached { block: Arc::clone(&block), bytes, last_used: Instant::now() });
        drop(state);
        Ok(Some(block))
    }

    /// Removes the blocks of an organization, except those of the named segments.
    pub(super) fn retain(&self, org: &OrgId, segments: &[SegmentId]) {
        let mut state = self.lock();
        let is_old = |key: &&Key| key.org == *org && !segments.contains(&key.segment);
        let old: Vec<Key> = state.blocks.keys().filter(is_old).cloned().collect();
        old.iter().for_each(|key| state.remove(key));
    }

    /// Returns the bytes of the blocks of an organization.
    pub(super) fn bytes_of(&self, org: &OrgId) -> u64 {
        let state = self.lock();
        state.blocks.iter().filter(|(key, _)| key.org == *org).map(|(_, cached)| cached.bytes).sum()
    }
}

/// Bytes of a block that is being read. Dropping it releases them, also after an error or a panic.
struct Reservation<'a> {
    cache: &'a VectorCache,
    org: OrgId,
    bytes: u64,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.cache.lock().release(&self.org, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unit(values: &[f32]) -> Vec<f32> {
        let norm = values.iter().map(|value| value * value).sum::<f32>().sqrt();
        values.iter().map(|value| value / norm).collect()
    }

    fn block(vectors: &[Vec<f32>], is_quantized: bool) -> Block {
        let slots = (0..u32::try_from(vectors.len()).unwrap()).collect();
        let values = if is_quantized {
            let (values, scales): (Vec<Vec<i8>>, Vec<f32>) = vectors.iter().map(|vector| quantize(vector)).unzip();
            Values::Quantized { values: values.concat(), scales }
        } else {
            Values::Float(vectors.concat())
        };
        Block { slots, dimensions: vectors[0].len(), values }
    }

    proptest! {
        #[test]
        fn quantized_cosines_are_close_to_exact_ones(values in proptest::collection::vec(-1f32..1.0, 80),
                                                     other in proptest::collection::vec(-1f32..1.0, 80)) {
            prop_assume!(values.iter().any(|value| value.abs() > 0.1) && other.iter().any(|value| value.abs() > 0.1));
            let (values, other) = (unit(&values), unit(&other));
            let needle = Needle::new(String::new(), other.clone());
            let expected: f32 = values.iter().zip(&other).map(|(left, right)| left * right).sum();
            let float = block(std::slice::from_ref(&values), false).cosine(0, &needle).unwrap();
            let quantized = block(&[values], true).cosine(0, &needle).unwrap();
            prop_assert!((float - expected).abs() < 1e-5, "{} {}", float, expected);
            prop_assert!((quantized - expected).abs() < 0.03, "{} {}", quantized, expected);
        }
    }

    #[test]
    fn an_entry_without_a_vector_has_no_cosine() {
        let mut block = block(&[vec![1.0, 0.0], vec![0.0, 1.0]], false);
        block.slots = vec![1, NO_VECTOR, 0];
        let needle = Needle::new(String::new(), vec![1.0, 0.0]);
        assert_eq!([0, 1, 2, 3].map(|entry| block.cosine(entry, &needle)), [Some(0.0), None, Some(1.0), None]);
    }

    fn org(name: &str) -> OrgId {
        OrgId::derive(&[name])
    }

    /// Reserves the bytes of a block, and stores the block. Returns it, or None if it does not fit.
    fn store(state: &mut State, name: &str, bytes: u64, (limit, now): (u64, Instant)) -> Option<Arc<Block>> {
        if !state.reserve(&org(name), bytes, limit, now) {
            return None;
        }
        let block = Arc::new(block(&[vec![1.0]], false));
        let key = Key {
            org: org(name),
            segment: SegmentId::generate_random(),
            space: String::new(),
            dimensions: 1,
            is_quantized: false,
        };
        state.blocks.insert(key, Cached { block: Arc::clone(&block), bytes, last_used: now });
        Some(block)
    }

    #[test]
    fn blocks_are_evicted_if_no_search_uses_them() {
        let (mut state, now) = (State::default(), Instant::now());
        let later = now + Duration::from_secs(1);
        let used = store(&mut state, "used", 40, (100, now)).unwrap();
        store(&mut state, "old", 40, (100, later)).unwrap();
        assert!(state.reserve(&org("new"), 40, 100, later), "the block that no search uses is evicted");
        assert_eq!((state.blocks.len(), state.bytes), (1, 80));
        assert!(!state.reserve(&org("new"), 40, 100, later), "the other block is in use");
        drop(used);
        assert!(!state.reserve(&org("new"), 101, 100, later), "the bytes exceed the limit");
        assert_eq!(state.blocks.len(), 1);
        state.release(&org("new"), 40);
        assert!(state.reserve(&org("new"), 40, 80, later), "both fit");
        assert_eq!((state.blocks.len(), state.bytes, state.bytes_of(&org("new"))), (1, 80, 40));
        state.release(&org("new"), 40);
        assert!(!state.bytes_by_org.contains_key(&org("new")));
    }

    #[test]
    fn invariant_10_searches_of_one_organization_leave_half_of_the_memory_to_others() {
        let (mut state, now) = (State::default(), Instant::now());
        let at = |seconds| (100, now + Duration::from_secs(seconds));
        store(&mut state, "quiet", 20, at(0)).unwrap();
        for second in 1..9 {
            store(&mut state, "loud", 20, at(second)).unwrap();
        }
        assert_eq!((state.bytes_of(&org("quiet")), state.bytes_of(&org("loud"))), (20, 80), "free memory is used");
        store(&mut state, "other", 40, at(10)).unwrap();
        assert_eq!(
            (state.bytes_of(&org("quiet")), state.bytes_of(&org("loud"))),
            (0, 60),
            "the oldest block is evicted first"
        );
        store(&mut state, "quiet", 20, at(11)).unwrap();
        assert_eq!((state.bytes_of(&org("other")), state.bytes_of(&org("loud"))), (40, 40));
        assert!(store(&mut state, "loud", 90, at(12)).is_none(), "the blocks of others remain");
        assert_eq!((state.bytes_of(&org("quiet")), state.bytes_of(&org("loud"))), (20, 40), "nothing is evicted");
        assert!(store(&mut state, "loud", 90, at(12 + IDLE.as_secs())).is_some(), "the others are idle");
        assert_eq!(state.bytes, 90);
    }
}
