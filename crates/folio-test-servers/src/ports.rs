//! Finds free ports below the range of ephemeral ports, so that a restarted server can bind its port again.

use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context as _, Result};

const RANGE: Range<u16> = 20_000..31_000;

const ATTEMPTS_MAX: u64 = 1_000;

/// Returns the first of `count` consecutive ports that are free on the first three loopback addresses.
pub(crate) fn free(count: u16) -> Result<u16> {
    let random = RandomState::new();
    let offsets = u64::from(RANGE.end - RANGE.start - count);
    (0..ATTEMPTS_MAX)
        .filter_map(|number| u16::try_from(random.hash_one(number) % offsets).ok())
        .map(|offset| RANGE.start + offset)
        .find(|first| (0..count).all(|offset| is_free(first + offset)))
        .with_context(|| format!("found no {count} consecutive free ports in {RANGE:?}"))
}

fn is_free(port: u16) -> bool {
    (1..=3).all(|host| TcpListener::bind((Ipv4Addr::new(127, 0, 0, host), port)).is_ok())
}

pub(crate) fn accepts(host: Ipv4Addr, port: u16) -> bool {
    TcpStream::connect_timeout(&(host, port).into(), Duration::from_millis(500)).is_ok()
}
