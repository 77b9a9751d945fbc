//! Attempts with tokens that are not good: counted by address, and bounded.
//!
//! There is nothing to guess (256 random bits), so this is not what keeps a token safe: it keeps a flood of attempts from becoming a
//! flood of reads. Whoever shares an address with such a flood goes on with a token that was good a while ago; a new one
//! waits for the end of the minute.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use folio_types::{Digest, Error, Reason, Result};
use moka::future::Cache;

/// How long failed attempts count from the first one on.
const WINDOW: Duration = Duration::from_secs(60);
/// How long a token that was good counts as one.
const GOOD_FOR: Duration = Duration::from_secs(15 * 60);
/// Addresses, and tokens, that are kept in mind.
const KEPT: u64 = 10_000;

/// The failed attempts of the last minute.
#[derive(Clone)]
pub(crate) struct Attempts {
    /// How many an address may make; 0: any number.
    most: u32,
    failed: Cache<IpAddr, Arc<AtomicU32>>,
    /// By all that was shown: the id in a token is no secret.
    good: Cache<Digest, ()>,
}

impl Attempts {
    /// None so far; each address may make `most` in a minute, 0: any number.
    pub(crate) fn new(most: u32) -> Self {
        let failed = Cache::builder().max_capacity(KEPT).time_to_live(WINDOW).build();
        let good = Cache::builder().max_capacity(KEPT).time_to_live(GOOD_FOR).build();
        Self { most, failed, good }
    }

    /// Whether an attempt with what is shown, by its digest, is looked at. Error: `TOO_MANY_ATTEMPTS`.
    pub(crate) async fn allow(&self, source: Option<IpAddr>, shown: &Digest) -> Result<()> {
        let Some(source) = source.filter(|_| self.most > 0) else { return Ok(()) };
        let Some(failed) = self.failed.get(&place(source)).await else { return Ok(()) };
        if failed.load(Ordering::Relaxed) < self.most || self.good.contains_key(shown) {
            return Ok(());
        }
        let message = "too many attempts with tokens that are not good came from this address";
        Err(Error::exhausted(Reason::TooManyAttempts, message).retry_after(WINDOW))
    }

    /// An attempt failed.
    pub(crate) async fn failed(&self, source: Option<IpAddr>) {
        if let Some(source) = source.filter(|_| self.most > 0) {
            let failed = self.failed.get_with(place(source), async { Arc::default() }).await;
            failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What was shown was good.
    pub(crate) async fn was_good(&self, shown: Digest) {
        if !self.good.contains_key(&shown) {
            self.good.insert(shown, ()).await;
        }
    }
}

/// The address as it is counted: who has one of IPv6 has its whole network of 64 bits.
fn place(source: IpAddr) -> IpAddr {
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
    async fn too_many_failures_shut_an_address_but_not_a_token_that_was_good() {
        let attempts = Attempts::new(3);
        let [here, there] = ["2001:db8::1", "192.0.2.1"].map(|address| Some(address.parse().unwrap()));
        let [known, new] = ["known", "new"].map(|text| Digest::of(text.as_bytes()));
        attempts.was_good(known.clone()).await;
        for _ in 0..3 {
            attempts.allow(here, &new).await.unwrap();
            attempts.failed(here).await;
        }
        let refused = attempts.allow(here, &new).await.unwrap_err();
        assert_eq!((refused.reason, refused.retry_after), (Reason::TooManyAttempts, Some(WINDOW)));
        let neighbour = Some("2001:db8::2".parse().unwrap());
        assert!(attempts.allow(neighbour, &new).await.is_err(), "the same network");
        attempts.allow(here, &known).await.unwrap();
        attempts.allow(there, &new).await.unwrap();
    }

    #[tokio::test]
    async fn without_a_bound_nothing_is_counted() {
        let attempts = Attempts::new(0);
        let here = Some("192.0.2.1".parse().unwrap());
        for _ in 0..100 {
            attempts.failed(here).await;
            attempts.allow(here, &Digest::of(b"any")).await.unwrap();
        }
    }
}
