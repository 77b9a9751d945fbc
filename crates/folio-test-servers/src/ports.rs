//! Finds free ports below the range of ephemeral ports, so that a restarted server can bind its port again.

use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};

const RANGE: Range<u16> = 20_000..31_000;

const ATTEMPTS_MAX: u64 = 1_000;

/// A UDP socket on each port that this process received, until the process ends. No process receives a reserved port: its
/// server may not have bound it yet, or may be stopped and start again later. The servers use TCP only.
static RESERVED: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// Reserves `count` consecutive ports that are free on the first three loopback addresses, and returns the first one.
pub(crate) fn free(count: u16) -> Result<u16> {
    let random = RandomState::new();
    let offsets = u64::from(RANGE.end - RANGE.start - count);
    let (first, sockets) = (0..ATTEMPTS_MAX)
        .filter_map(|number| u16::try_from(random.hash_one(number) % offsets).ok())
        .map(|offset| RANGE.start + offset)
        .find_map(|first| Some((first, (first..first + count).map(reserve).collect::<Option<Vec<_>>>()?)))
        .with_context(|| format!("found no {count} consecutive free ports in {RANGE:?}"))?;
    RESERVED.lock().unwrap_or_else(PoisonError::into_inner).extend(sockets);
    Ok(first)
}

fn reserve(port: u16) -> Option<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok()?;
    is_free(port).then_some(socket)
}

fn is_free(port: u16) -> bool {
    (1..=3).all(|host| TcpListener::bind((Ipv4Addr::new(127, 0, 0, host), port)).is_ok())
}

pub(crate) fn accepts(host: Ipv4Addr, port: u16) -> bool {
    TcpStream::connect_timeout(&(host, port).into(), Duration::from_millis(500)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_port_is_returned_once_also_to_other_processes() {
        let mut found = BTreeSet::new();
        for _ in 0..200 {
            let first = free(2).unwrap();
            assert!(found.insert(first) && found.insert(first + 1), "{first}");
            assert!(reserve(first).is_none(), "a socket of another process is refused in the same way");
        }
    }
}
