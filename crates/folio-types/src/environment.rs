//! Time, randomness and fresh ids: one injected source, so that a test can hold the clock and repeat a seed.

use jiff::Timestamp;
use uuid::Uuid;

/// Where the time and everything random comes from.
pub trait Environment: Send + Sync + std::fmt::Debug {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// 128 random bits.
    fn random(&self) -> u128;

    /// A fresh UUID, version 7: ones made later sort later.
    fn uuid(&self) -> Uuid {
        let milliseconds = u64::try_from(self.now().as_millisecond()).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(milliseconds, &random_tail(self.random())).into_uuid()
    }
}

fn random_tail(random: u128) -> [u8; 10] {
    let [_, _, _, _, _, _, tail @ ..] = random.to_be_bytes();
    tail
}

/// The machine's own clock and its random number generator.
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
