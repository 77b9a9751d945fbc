//! Permits of a resource that calls occupy, bounded in total, for each organization, and for each user. Therefore one
//! user cannot exhaust the permits of its organization, and one organization cannot exhaust those of the others.

use folio_operations::Caller;
use folio_permits::{Amount, Permit, Permits, RefusalReason};
use folio_proto::status;
use folio_types::{Error, OrgId, Principal, Reason, Result, UserId};

/// The owner of a credential, whose shares its calls use.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    /// See [`Principal::counted_as`].
    pub(crate) org: OrgId,
    pub(crate) user: UserId,
}

impl Owner {
    pub(crate) fn of(caller: &Caller) -> Self {
        let principal: &Principal = &caller.principal;
        Self { org: principal.counted_as(), user: principal.user.clone() }
    }
}

/// Bounds in total, for each organization, and for each user.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShareBounds {
    pub(crate) total: Amount,
    pub(crate) per_organization: Amount,
    pub(crate) per_user: Amount,
}

impl ShareBounds {
    /// Creates the bounds in total, for each organization, and for each user.
    pub(crate) const fn of([total, per_organization, per_user]: [Amount; 3]) -> Self {
        Self { total, per_organization, per_user }
    }
}

/// The permits of one resource. Clones share the permits.
#[derive(Debug, Clone)]
pub(crate) struct CallShares {
    /// Name of the resource in errors: `calls in progress`.
    resource: &'static str,
    organizations: Permits<OrgId>,
    users: Permits<Owner>,
}

/// Permits of a call. Dropping it returns them.
#[derive(Debug)]
pub(crate) struct CallShare {
    _organization: Permit<OrgId>,
    _user: Permit<Owner>,
}

impl CallShares {
    pub(crate) fn new(resource: &'static str, bounds: ShareBounds) -> Self {
        let organizations = Permits::without_queue(bounds.total, bounds.per_organization);
        Self { resource, organizations, users: Permits::without_queue(Amount::UNBOUNDED, bounds.per_user) }
    }

    /// Takes a permit for a number of bytes (0 if only permits are bounded). Error: `OVERLOADED`.
    pub(crate) fn try_acquire(&self, owner: &Owner, bytes: u64) -> Result<CallShare> {
        let user = self.users.try_acquire(owner, bytes).map_err(|_| self.refusal("the user"))?;
        let organization = self.organizations.try_acquire(&owner.org, bytes).map_err(|reason| {
            self.refusal(if reason == RefusalReason::KeyBound { "the organization" } else { "the server" })
        })?;
        Ok(CallShare { _organization: organization, _user: user })
    }

    /// Returns the permits in use.
    #[cfg(test)]
    pub(crate) fn load(&self) -> Amount {
        self.organizations.load()
    }

    fn refusal(&self, whose: &str) -> Error {
        let message = format!("{whose} has too many {}; try again later", self.resource);
        Error::exhausted(Reason::Overloaded, message).retry_after(status::RETRY_SOON)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(org: &str, user: &str) -> Owner {
        Owner { org: OrgId::derive(&[org]), user: UserId::derive(&[user]) }
    }

    #[test]
    fn a_user_and_an_organization_cannot_take_the_shares_of_others() {
        let shares = CallShares::new("calls in progress", ShareBounds::of([4, 3, 2].map(Amount::permits)));
        let take = |org, user| shares.try_acquire(&owner(org, user), 0);
        let refused = |org, user| {
            let error = take(org, user).unwrap_err();
            assert!(error.reason == Reason::Overloaded && error.retry_after.is_some(), "{error}");
            error.message
        };
        let _first = [take("a", "x").unwrap(), take("a", "x").unwrap()];
        assert!(refused("a", "x").starts_with("the user has too many calls in progress"));
        let second = take("a", "y").unwrap();
        assert!(refused("a", "y").starts_with("the organization"));
        let _third = take("b", "z").unwrap();
        assert!(refused("b", "z").starts_with("the server"));
        drop(second);
        take("b", "z").unwrap();
        assert_eq!(shares.load().permits, 3);
    }
}
