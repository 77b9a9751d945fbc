//! Bounds the work that unknown credentials cause, without refusing a valid one.
//!
//! A token has 256 random bits, so the bounds do not protect against guessing: they prevent a flood of attempts from
//! causing a flood of store reads and signature checks.
//!
//! | credential | treatment |
//! |---|---|
//! | valid within the last 15 minutes of use | verified at once; each use extends the time |
//! | refused a moment ago | refused again without a verification |
//! | any other | verified under a permit. Addresses have few permits each and take turns, so a flood from one address delays its own neighbours only |
//!
//! Failures are counted per address after the verification. Beyond the limit they are answered with
//! `TOO_MANY_ATTEMPTS`, so that a client with an outdated credential slows down. A valid credential is always accepted.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use folio_permits::{Amount, Bounds, Permit, Permits};
use folio_proto::status;
use folio_types::{Digest, Error, Reason, Result};
use moka::future::Cache;
use tokio::time::Instant;

use crate::call_shares::Owner;
use crate::client_address::network;

/// The window in which failed attempts are counted. It starts with the first attempt.
const WINDOW: Duration = Duration::from_secs(60);
/// Time after its last use for which a valid credential is remembered.
const MEMORY: Duration = Duration::from_secs(15 * 60);
/// Upper bound of the time for which a refused credential is refused without a verification.
const REFUSED_MAX: Duration = Duration::from_secs(2);
/// Maximum number of remembered addresses, and of refused credentials.
const ENTRIES_MAX: u64 = 10_000;
/// Maximum number of remembered valid credentials.
const VALID_MAX: u64 = 100_000;
/// Bounds of concurrent verifications of unknown credentials: in total, per address, and the waiting ones.
const VERIFICATIONS: Bounds = Bounds { total: Amount::permits(32), per_key: Amount::permits(4), waiters: 1_024 };
/// Maximum time for which a verification waits. Longer than a read of the keys of a JWT issuer.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// A permit to verify an unknown credential.
pub(crate) type Verification = Permit<Option<IpAddr>>;

/// Clones share the counts and permits.
#[derive(Clone)]
pub(crate) struct Attempts {
    /// Maximum number of failed attempts per address and window. 0: unlimited.
    failures_max: u32,
    failed: Cache<IpAddr, Arc<AtomicU32>>,
    /// Digests of complete credentials, because the id in a token is not secret.
    valid: Cache<Digest, Owner>,
    refused: Cache<Digest, ()>,
    verifications: Permits<Option<IpAddr>>,
    /// Maximum time for which a verification waits.
    wait_max: Duration,
}

/// Creates a memory of valid credentials that forgets them this time after their last use.
fn valid_credentials(memory: Duration) -> Cache<Digest, Owner> {
    Cache::builder().max_capacity(VALID_MAX).time_to_idle(memory).build()
}

impl Attempts {
    /// Creates an empty memory. `refused_time` (at most 2 s) is the time for which a refused credential is remembered.
    pub(crate) fn new(failures_max: u32, refused_time: Duration) -> Self {
        let time = refused_time.min(REFUSED_MAX);
        Self {
            failures_max,
            failed: Cache::builder().max_capacity(ENTRIES_MAX).time_to_live(WINDOW).build(),
            valid: valid_credentials(MEMORY),
            refused: Cache::builder().max_capacity(ENTRIES_MAX).time_to_live(time).build(),
            verifications: Permits::new(VERIFICATIONS),
            wait_max: WAIT_MAX,
        }
    }

    /// Returns the owner of a credential that was valid when it was last used, and extends its time.
    pub(crate) async fn owner(&self, credential: &Digest) -> Option<Owner> {
        self.valid.get(credential).await
    }

    /// Returns true if the credential was refused a moment ago.
    pub(crate) fn is_refused(&self, credential: &Digest) -> bool {
        self.refused.contains_key(credential)
    }

    /// Waits for a permit to verify a credential from an address. Error: `OVERLOADED`.
    pub(crate) async fn verification(&self, source: Option<IpAddr>) -> Result<Verification> {
        let acquired = self.verifications.acquire(&source.map(network), 1, Instant::now() + self.wait_max).await;
        acquired.map_err(|_| {
            let message = "too many unknown tokens from this address wait for their verification; try again later";
            Error::exhausted(Reason::Overloaded, message).retry_after(status::RETRY_SOON)
        })
    }

    /// Remembers a valid credential.
    pub(crate) async fn record_valid(&self, credential: Digest, owner: Owner) {
        self.valid.insert(credential, owner).await;
    }

    /// Forgets that a credential was valid.
    pub(crate) async fn forget(&self, credential: &Digest) {
        self.valid.invalidate(credential).await;
    }

    /// Counts a failed attempt. `verified` is the credential if it was verified now: a refusal from memory does not
    /// extend the memory, so that a credential that becomes valid is accepted after that time. Error: `TOO_MANY_ATTEMPTS` if the address has more failed
    /// attempts than the limit.
    pub(crate) async fn record_failed(&self, source: Option<IpAddr>, verified: Option<Digest>) -> Result<()> {
        if let Some(credential) = verified {
            self.valid.invalidate(&credential).await;
            self.refused.insert(credential, ()).await;
        }
        let Some(source) = source.filter(|_| self.failures_max > 0) else { return Ok(()) };
        let failed = self.failed.get_with(network(source), async { Arc::default() }).await;
        if failed.fetch_add(1, Ordering::Relaxed) < self.failures_max {
            return Ok(());
        }
        let message = "too many failed authentication attempts from this address; try again in a minute";
        Err(Error::exhausted(Reason::TooManyAttempts, message).retry_after(WINDOW))
    }
}

#[cfg(test)]
mod tests {
    use folio_types::{OrgId, UserId};

    use super::*;

    fn attempts(failures_max: u32) -> Attempts {
        Attempts::new(failures_max, REFUSED_MAX)
    }

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[tokio::test]
    async fn failures_are_counted_per_network() {
        let attempts = attempts(3);
        let (source, neighbour) = (address("2001:db8::1"), address("2001:db8::2"));
        for number in 0..3 {
            attempts.record_failed(source, Some(digest(&number.to_string()))).await.unwrap();
        }
        let refused = attempts.record_failed(neighbour, Some(digest("x"))).await.unwrap_err();
        assert_eq!((refused.reason, refused.retry_after), (Reason::TooManyAttempts, Some(WINDOW)));
        attempts.record_failed(address("192.0.2.1"), Some(digest("x"))).await.unwrap();
    }

    #[tokio::test]
    async fn without_a_bound_nothing_is_counted() {
        let attempts = attempts(0);
        for _ in 0..100 {
            attempts.record_failed(address("192.0.2.1"), Some(digest("any"))).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_credential_is_either_valid_or_refused() {
        let attempts = attempts(3);
        let owner = Owner { org: OrgId::derive(&["a"]), user: UserId::derive(&["b"]) };
        attempts.record_valid(digest("token"), owner.clone()).await;
        assert_eq!(attempts.owner(&digest("token")).await, Some(owner.clone()));
        assert!(!attempts.is_refused(&digest("token")));
        attempts.forget(&digest("token")).await;
        assert_eq!(attempts.owner(&digest("token")).await, None);
        assert!(!attempts.is_refused(&digest("token")), "neither valid nor refused");
        attempts.record_valid(digest("token"), owner).await;
        attempts.record_failed(None, Some(digest("token"))).await.unwrap();
        assert_eq!(attempts.owner(&digest("token")).await, None);
        assert!(attempts.is_refused(&digest("token")));
    }

    #[tokio::test]
    async fn each_use_extends_the_time_of_a_valid_credential() {
        let memory = Duration::from_secs(2);
        let attempts = Attempts { valid: valid_credentials(memory), ..attempts(3) };
        let owner = Owner { org: OrgId::derive(&["a"]), user: UserId::derive(&["b"]) };
        for credential in ["used", "unused"] {
            attempts.record_valid(digest(credential), owner.clone()).await;
        }
        let start = Instant::now();
        while start.elapsed() < memory * 3 / 2 {
            assert_eq!(attempts.owner(&digest("used")).await.as_ref(), Some(&owner), "{:?}", start.elapsed());
            // Real time must pass: the memory uses the clock of the machine.
            tokio::time::sleep(memory / 20).await;
        }
        assert_eq!(attempts.owner(&digest("unused")).await, None);
    }

    #[tokio::test]
    async fn a_flood_from_one_address_waits_only_for_itself() {
        let attempts = Attempts { wait_max: Duration::from_millis(10), ..attempts(3) };
        let (flood, other) = (address("192.0.2.1"), address("192.0.2.2"));
        let mut permits = Vec::new();
        for _ in 0..VERIFICATIONS.per_key.permits {
            permits.push(attempts.verification(flood).await.unwrap());
        }
        assert_eq!(attempts.verification(flood).await.unwrap_err().reason, Reason::Overloaded);
        let _verified_at_once = attempts.verification(other).await.unwrap();
        drop(permits.pop());
        permits.push(attempts.verification(flood).await.expect("the permit of an earlier attempt"));
    }
}
