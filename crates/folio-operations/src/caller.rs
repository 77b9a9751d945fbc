//! The authenticated caller of an operation.

use folio_types::access::Scope;
use folio_types::{Code, Error, Principal, Reason, Result, Role, Timestamp, TokenId};

use crate::declaration::Declaration;

/// An authenticated caller: its principal, and the restrictions of the credential that it presented.
#[derive(Debug, Clone)]
pub struct Caller {
    pub principal: Principal,
    /// Id of the presented token; for a JWT, an id that is derived from its text.
    pub token: TokenId,
    /// Scopes that the token is restricted to. Empty: unrestricted.
    pub scopes: Vec<Scope>,
    /// True if the token permits operations on the whole installation.
    pub has_platform_right: bool,
    /// Expiry of the token. None: the token does not expire.
    pub expires_at: Option<Timestamp>,
    /// True if the credential is a JWT. A JWT is not stored.
    pub is_jwt: bool,
}

impl Caller {
    pub fn covers(&self, scope: Scope) -> bool {
        self.scopes.is_empty() || self.scopes.contains(&scope)
    }

    /// Returns true if the caller administrates the platform: the token permits it, and its user is still an admin.
    pub fn is_platform_admin(&self) -> bool {
        self.has_platform_right && self.principal.role == Role::Admin
    }

    /// Checks role, platform right and scope against the declaration of an operation.
    ///
    /// # Errors
    /// `ROLE_NOT_ALLOWED` or `SCOPE_NOT_ALLOWED`; the detail `role` or `scope` names what is missing.
    pub fn authorize(&self, operation: &Declaration) -> Result<()> {
        let role = operation.role;
        if self.principal.role < role {
            let message = format!("{} requires the role {}", operation.name, role.as_str());
            return Err(permission_denied(Reason::RoleNotAllowed, message, "role", role.as_str()));
        }
        if operation.platform && !self.is_platform_admin() {
            let message = format!("{} requires a token of the platform's administrator", operation.name);
            return Err(permission_denied(Reason::RoleNotAllowed, message, "role", "platform"));
        }
        operation.scope().map_or(Ok(()), |scope| self.require(scope, operation.name))
    }

    /// Checks that the token covers a scope. `what`: the operation, or the part of a request, that requires the scope.
    ///
    /// # Errors
    /// `SCOPE_NOT_ALLOWED`; the detail `scope` names what is missing.
    pub(crate) fn require(&self, scope: Scope, what: &str) -> Result<()> {
        if self.covers(scope) {
            return Ok(());
        }
        let message = format!("{what} requires the scope {}, which this token lacks", scope.as_str());
        Err(permission_denied(Reason::ScopeNotAllowed, message, "scope", scope.as_str()))
    }
}

/// Creates the error of a caller without a permission. `name` and `missing` are the name and the value of the detail
/// that states the missing permission.
pub(crate) fn permission_denied(reason: Reason, message: impl Into<String>, name: &str, missing: &str) -> Error {
    Error::new(Code::PermissionDenied, reason, message).detail(name, missing)
}
