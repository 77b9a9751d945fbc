//! Users that sign in with an e-mail address and a password. Their records belong to the pseudo organization
//! [`folio_types::OrgId::platform`]; a user may be a member of several organizations.

use std::fmt;

use folio_types::op::{OpResult, Write};
use folio_types::{Error, Result, Timestamp, UserId};
use serde::{Deserialize, Serialize};

use crate::fields::check_name;
use crate::resource::{changed_function, common_functions};
use crate::{Condition, ListRow, Plan, Resource};

/// Maximum length of an e-mail address, in characters.
// proto: User.email "at most {} characters"
const EMAIL_CHARS: usize = 254;

/// Maximum number of live account tokens of a user. Concurrent requests may exceed it slightly.
// proto: AccountService.CreateAccountToken "at most {} tokens"
pub const ACCOUNT_TOKENS_MAX: u64 = 100;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub id: UserId,
    /// Unique among the users of the installation, without regard to case.
    pub email: String,
    /// Display name.
    pub name: String,
    pub password: PasswordHash,
    /// Incremented by every change of the password. A session is valid only for the number of its sign-in.
    pub password_number: u64,
    /// True if the user may administer the platform.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub platform: bool,
    pub created_by: UserId,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// From 1. Incremented by every change. A write states the version that it expects.
    pub version: u64,
}

/// The hash of a password with its parameters and salt, as a PHC string. `Debug` does not reveal it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PasswordHash(String);

impl PasswordHash {
    /// Wraps a PHC string, which the caller has computed.
    pub fn new(phc: String) -> Self {
        Self(phc)
    }

    /// Returns the PHC string, for the verification of a password.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}

/// The caller has validated a change with [`UserChange::check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserChange {
    Create {
        email: String,
        name: String,
        password: PasswordHash,
        platform: bool,
    },
    /// None: unchanged.
    Update {
        email: Option<String>,
        name: Option<String>,
        platform: Option<bool>,
    },
    /// Replaces the password and ends all sessions of the user.
    SetPassword(PasswordHash),
    Delete,
}

impl UserChange {
    /// # Errors
    /// `INVALID_FIELD` with the field name of the API.
    pub fn check(&self) -> Result<()> {
        let (email, name) = match self {
            Self::Create { email, name, .. } => (Some(email), Some(name)),
            Self::Update { email, name, .. } => (email.as_ref(), name.as_ref()),
            Self::SetPassword(_) | Self::Delete => (None, None),
        };
        email.map_or(Ok(()), |email| check_email("user.email", email))?;
        name.map_or(Ok(()), |name| check_name("user.name", name))
    }
}

/// Checks that a text has the form of an e-mail address: a local part, one `@` and a domain, without whitespace and
/// control characters, at most [`EMAIL_CHARS`] characters. Only a message to the address could show that it exists.
pub fn check_email(field: &str, email: &str) -> Result<()> {
    let is_printable = !email.chars().any(|letter| letter.is_whitespace() || letter.is_control());
    let parts = email.split_once('@');
    let has_parts =
        parts.is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty() && !domain.contains('@'));
    if email.chars().count() <= EMAIL_CHARS && is_printable && has_parts {
        return Ok(());
    }
    Err(Error::invalid_field(field, format!("must be an e-mail address of at most {EMAIL_CHARS} characters")))
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserFilter {
    /// Substring of the name or of the e-mail address, case-insensitive.
    pub name_search: Option<String>,
}

impl User {
    changed_function!();
}

impl Resource for User {
    type Change = UserChange;
    type Filter = UserFilter;
    const KIND: &'static str = "user";
    const DELETE: UserChange = UserChange::Delete;

    common_functions!(UserId);

    fn unique_name(&self) -> Option<&str> {
        Some(&self.email)
    }

    fn list_row(&self) -> ListRow {
        // Both texts, so that one search finds either.
        let name = format!("{} <{}>", self.name, self.email);
        ListRow { id: self.id.to_string(), name, ..ListRow::default() }
    }

    fn conditions(filter: &UserFilter) -> Vec<Condition> {
        Condition::name_search(filter.name_search.as_ref()).into_iter().collect()
    }

    fn apply(id: &UserId, write: &Write<UserChange>, before: Option<Self>) -> Result<Plan<Self>> {
        let done = |user: Self| {
            // Omits the address, because the op row is kept when the user is deleted.
            let result = OpResult::Resource { id: id.to_string(), name: String::new() };
            Ok(Plan { after: Some(user), result })
        };
        match (&write.change, before) {
            (UserChange::Create { email, name, password, platform }, None) => done(Self {
                id: id.clone(),
                email: email.clone(),
                name: name.clone(),
                password: password.clone(),
                password_number: 1,
                platform: *platform,
                created_by: write.by.clone(),
                created_at: write.at,
                updated_at: write.at,
                version: 1,
            }),
            (UserChange::Update { email, name, platform }, Some(before)) => {
                let mut user = before.clone();
                user.email.clone_from(email.as_ref().unwrap_or(&before.email));
                user.name.clone_from(name.as_ref().unwrap_or(&before.name));
                user.platform = platform.unwrap_or(before.platform);
                done(user.changed(&before, write.at))
            }
            (UserChange::SetPassword(password), Some(before)) => {
                let (password, password_number) = (password.clone(), before.password_number + 1);
                done(Self { password, password_number, ..before.clone() }.changed(&before, write.at))
            }
            (UserChange::Delete, Some(_)) => Ok(Plan::deleted()),
            _ => Err(Self::not_found(id)),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use folio_types::op::Expected;
    use folio_types::{OrgId, Reason};

    use super::*;
    use crate::golden::{assert_golden, user as creator};

    pub(crate) fn user() -> User {
        let at = Timestamp::constant(1_790_000_000, 0);
        User {
            id: UserId::derive(&["ann"]),
            email: "Ann@example.com".into(),
            name: "Ann Äbel".into(),
            password: PasswordHash::new("$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaA".into()),
            password_number: 1,
            platform: false,
            created_by: creator(),
            created_at: at,
            updated_at: at,
            version: 1,
        }
    }

    fn applied(change: UserChange, before: Option<User>) -> Result<Plan<User>> {
        let (key, at) = ("test".parse()?, user().created_at);
        let write = Write::by_platform(OrgId::platform(), key, at, Expected::Absent, change);
        User::apply(&user().id, &Write { by: creator(), ..write }, before)
    }

    fn create() -> UserChange {
        let User { email, name, password, platform, .. } = user();
        UserChange::Create { email, name, password, platform }
    }

    fn update(email: Option<&str>, name: Option<&str>, platform: Option<bool>) -> UserChange {
        UserChange::Update { email: email.map(str::to_owned), name: name.map(str::to_owned), platform }
    }

    #[test]
    fn the_stored_format_is_that_of_the_golden_file() {
        assert_golden("live", user());
        assert_golden("platform", User { platform: true, password_number: 7, version: 9, ..user() });
    }

    #[test]
    fn a_user_is_created_once_changed_and_deleted() {
        let plan = applied(create(), None).unwrap();
        assert_eq!(plan.result, OpResult::Resource { id: user().id.to_string(), name: String::new() });
        assert_eq!(plan.after, Some(user()));
        assert_eq!(applied(create(), Some(user())).unwrap_err().reason, Reason::NotFound);
        let after = |change| applied(change, Some(user())).unwrap().after.unwrap();
        assert_eq!(after(update(None, None, None)), user(), "a change without effect keeps the version");
        let renamed = after(update(Some("b@example.com"), Some("Bo"), Some(true)));
        let expected = User { email: "b@example.com".into(), name: "Bo".into(), platform: true, version: 2, ..user() };
        assert_eq!(renamed, expected);
        assert_eq!(applied(UserChange::Delete, Some(user())).unwrap().after, None);
        for change in [UserChange::Delete, update(None, None, None), UserChange::SetPassword(user().password)] {
            assert_eq!(applied(change, None).unwrap_err().reason, Reason::NotFound);
        }
    }

    #[test]
    fn each_password_has_a_number_also_if_it_is_the_same() {
        let again = applied(UserChange::SetPassword(user().password), Some(user())).unwrap().after.unwrap();
        assert_eq!(again, User { password_number: 2, version: 2, ..user() });
        let other = PasswordHash::new("$argon2id$other".into());
        let changed = applied(UserChange::SetPassword(other.clone()), Some(again)).unwrap().after.unwrap();
        assert_eq!(changed, User { password: other, password_number: 3, version: 3, ..user() });
    }

    #[test]
    fn names_and_addresses_are_checked_by_their_field() {
        for (change, field) in [
            (update(Some("ann"), None, None), "user.email"),
            (update(None, Some(" ann"), None), "user.name"),
            (
                UserChange::Create {
                    email: String::new(),
                    name: "a".into(),
                    password: user().password,
                    platform: false,
                },
                "user.email",
            ),
        ] {
            assert_eq!(change.check().unwrap_err().violations[0].field, field);
        }
        for change in [create(), update(None, None, None), update(Some("a@b"), Some("a"), None), UserChange::Delete] {
            assert!(change.check().is_ok(), "{change:?}");
        }
        let longest = format!("{}@b", "ä".repeat(EMAIL_CHARS - 2));
        for good in ["a@b", "ann.äbel+x@example.com", &longest] {
            assert!(check_email("f", good).is_ok(), "{good}");
        }
        for bad in ["", "@", "a@", "@b", "a@b@c", "a b@c", "a@b\n", "a@\u{a0}b", "a\u{0}@b", &format!("ä{longest}")] {
            assert!(check_email("f", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_address_is_a_unique_name_and_a_search_finds_name_and_address() {
        let row = user().list_row();
        assert_eq!((user().unique_name(), user().label()), (Some("Ann@example.com"), "Ann@example.com"));
        for (search, expected) in
            [(None, true), (Some("äbel"), true), (Some("ANN@EXAMPLE"), true), (Some("bob"), false)]
        {
            let filter = UserFilter { name_search: search.map(str::to_owned) };
            assert_eq!(row.matches(&User::conditions(&filter)), expected, "{search:?}");
        }
    }

    #[test]
    fn the_hash_of_a_password_is_not_shown() {
        assert!(!format!("{:?} {:?}", user(), create()).contains("argon2id"));
    }
}
