//! Settings of users that sign in with a password.

folio_types::settings! {
    pub struct Options {
        /// True if users may sign in with an e-mail address and a password.
        pub enabled: bool = false,
    }
}
