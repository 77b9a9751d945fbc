//! Limits failed authentication attempts per address and minute.
//!
//! A token has 256 random bits, so the limit does not protect against guessing: it prevents a flood of attempts from
//! causing a flood of store reads. Beyond the limit, a token from the same address is accepted only if it was valid
//! within the last 15 minutes.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use folio_types::{Digest, Error, Reason, Result};
use moka::future::Cache;

/// The window in which failed attempts are counted. It starts with the first attempt.
const WINDOW: Duration = Duration::from_secs(60);
/// Time after a valid use for which a token is exempt from the limit.
const EXEMPTION: Duration = Duration::from_secs(15 * 60);
/// Maximum number of cached addresses, and of cached tokens.
const ENTRIES_MAX: u64 = 10_000;

/// Clones share the counts.
#[derive(Clone)]
pub(crate) struct Attempts {
    /// Maximum number of failed attempts per address and window. 0: unlimited.
    failures_max: u32,
    failed: Cache<IpAddr, Arc<AtomicU32>>,
    /// Digests of complete credentials, because the id in a token is not secret.
    valid: Cache<Digest, ()>,
}

impl Attempts {
    pub(crate) fn new(failures_max: u32) -> Self {
        let failed = Cache::builder().max_capacity(ENTRIES_MAX).time_to_live(WINDOW).build();
        let valid = Cache::builder().max_capacity(ENTRIES_MAX).time_to_live(EXEMPTION).build();
        Self { failures_max, failed, valid }
    }

    /// Permits an attempt with the credential that has this digest. Error: `TOO_MANY_ATTEMPTS`.
    pub(crate) async fn allow(&self, source: Option<IpAddr>, credential: &Digest) -> Result<()> {
        let Some(source) = source.filter(|_| self.failures_max > 0) else { return Ok(()) };
        let Some(failed) = self.failed.get(&network(source)).await else { return Ok(()) };
        if failed.load(Ordering::Relaxed) < self.failures_max || self.valid.contains_key(credential) {
            return Ok(());
        }
        let message = "too many failed authentication attempts from this address; try again in a minute";
        Err(Error::exhausted(Reason::TooManyAttempts, message).retry_after(WINDOW))
    }

    pub(crate) async fn failed(&self, source: Option<IpAddr>) {
        if let Some(source) = source.filter(|_| self.failures_max > 0) {
            let failed = self.failed.get_with(network(source), async { Arc::default() }).await;
            failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Caches the digest of a valid credential.
    pub(crate) async fn record_valid(&self, credential: Digest) {
        if !self.valid.contains_key(&credential) {
            self.valid.insert(credential, ()).await;
        }
    }
}

/// Returns the key under which an address is counted. For an IPv6 address: its /64 network, which has one owner.
fn network(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn too_many_failures_block_an_address_but_not_a_recently_valid_token() {
        let attempts = Attempts::new(3);
        let [source, other] = ["2001:db8::1", "192.0.2.1"].map(|address| Some(address.parse().unwrap()));
        let [known, new] = ["known", "new"].map(|text| Digest::of(text.as_bytes()));
        attempts.record_valid(known.clone()).await;
        for _ in 0..3 {
            attempts.allow(source, &new).await.unwrap();
            attempts.failed(source).await;
        }
        let refused = attempts.allow(source, &new).await.unwrap_err();
        assert_eq!((refused.reason, refused.retry_after), (Reason::TooManyAttempts, Some(WINDOW)));
        let neighbour = Some("2001:db8::2".parse().unwrap());
        assert!(attempts.allow(neighbour, &new).await.is_err(), "the same network");
        attempts.allow(source, &known).await.unwrap();
        attempts.allow(other, &new).await.unwrap();
    }

    #[tokio::test]
    async fn without_a_bound_nothing_is_counted() {
        let attempts = Attempts::new(0);
        let source = Some("192.0.2.1".parse().unwrap());
        for _ in 0..100 {
            attempts.failed(source).await;
            attempts.allow(source, &Digest::of(b"any")).await.unwrap();
        }
    }
}
