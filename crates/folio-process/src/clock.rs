//! The clock of the process, compared with the clocks of the stores and with the time since the start of the machine.
//!
//! A process whose clock is ahead would expire credit and approvals for good. Stores therefore call
//! [`Environment::check_clock`] before each write. A jump of the clock is detected at the next reading, because the time
//! since the start of the machine does not jump. A difference to the stores is detected by [`ProcessClock::compare`]. While the
//! clock is wrong, [`Environment::now`] continues from the last comparison with which it was right, by the time since the start of the
//! machine: what is computed meanwhile, and stored when the clock is right again, contains no wrong time.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use folio_types::{Environment, Error, Reason, Result, System, Timestamp};
use tokio::sync::watch;

/// Maximum difference between the clock of a process and the clocks of the stores, in nanoseconds (2 s).
const SKEW_MAX: i64 = 2_000_000_000;

/// Returns the wall-clock time and the time since the start of the machine, in nanoseconds.
type ReadClocks = Box<dyn Fn() -> (Timestamp, i64) + Send + Sync>;

/// The clock of the machine, which may be wrong.
pub struct MachineClock(ReadClocks);

impl std::fmt::Debug for MachineClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("MachineClock").field(&self.now()).finish()
    }
}

impl Environment for MachineClock {
    fn now(&self) -> Timestamp {
        (self.0)().0
    }

    fn random(&self) -> u128 {
        System.random()
    }
}

pub struct ProcessClock {
    machine: MachineClock,
    /// Wall-clock time minus the time since the start of the machine, when the clock was last right.
    base: AtomicI64,
    /// Result of the last comparison in nanoseconds, positive if this clock is ahead: the difference to the stores, or
    /// the drift if no server answered.
    skew: AtomicI64,
    has_stores: AtomicBool,
    is_right: watch::Sender<bool>,
}

impl std::fmt::Debug for ProcessClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessClock").field("skew", &self.skew).finish_non_exhaustive()
    }
}

impl Default for ProcessClock {
    fn default() -> Self {
        Self::new(Box::new(|| (System.now() + test_offset(), since_machine_start())))
    }
}

impl ProcessClock {
    fn new(read: ReadClocks) -> Self {
        let clock = Self {
            machine: MachineClock(read),
            base: AtomicI64::new(0),
            skew: AtomicI64::new(0),
            has_stores: AtomicBool::new(false),
            is_right: watch::Sender::new(true),
        };
        clock.base.store(clock.offset(), Ordering::Relaxed);
        clock
    }

    /// Returns the wall-clock time minus the time since the start of the machine, in nanoseconds.
    pub fn offset(&self) -> i64 {
        offset((self.machine.0)())
    }

    /// Returns the clock that [`Self::compare`] compares.
    pub fn machine(&self) -> &MachineClock {
        &self.machine
    }

    /// Returns the difference of a reading to the right time in nanoseconds if the clock is wrong.
    fn wrong_by(&self, reading: (Timestamp, i64)) -> Option<i64> {
        let drift = offset(reading).saturating_sub(self.base.load(Ordering::Relaxed));
        match self.is_right() {
            true => Some(drift).filter(|drift| drift.saturating_abs() > SKEW_MAX),
            false => Some(self.skew.load(Ordering::Relaxed)),
        }
    }

    /// Compares the clock with those of the stores' servers. `offset`: [`Self::offset`] before their clocks were read, so that a jump
    /// meanwhile is found by the next reading. `offsets`: the clock of each server minus [`Self::machine`], in nanoseconds. Without
    /// servers, the clock is compared with the time since the start of the machine. With several, the median counts, so that
    /// one server with a wrong clock stops no process.
    pub fn compare(&self, offset: i64, mut offsets: Vec<i64>) {
        offsets.sort_unstable();
        let drift = offset.saturating_sub(self.base.load(Ordering::Relaxed));
        let skew = match middle(&offsets) {
            Some(of_servers) => {
                self.has_stores.store(true, Ordering::Relaxed);
                of_servers.saturating_neg()
            }
            // No server answers now, but servers answered before: a wrong clock stays wrong until they answer again.
            None if self.has_stores.load(Ordering::Relaxed) && !self.is_right() => return,
            None => drift,
        };
        self.skew.store(skew, Ordering::Relaxed);
        let is_right = skew.saturating_abs() <= SKEW_MAX;
        if is_right {
            self.base.store(offset, Ordering::Relaxed);
        }
        if self.is_right.send_if_modified(|current| std::mem::replace(current, is_right) != is_right) {
            let seconds = seconds(skew);
            match is_right {
                true => tracing::warn!("the clock is right again; the process serves"),
                false => tracing::error!(seconds, "the clock is wrong; the process writes nothing and serves nothing"),
            }
        }
    }

    pub fn is_right(&self) -> bool {
        *self.is_right.borrow()
    }

    /// Returns a receiver of whether the clock is right.
    pub fn watch(&self) -> watch::Receiver<bool> {
        self.is_right.subscribe()
    }

    /// Returns the absolute value of the last measured difference in milliseconds: to the stores, or the drift if no
    /// server answered.
    pub fn skew_milliseconds(&self) -> u64 {
        self.skew.load(Ordering::Relaxed).unsigned_abs() / 1_000_000
    }
}

impl Environment for ProcessClock {
    fn now(&self) -> Timestamp {
        let reading = (self.machine.0)();
        if self.wrong_by(reading).is_none() {
            return reading.0;
        }
        let estimate = self.base.load(Ordering::Relaxed).saturating_add(reading.1);
        Timestamp::from_nanosecond(i128::from(estimate)).unwrap_or(reading.0)
    }

    fn random(&self) -> u128 {
        System.random()
    }

    fn checked_now(&self) -> Result<Timestamp> {
        let reading = (self.machine.0)();
        let Some(wrong_by) = self.wrong_by(reading) else { return Ok(reading.0) };
        let message = format!(
            "the clock of this machine is wrong by {:.1} s, so this process refuses all writes: correct the clock; a process without a cluster then needs a restart",
            seconds(wrong_by)
        );
        Err(Error::unavailable(Reason::StoreUnavailable, message))
    }
}

/// Returns the wall-clock time of a reading minus its time since the start of the machine.
fn offset((wall, since_start): (Timestamp, i64)) -> i64 {
    i64::try_from(wall.as_nanosecond()).unwrap_or(i64::MAX).saturating_sub(since_start)
}

/// Returns the median. For an even number of values: the one of the two middle values that is nearer to 0.
fn middle(sorted: &[i64]) -> Option<i64> {
    let (low, high) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some(if low.saturating_abs() <= high.saturating_abs() { *low } else { *high })
}

#[expect(clippy::cast_precision_loss, reason = "a difference for a message")]
fn seconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// Returns the nanoseconds since the start of the machine, including the time in which it was suspended.
#[cfg(target_os = "linux")]
fn since_machine_start() -> i64 {
    use nix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).or_else(|_| clock_gettime(ClockId::CLOCK_MONOTONIC));
    time.map_or(0, |time| time.tv_sec().saturating_mul(1_000_000_000).saturating_add(time.tv_nsec()))
}

/// Returns the wall-clock time. On systems other than Linux, only the comparison with the stores detects jumps of the
/// clock.
#[cfg(not(target_os = "linux"))]
fn since_machine_start() -> i64 {
    i64::try_from(System.now().as_nanosecond()).unwrap_or(i64::MAX)
}

/// Returns the seconds by which a test sets the clock ahead: the content of the file that `FOLIO_CLOCK_OFFSET` names.
#[cfg(debug_assertions)]
fn test_offset() -> std::time::Duration {
    use std::path::PathBuf;
    use std::sync::LazyLock;
    static FILE: LazyLock<Option<PathBuf>> =
        LazyLock::new(|| std::env::var_os("FOLIO_CLOCK_OFFSET").map(PathBuf::from));
    let text = FILE.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
    std::time::Duration::from_secs(text.and_then(|text| text.trim().parse().ok()).unwrap_or(0))
}

#[cfg(not(debug_assertions))]
const fn test_offset() -> std::time::Duration {
    std::time::Duration::ZERO
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    /// Returns a clock with a wall-clock time and a time since the start, in seconds, that the test sets.
    fn clock() -> (ProcessClock, Arc<[AtomicI64; 2]>) {
        let times = Arc::new([AtomicI64::new(1_790_000_000), AtomicI64::new(100)]);
        let read = Arc::clone(&times);
        let clock = ProcessClock::new(Box::new(move || {
            let [wall, start] = &*read;
            let wall = Timestamp::from_second(wall.load(Ordering::Relaxed)).unwrap();
            (wall, start.load(Ordering::Relaxed) * SECOND)
        }));
        (clock, times)
    }

    fn advance(times: &[AtomicI64; 2], wall: i64, start: i64) {
        times[0].fetch_add(wall, Ordering::Relaxed);
        times[1].fetch_add(start, Ordering::Relaxed);
    }

    #[test]
    fn a_jump_is_detected_at_the_next_write() {
        let (clock, times) = clock();
        advance(&times, 86_400, 86_400);
        clock.check_clock().unwrap();
        advance(&times, 172_800, 5);
        let refused = clock.checked_now().unwrap_err();
        assert!(refused.reason == Reason::StoreUnavailable && refused.message.contains("172795"), "{refused}");
        clock.compare(clock.offset(), Vec::new());
        assert!(!clock.is_right() && !*clock.watch().borrow());
        advance(&times, -172_795, 0);
        clock.compare(clock.offset(), Vec::new());
        clock.check_clock().unwrap();
    }

    #[test]
    fn the_median_of_the_servers_counts() {
        for (offsets, is_right) in [
            (vec![0, 0, 0, -172_800], true),
            (vec![1, 0, 86_400], true),
            (vec![-172_800, -172_800, 0], false),
            (vec![-172_800, 0], true),
            (vec![3], false),
            (vec![-2, -1, 2], true),
        ] {
            let (clock, _) = clock();
            clock.compare(clock.offset(), offsets.iter().map(|offset| offset * SECOND).collect());
            assert_eq!(clock.is_right(), is_right, "{offsets:?}");
            assert_eq!(clock.check_clock().is_ok(), is_right, "{offsets:?}");
        }
    }

    #[test]
    fn a_wrong_clock_is_right_again_only_by_the_servers() {
        let (clock, times) = clock();
        clock.compare(clock.offset(), vec![-10 * SECOND]);
        clock.compare(clock.offset(), Vec::new());
        assert!(!clock.is_right(), "no server answers");
        advance(&times, -10, 0);
        clock.compare(clock.offset(), vec![0]);
        clock.check_clock().unwrap();
    }

    #[test]
    fn the_time_continues_while_the_clock_is_wrong() {
        let (clock, times) = clock();
        let before = clock.now();
        advance(&times, 3_456_000, 5);
        assert_eq!(clock.now().duration_since(before).as_secs(), 5);
        clock.compare(clock.offset(), vec![-3_456_000 * SECOND]);
        advance(&times, 10, 10);
        assert_eq!(clock.now().duration_since(before).as_secs(), 15);
        assert_eq!(clock.machine().now().duration_since(before).as_secs(), 3_456_010);
        // Corrected, which the process does not know yet.
        advance(&times, -3_456_000 + 5, 0);
        assert_eq!(clock.now().duration_since(before).as_secs(), 15);
        clock.compare(clock.offset(), vec![0]);
        assert_eq!(clock.checked_now().unwrap(), clock.machine().now());
        assert_eq!(clock.now().duration_since(before).as_secs(), 15);
    }

    #[test]
    fn a_jump_within_a_comparison_is_detected() {
        let (clock, times) = clock();
        let offset = clock.offset();
        advance(&times, 3_456_000, 0);
        clock.compare(offset, vec![0]);
        clock.check_clock().unwrap_err();
    }
}
