//! Declarations: the properties of an operation that do not depend on its input.

use folio_types::Role;
use folio_types::access::Scope;

/// Duration class of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Reads or changes one resource, within the server's deadline for short calls.
    Short,
    /// Streams, transfers bytes or waits for a model, within its own limits.
    Long,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Changes nothing; the caller may repeat it freely.
    Read,
    /// Changes something; a request id makes a repetition harmless.
    Change,
}

/// The way in which a repeated request finds the result of the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idempotency {
    /// The operation only reads, or an op row is stored with the resource that it changes (see
    /// [`crate::ChangeRequest`]).
    OpRow,
    /// The owner of the thread finds the request in the thread's journal or among its request rows.
    Thread,
    /// The executor records the request before the operation runs, and the output without its secrets afterwards. The
    /// records are kept for 48 hours. If the process crashes between the two records, a repeated request runs the
    /// operation again. The second run finds the op row of a write that the first run made, and does not repeat it.
    Outcome,
}

/// The record of an operation in the audit log. Entries about tool calls are written from the turn's journal instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audit {
    Unrecorded,
    /// Recorded before the change and after it; see [`crate::AuditRecord`].
    Recorded,
    /// The operation writes its entries itself, because its user is unknown before it runs.
    ByOperation,
}

/// The credential and the organization that an operation requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// An organization, which the credential names, or which the request selects for a credential of an account.
    Organization,
    /// As [`Self::Organization`], except that the account of a platform administrator needs no organization.
    Installation,
    /// A session or an account token. The operation concerns the user itself, in no organization.
    Account,
    /// No credential.
    Public,
}

/// The quota of the organization that an operation counts against, besides `requests_per_second`, which counts every
/// operation.
///
/// An operation must declare a quota to reach the components that count against that quota: see [`crate::Context`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quota {
    /// Only `requests_per_second`.
    Requests,
    /// `documents` and `storage_bytes`.
    Storage,
    /// `concurrent_model_calls`, and the organization's credit.
    ModelCalls,
    /// `concurrent_turns`, `concurrent_model_calls` and the organization's credit.
    Turns,
}

impl Quota {
    /// Returns true if an operation that declares this quota may use a component that counts against `used`.
    pub fn covers(self, used: Self) -> bool {
        self == used || matches!((self, used), (Self::Turns, Self::ModelCalls) | (_, Self::Requests))
    }
}

/// A group of operations on one kind of resource.
#[derive(Debug, PartialEq, Eq)]
pub struct Service {
    /// The name in the API, such as `TagService`.
    pub name: &'static str,
    /// The scope that a restricted token needs for its operations. None: every token suffices.
    pub scope: Option<Scope>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declaration {
    pub service: &'static Service,
    /// The unique name, such as `CreateTag`.
    pub name: &'static str,
    /// The minimum role. Without effect for an operation that requires no organization.
    pub role: Role,
    /// Default: [`Access::Organization`].
    pub access: Access,
    /// True if the operation concerns the whole installation; only the platform's administrator may run it.
    pub platform: bool,
    /// True if the changed resource belongs to the platform. Default: false, the resource belongs to the caller's
    /// organization.
    pub changes_platform: bool,
    /// Default: [`Class::Short`].
    pub class: Class,
    pub effect: Effect,
    /// Default: [`Idempotency::OpRow`]; of an operation recorded in the audit log: [`Idempotency::Outcome`].
    pub idempotency: Idempotency,
    /// Default: [`Audit::Unrecorded`].
    pub audit: Audit,
    /// Default: [`Quota::Requests`].
    pub quota: Quota,
    /// True if every token may run the operation, whatever the scope of the service is. Default: false.
    pub is_of_any_scope: bool,
}

impl Service {
    /// Declares an operation that reads. Minimum role: viewer.
    pub const fn read(&'static self, name: &'static str) -> Declaration {
        Declaration {
            service: self,
            name,
            role: Role::Viewer,
            access: Access::Organization,
            platform: false,
            changes_platform: false,
            class: Class::Short,
            effect: Effect::Read,
            idempotency: Idempotency::OpRow,
            audit: Audit::Unrecorded,
            quota: Quota::Requests,
            is_of_any_scope: false,
        }
    }

    /// Declares an operation that changes something. Minimum role: member.
    pub const fn change(&'static self, name: &'static str) -> Declaration {
        Declaration { role: Role::Member, effect: Effect::Change, ..self.read(name) }
    }

    /// Declares an administrative change: minimum role admin, recorded in the audit log.
    pub const fn administer(&'static self, name: &'static str) -> Declaration {
        Declaration { role: Role::Admin, audit: Audit::Recorded, ..self.change(name).recorded_outcome() }
    }
}

impl Declaration {
    /// Returns the scope that a restricted token needs. None: every token suffices.
    pub const fn scope(&self) -> Option<Scope> {
        if self.is_of_any_scope { None } else { self.service.scope }
    }

    /// Declares that a restricted token needs no scope.
    #[must_use]
    pub const fn of_any_scope(self) -> Self {
        Self { is_of_any_scope: true, ..self }
    }

    #[must_use]
    pub const fn role(self, role: Role) -> Self {
        Self { role, ..self }
    }

    /// Declares that the operation requires the role admin and a token of the platform's administrator.
    #[must_use]
    pub const fn platform(self) -> Self {
        Self { role: Role::Admin, platform: true, ..self }
    }

    /// Declares the credential and the organization that the operation requires.
    #[must_use]
    pub const fn access(self, access: Access) -> Self {
        Self { access, ..self }
    }

    /// Declares that the operation is recorded in the audit log.
    #[must_use]
    pub const fn recorded(self) -> Self {
        Self { audit: Audit::Recorded, ..self.recorded_outcome() }
    }

    /// Declares that the changed resource, such as an organization, belongs to the platform.
    #[must_use]
    pub const fn changes_platform(self) -> Self {
        Self { changes_platform: true, ..self }
    }

    #[must_use]
    pub const fn long(self) -> Self {
        Self { class: Class::Long, ..self }
    }

    #[must_use]
    pub const fn quota(self, quota: Quota) -> Self {
        Self { quota, ..self }
    }

    /// Declares that the owner of the thread makes the change and recognizes repeated requests.
    #[must_use]
    pub const fn by_thread(self) -> Self {
        Self { idempotency: Idempotency::Thread, ..self }
    }

    /// Declares that the outcome is recorded under the request id.
    #[must_use]
    pub const fn recorded_outcome(self) -> Self {
        Self { idempotency: Idempotency::Outcome, ..self }
    }
}

/// Declares a service and its operations.
macro_rules! service {
    ($name:literal, $scope:expr => $($operation:ty),+) => {
        pub(crate) static SERVICE: $crate::Service = $crate::Service { name: $name, scope: $scope };

        pub(crate) const DECLARATIONS: &[$crate::Declaration] =
            &[$(<$operation as $crate::Operation>::DECLARATION),+];
    };
}
pub(crate) use service;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_reaches_only_the_components_of_its_quota() {
        let all = [Quota::Requests, Quota::Storage, Quota::ModelCalls, Quota::Turns];
        let covered = |declared: Quota| all.into_iter().filter(|used| declared.covers(*used)).collect::<Vec<_>>();
        assert_eq!(covered(Quota::Requests), [Quota::Requests]);
        assert_eq!(covered(Quota::Storage), [Quota::Requests, Quota::Storage]);
        assert_eq!(covered(Quota::ModelCalls), [Quota::Requests, Quota::ModelCalls]);
        assert_eq!(covered(Quota::Turns), [Quota::Requests, Quota::ModelCalls, Quota::Turns]);
    }
}
