//! Source of time, randomness and new ids. It is injected, so that a test can control the clock and repeat a seed.

use jiff::Timestamp;
use uuid::Uuid;

use crate::Result;

pub trait Environment: Send + Sync + std::fmt::Debug {
    /// Returns the time. While the clock is known to be wrong, an implementation returns its best estimate.
    fn now(&self) -> Timestamp;

    /// Returns the time, or fails with `STORE_UNAVAILABLE` if the clock is known to be wrong. The clock is
    /// read once. Default: the clock is right.
    fn checked_now(&self) -> Result<Timestamp> {
        Ok(self.now())
    }

    /// Fails with `STORE_UNAVAILABLE` if the clock is known to be wrong. Stores check it before each write whose effect
    /// may depend on the time.
    fn check_clock(&self) -> Result<()> {
        self.checked_now().map(drop)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Fixed;

    impl Environment for Fixed {
        fn now(&self) -> Timestamp {
            Timestamp::from_millisecond(0x0123_4567_89ab).unwrap()
        }

        fn random(&self) -> u128 {
            0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100
        }
    }

    #[test]
    fn a_uuid_contains_the_milliseconds_and_the_random_number() {
        assert_eq!(Fixed.uuid().to_string(), "01234567-89ab-7908-8706-050403020100");
    }

    #[test]
    fn the_system_has_a_clock_and_random_numbers() {
        assert!(System.now() > Timestamp::from_second(1_700_000_000).unwrap());
        assert_ne!(System.random(), System.random());
    }
}
