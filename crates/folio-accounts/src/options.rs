//! Settings of users that sign in.

use folio_types::Secret;
use folio_types::settings::{InvalidSettings, Problems};

/// Minimum size of [`Options::page_secret`] in bytes.
const SECRET_BYTES_MIN: usize = 32;

folio_types::settings! {
    /// The settings section `users`.
    pub struct Options {
        /// True if users may sign in with an e-mail address and a password.
        pub enabled: bool = false,
        /// Secret with which a web page signs its requests for sessions of users. Empty: no page may request sessions.
        pub page_secret: Secret = Secret::default(),
    }
}

impl Options {
    /// # Errors
    /// The secret is too short, or it is the mask of printed settings.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        let mut problems = Problems::of("users");
        let secret = &self.page_secret;
        let is_long = secret.is_empty() || secret.reveal().len() >= SECRET_BYTES_MIN;
        problems.check(is_long, "page_secret", format_args!("must have at least {SECRET_BYTES_MIN} bytes"));
        problems.check(
            !secret.is_mask(),
            "page_secret",
            "is the mask that printed settings contain in place of a secret",
        );
        problems.into_result()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_absent_or_long() {
        let checked = |secret: &str| Options { page_secret: Secret::new(secret), ..Options::default() }.check();
        for accepted in ["", &"x".repeat(32)] {
            assert!(checked(accepted).is_ok(), "{accepted}");
        }
        for refused in ["x", &"x".repeat(31), "********"] {
            let problems = checked(refused).unwrap_err().problems;
            assert!(problems.iter().all(|problem| problem.starts_with("users.page_secret: ")), "{problems:?}");
        }
    }
}
