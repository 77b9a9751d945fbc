//! Hashes of passwords: argon2id with the parameters that OWASP recommends (19 MiB, 2 passes, 1 lane).
//!
//! At most two hashes are computed at a time in a process, on threads for blocking work; further callers wait, and their
//! clients take turns.

use std::sync::Arc;
use std::time::Duration;

use argon2::password_hash::{PasswordHash as Phc, PasswordHasher as _, PasswordVerifier as _, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use folio_permits::{Amount, Bounds, Permits};
use folio_resources::PasswordHash;
use folio_types::{Environment, Error, Reason, Result};
use tokio::time::Instant;

use crate::Password;

const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// Bounds of the hashes of a process: those that are computed, and the callers that wait. The bound in total limits the
/// memory to two times 19 MiB.
const HASHES: Bounds = Bounds { total: Amount::permits(2), per_key: Amount::permits(2), waiters: 64 };
/// Maximum time for which a caller waits for a permit.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Delay after which a caller that got no permit may retry.
const RETRY_SOON: Duration = Duration::from_secs(1);

/// Computes and verifies hashes of passwords. Clones share the permits.
#[derive(Clone)]
pub struct PasswordHasher {
    argon2: Argon2<'static>,
    permits: Permits<String>,
    /// The hash of no password, with which the password of an unknown account is compared.
    unknown: PasswordHash,
    environment: Arc<dyn Environment>,
}

impl std::fmt::Debug for PasswordHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PasswordHasher")
    }
}

impl PasswordHasher {
    /// # Errors
    /// The hash function refuses its parameters.
    pub fn new(environment: Arc<dyn Environment>) -> Result<Self> {
        let params = Params::new(MEMORY_KIB, PASSES, LANES, None)
            .map_err(|error| Error::internal(format!("argon2 refuses its parameters: {error}")))?;
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let unknown = hash_of_nothing(environment.as_ref());
        Ok(Self { argon2, permits: Permits::new(HASHES), unknown, environment })
    }

    /// Returns the hash of a password with a new salt. `client` waits in turn with other clients.
    ///
    /// # Errors
    /// `OVERLOADED`.
    pub async fn hash(&self, client: &str, password: &Password) -> Result<PasswordHash> {
        let (argon2, password) = (self.argon2.clone(), password.clone());
        let salt = SaltString::encode_b64(&self.environment.random().to_be_bytes()).map_err(unexpected)?;
        self.compute(client, move || {
            let hash = argon2.hash_password(password.reveal().as_bytes(), &salt).map_err(unexpected)?;
            Ok(PasswordHash::new(hash.to_string()))
        })
        .await
    }

    /// Compares a password with the stored hash in constant time. None: the account is unknown; the comparison costs
    /// the same and returns false.
    ///
    /// # Errors
    /// `OVERLOADED`; `STORED_FORMAT` if the hash is unreadable.
    pub async fn verify(&self, client: &str, password: &Password, stored: Option<&PasswordHash>) -> Result<bool> {
        let (argon2, password, is_known) = (self.argon2.clone(), password.clone(), stored.is_some());
        let hash = stored.unwrap_or(&self.unknown).clone();
        let is_equal = self.compute(client, move || {
            let unreadable = |_| Error::stored_format("a hash of a password is unreadable");
            let parsed = Phc::new(hash.reveal()).map_err(unreadable)?;
            match argon2.verify_password(password.reveal().as_bytes(), &parsed) {
                Ok(()) => Ok(true),
                Err(argon2::password_hash::Error::Password) => Ok(false),
                Err(error) => Err(unreadable(error)),
            }
        });
        Ok(is_equal.await? && is_known)
    }

    /// Runs a computation under a permit. The permit is returned when the computation ends, also if the caller has
    /// disconnected.
    async fn compute<T: Send + 'static>(
        &self,
        client: &str,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let permit = self.permits.acquire(&client.to_owned(), 1, Instant::now() + WAIT_MAX).await.map_err(|_| {
            let message = "too many sign-ins and changes of passwords are in progress; try again later";
            Error::exhausted(Reason::Overloaded, message).retry_after(RETRY_SOON)
        })?;
        let computed = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        computed.await.map_err(|_| Error::internal("the computation of a hash panicked"))?
    }
}

/// Returns a PHC string with the parameters of [`PasswordHasher`] and random bytes as salt and hash, which no password
/// has. To compare a password with it costs as much as with any other.
fn hash_of_nothing(environment: &dyn Environment) -> PasswordHash {
    let random = || environment.random().to_be_bytes();
    let (salt, hash) = (STANDARD_NO_PAD.encode(random()), STANDARD_NO_PAD.encode([random(), random()].concat()));
    PasswordHash::new(format!("$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${salt}${hash}"))
}

fn unexpected(error: argon2::password_hash::Error) -> Error {
    Error::internal(format!("a password cannot be hashed: {error}"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use folio_types::System;

    use super::*;

    fn hasher() -> PasswordHasher {
        PasswordHasher::new(Arc::new(System)).unwrap()
    }

    fn password(text: &str) -> Password {
        Password::parse("password", text).unwrap()
    }

    #[tokio::test]
    async fn a_password_matches_its_own_hash_only() {
        let (hasher, right) = (hasher(), password("correct horse battery"));
        let hash = hasher.hash("a", &right).await.unwrap();
        assert!(hash.reveal().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", hash.reveal());
        assert_ne!(hasher.hash("a", &right).await.unwrap(), hash, "each hash has a salt of its own");
        assert!(hasher.verify("a", &right, Some(&hash)).await.unwrap());
        assert!(!hasher.verify("a", &password("Correct horse battery"), Some(&hash)).await.unwrap());
        let unreadable = hasher.verify("a", &right, Some(&PasswordHash::new("md5".to_owned()))).await.unwrap_err();
        assert_eq!(unreadable.reason, Reason::StoredFormat);
    }

    #[tokio::test]
    async fn an_unknown_account_costs_a_whole_hash_and_never_matches() {
        let (hasher, any) = (hasher(), password("correct horse battery"));
        assert!(!hasher.verify("a", &any, None).await.unwrap());
        let known = hasher.hash("a", &any).await.unwrap();
        let [unknown, known] = [hasher.unknown.reveal(), known.reveal()].map(|phc| Phc::new(phc).unwrap());
        assert_eq!(
            (unknown.algorithm, unknown.version, &unknown.params),
            (known.algorithm, known.version, &known.params)
        );
        let lengths = |phc: &Phc<'_>| (phc.salt.unwrap().as_str().len(), phc.hash.unwrap().len());
        assert_eq!(lengths(&unknown), lengths(&known));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn two_hashes_are_computed_at_a_time() {
        let (hasher, running, most) = (hasher(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let calls = (0..12).map(|number| {
            let (hasher, running, most) = (hasher.clone(), Arc::clone(&running), Arc::clone(&most));
            tokio::spawn(async move {
                let work = move || {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    // A computation takes real time.
                    std::thread::sleep(Duration::from_millis(20));
                    running.fetch_sub(1, Ordering::SeqCst);
                    Ok(())
                };
                hasher.compute(&format!("client {number}"), work).await
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap().unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), 2);
    }
}
