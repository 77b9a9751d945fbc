//! Session tokens: `folio_session_<user>_<id>_<secret>`, where user and id are the digits of their ids. Both select the
//! session, which contains only a hash of the secret. A session names a user; the request selects the organization.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::ids::{TokenId, UserId};
use crate::token::{Token, TokenHash, digits, new_secret, parts};

const PREFIX: &str = "folio_session_";

/// The complete token of a session. It is shown once, at the sign-in. `Debug` does not reveal the secret.
#[derive(Clone)]
pub struct SessionToken {
    user: UserId,
    id: TokenId,
    secret: Arc<str>,
}

impl SessionToken {
    pub fn generate(user: &UserId, environment: &dyn Environment) -> Self {
        Self { user: user.clone(), id: TokenId::generate(environment), secret: new_secret(environment) }
    }

    pub fn user(&self) -> &UserId {
        &self.user
    }

    pub fn id(&self) -> &TokenId {
        &self.id
    }

    /// Returns the complete token in plain text.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}_{}_{}", digits(self.user.as_str()), digits(self.id.as_str()), self.secret)
    }

    /// Returns the hash of the secret. Only the hash is stored.
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(&self.secret)
    }
}

impl fmt::Debug for SessionToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}_{}_…", digits(self.user.as_str()), digits(self.id.as_str()))
    }
}

impl FromStr for SessionToken {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let (user, id, secret) = parts(PREFIX, text).ok_or_else(Token::refused)?;
        let user = format!("{}_{user}", UserId::PREFIX).parse()?;
        let id = format!("{}_{id}", TokenId::PREFIX).parse()?;
        Ok(Self { user, id, secret: secret.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::System;
    use crate::error::Reason;
    use crate::ids::OrgId;

    #[test]
    fn a_session_token_is_read_back_and_is_no_access_token() {
        let token = SessionToken::generate(&UserId::generate(&System), &System);
        let text = token.reveal();
        let read: SessionToken = text.parse().unwrap();
        assert_eq!((read.user(), read.id(), read.hash()), (token.user(), token.id(), token.hash()));
        assert!(!format!("{token:?}").contains(&*token.secret));
        assert!(text.parse::<Token>().is_err());
        let access = Token::generate(&OrgId::generate(&System), &System);
        for wrong in [&text[1..], &text[..text.len() - 1], &format!("{text}_"), &access.reveal(), ""] {
            assert_eq!(wrong.parse::<SessionToken>().unwrap_err().reason, Reason::InvalidToken, "{wrong}");
        }
        let another = SessionToken::generate(token.user(), &System);
        assert_ne!(another.hash(), token.hash());
    }

    #[test]
    fn a_token_of_the_platform_is_of_an_account() {
        assert!(Token::generate(&OrgId::platform(), &System).is_of_account());
        assert!(!Token::generate(&OrgId::generate(&System), &System).is_of_account());
    }
}
