//! OAuth clients of MCP servers: the credentials with which `folio-mcp` requests access tokens.

use folio_types::{Error, Result, Secret};
use serde::{Deserialize, Serialize};

use crate::{SealedKey, fields};

// proto: McpOAuth.token_url "at most {} characters"
const TOKEN_URL_CHARS: usize = 2_000;
// proto: McpOAuth.client_id "1 to {} visible"
const CLIENT_ID_CHARS: usize = 256;
// proto: McpOAuth.client_secret "at most {} visible"
const CLIENT_SECRET_CHARS: usize = 4_000;
/// Maximum number of scopes of a client.
// proto: McpOAuth.scopes "at most {} scopes"
const SCOPES_MAX: usize = 32;
// proto: McpOAuth.scopes "1 to {} visible"
const SCOPE_CHARS: usize = 128;

/// The OAuth client that requests the access tokens for a server by its own credentials (RFC 6749, section 4.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpOAuth {
    /// Absolute HTTP or HTTPS URL of the token endpoint. Only it receives the secret.
    pub token_url: String,
    pub client_id: String,
    /// Encrypted secret of the client.
    pub secret: SealedKey,
    /// The requested scopes. Empty: the scopes that the authorization server chooses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
}

/// The OAuth client of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMcpOAuth {
    pub token_url: String,
    pub client_id: String,
    /// None: the stored secret, if the token URL is the same. A secret must not reach another server.
    pub secret: Option<SealedKey>,
    pub scopes: Vec<String>,
}

impl NewMcpOAuth {
    /// Returns the client with its secret. `before`: the stored client.
    ///
    /// # Errors
    /// `INVALID_FIELD` without a secret.
    pub(crate) fn with_secret(&self, before: Option<&McpOAuth>) -> Result<McpOAuth> {
        let stored = before.filter(|before| before.token_url == self.token_url).map(|before| &before.secret);
        let secret = self.secret.as_ref().or(stored).ok_or_else(|| {
            let problem = "is required for a new token URL; set the secret of the client";
            Error::invalid_field("mcp_server.oauth.client_secret", problem)
        })?;
        let (token_url, client_id) = (self.token_url.clone(), self.client_id.clone());
        Ok(McpOAuth { token_url, client_id, secret: secret.clone(), scopes: self.scopes.clone() })
    }
}

/// Validates the length of the URL of a token endpoint. `folio-operations` validates its syntax.
pub fn check_token_url(field: &str, url: &str) -> Result<()> {
    fields::at_most(field, url, TOKEN_URL_CHARS)
}

/// Validates the secret of a client.
pub fn check_client_secret(field: &str, secret: &Secret) -> Result<()> {
    let text = secret.reveal();
    if text.len() > CLIENT_SECRET_CHARS || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let problem = format!("must have at most {CLIENT_SECRET_CHARS} visible ASCII characters");
        return Err(Error::invalid_field(field, problem));
    }
    Ok(())
}

/// Validates the id and the scopes of the client in a field.
pub fn check_oauth_client(field: &str, client_id: &str, scopes: &[String]) -> Result<()> {
    if !is_visible(client_id, CLIENT_ID_CHARS) {
        let problem = format!("must have 1 to {CLIENT_ID_CHARS} visible ASCII characters");
        return Err(Error::invalid_field(format!("{field}.client_id"), problem));
    }
    if scopes.len() > SCOPES_MAX {
        return Err(Error::invalid_field(format!("{field}.scopes"), format!("has more than {SCOPES_MAX} scopes")));
    }
    // RFC 6749, section 3.3.
    let is_scope = |scope: &str| is_visible(scope, SCOPE_CHARS) && !scope.contains(['"', '\\']);
    if let Some(at) = scopes.iter().position(|scope| !is_scope(scope)) {
        let problem = format!("must have 1 to {SCOPE_CHARS} visible ASCII characters without \" and \\");
        return Err(Error::invalid_field(format!("{field}.scopes[{at}]"), problem));
    }
    Ok(())
}

fn is_visible(text: &str, chars_max: usize) -> bool {
    !text.is_empty() && text.len() <= chars_max && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(text: &str) -> SealedKey {
        SealedKey { master: "m".into(), sealed: text.into() }
    }

    fn new(token_url: &str, secret: Option<&str>) -> NewMcpOAuth {
        let (token_url, client_id) = (token_url.to_owned(), "folio".to_owned());
        NewMcpOAuth { token_url, client_id, secret: secret.map(sealed), scopes: vec!["tickets".to_owned()] }
    }

    #[test]
    fn a_stored_secret_is_kept_for_the_same_token_url_only() {
        let stored = new("https://a.example/token", Some("stored")).with_secret(None).unwrap();
        let secret = |new: NewMcpOAuth| new.with_secret(Some(&stored)).map(|client| client.secret);
        assert_eq!(secret(new("https://a.example/token", None)).unwrap(), sealed("stored"));
        assert_eq!(secret(new("https://b.example/token", Some("new"))).unwrap(), sealed("new"));
        let refused = secret(new("https://b.example/token", None)).unwrap_err();
        assert_eq!(refused.violations[0].field, "mcp_server.oauth.client_secret");
        assert!(new("https://a.example/token", None).with_secret(None).is_err());
    }

    #[test]
    fn the_fields_of_a_client_are_bounded() {
        let url = |chars: usize| check_token_url("f", &"a".repeat(chars)).is_ok();
        assert_eq!((url(TOKEN_URL_CHARS), url(TOKEN_URL_CHARS + 1)), (true, false));
        let secret = |text: &str| check_client_secret("f", &Secret::new(text)).is_ok();
        assert!(secret(&"a".repeat(CLIENT_SECRET_CHARS)) && !secret(&"a".repeat(CLIENT_SECRET_CHARS + 1)));
        assert!(!secret("a b") && !secret("a\r\nb"));
        let refused = |client_id: &str, scopes: &[String]| {
            check_oauth_client("f", client_id, scopes).err().map(|error| error.violations[0].field.clone())
        };
        let scope = |text: &str| vec![text.to_owned()];
        assert_eq!(refused(&"a".repeat(CLIENT_ID_CHARS), &scope("tickets:read")), None);
        for client_id in ["", "a b", &"a".repeat(CLIENT_ID_CHARS + 1)] {
            assert_eq!(refused(client_id, &[]).as_deref(), Some("f.client_id"), "{client_id:?}");
        }
        for text in ["", "a b", "a\"b", "a\\b", &"a".repeat(SCOPE_CHARS + 1)] {
            assert_eq!(refused("a", &scope(text)).as_deref(), Some("f.scopes[0]"), "{text:?}");
        }
        assert_eq!(refused("a", &vec!["a".to_owned(); SCOPES_MAX]), None);
        assert_eq!(refused("a", &vec!["a".to_owned(); SCOPES_MAX + 1]).as_deref(), Some("f.scopes"));
    }
}
