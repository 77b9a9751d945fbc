//! Source of time, randomness and new ids. It is injected, so that a test can control the clock and repeat a seed.

use jiff::Timestamp;
use uuid::Uuid;

pub trait Environment: Send + Sync + std::fmt::Debug {
    fn now(&self) -> Timestamp;

    fn random(&self) -> u128;

    /// Returns a UUID of version 7. UUIDs sort by millisecond; the order within a millisecond is random.
    fn uuid(&self) -> Uuid {
        let milliseconds = u64::try_from(self.now().as_millisecond()).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(milliseconds, &random_tail(self.random())).into_uuid()
    }
}

fn random_tail(random: u128) -> [u8; 10] {
    let [_, _, _, _, _, _, tail @ ..] = random.to_be_bytes();
    tail
}

/// The clock and the random number generator of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

impl Environment for System {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn random(&self) -> u128 {
        rand::random()
    }
}
