//! Users that sign in with a password: the rule of passwords, their hashes, and the bound on failed sign-ins.
//!
//! | threat | bound |
//! |---|---|
//! | guessing the password of one account | [`FAILURES`] failed sign-ins, counted by all processes together |
//! | guessing passwords from a stolen store | argon2id ([`PasswordHasher`]); no other digest of a password is stored |
//! | finding out which addresses have an account | an unknown address costs and counts like a wrong password |
//! | a session for a user that no page authenticated | a signature with the secret of the page ([`PageSignatures`]) |
//! | a flood of sign-ins that uses up CPU and memory | two hashes at a time in a process, scheduled round-robin by client |
//!
//! The crate must not know sessions, organizations or protocols.

mod hasher;
mod options;
mod page_signature;
mod password;
mod sign_in_attempts;

use std::sync::Arc;

use folio_storage::RateStore;
use folio_types::Environment;

pub use hasher::PasswordHasher;
pub use options::Options;
pub use page_signature::PageSignatures;
pub use password::{PASSWORD_CHARS, PASSWORD_CHARS_MIN, Password};
pub use sign_in_attempts::{Attempt, FAILURES, SignInAttempts};

/// Hashes passwords and bounds failed sign-ins. Clones share the bounds.
#[derive(Clone)]
pub struct Accounts {
    pub hasher: PasswordHasher,
    pub attempts: SignInAttempts,
    pub pages: PageSignatures,
}

impl std::fmt::Debug for Accounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Accounts")
    }
}

impl Accounts {
    /// Returns None if the settings disable users that sign in with a password.
    ///
    /// # Errors
    /// The hash function refuses its parameters.
    pub fn new(
        options: &Options,
        rates: Arc<dyn RateStore>,
        environment: &Arc<dyn Environment>,
    ) -> folio_types::Result<Option<Self>> {
        if !options.enabled {
            return Ok(None);
        }
        let attempts = SignInAttempts::new(rates, Arc::clone(environment));
        let (hasher, pages) =
            (PasswordHasher::new(Arc::clone(environment))?, PageSignatures::new(&options.page_secret));
        Ok(Some(Self { hasher, attempts, pages }))
    }
}
