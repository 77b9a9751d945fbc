//! Sizes of texts and journals, which count as storage of their organization.

/// Smallest counted size of a journal, in bytes.
// proto: OrganizationLimits.storage_bytes "at least {} KiB"
const UNIT_MIN: u64 = 16 * 1024;

/// Rounds the size of a journal up to an eighth of its power of two, at least to 16 KiB. So the counted size changes with
/// few appends only.
pub fn counted_journal_bytes(bytes: u64) -> u64 {
    let unit = (bytes.checked_next_power_of_two().unwrap_or(u64::MAX) / 8).max(UNIT_MIN);
    bytes.max(1).div_ceil(unit).saturating_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counted_size_exceeds_the_size_by_at_most_a_quarter_and_changes_rarely() {
        assert_eq!(
            [0, 1, 16 * 1024, 16 * 1024 + 1].map(counted_journal_bytes),
            [1, 1, 1, 2].map(|units| units * UNIT_MIN)
        );
        let (mut changes, mut last) = (0, 0);
        for bytes in (0..32 * 1024 * 1024).step_by(1_000) {
            let counted = counted_journal_bytes(bytes);
            assert!(counted >= bytes && counted >= last, "{bytes} counts as {counted}");
            assert!(counted <= (bytes + bytes / 4).max(bytes + UNIT_MIN), "{bytes} counts as {counted}");
            changes += u32::from(counted != last);
            last = counted;
        }
        assert!(changes < 60, "{changes}");
        assert!(counted_journal_bytes(u64::MAX) > u64::MAX / 2);
    }
}
