//! The audit log of recorded operations: an entry before the change and one after it.

use folio_resources::audit::{AuditEntry, AuditKind, AuditTarget, RedactedArguments};
use folio_resources::{Resource as _, User};
use folio_storage::AuditStore;
use folio_types::{Code, Environment, Error, OrgId, Reason, Result, UserId};
use serde::Serialize;
use serde_json::{Value, json};

use crate::context::Context;
use crate::declaration::Declaration;

/// Derives the changed resource from the output of an operation.
type TargetOf<T> = Box<dyn FnOnce(&T) -> Option<AuditTarget> + Send>;

/// The audit data that an operation supplies. Caller, time and name are added to it.
pub struct AuditRecord<T> {
    arguments: Value,
    /// Another organization that the operation concerns, whose log records it as well.
    other_org: Option<OrgId>,
    target: TargetOf<T>,
    /// The organization that the operation creates. Its log starts with the entry of the operation.
    created_org: Option<OrgId>,
}

impl<T> std::fmt::Debug for AuditRecord<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuditRecord").field("arguments", &self.arguments).finish_non_exhaustive()
    }
}

impl<T> AuditRecord<T> {
    /// Creates a record with these arguments, which must contain no secret. If the operation may concern another organization than
    /// the caller's, they contain ids and numbers only, because the caller's log remains when the other organization is
    /// deleted.
    pub fn new(arguments: Value) -> Self {
        Self { arguments, other_org: None, target: Box::new(|_| None), created_org: None }
    }

    /// Records the serialized input of an operation as its arguments.
    pub(crate) fn of_input(input: &impl Serialize) -> Result<Self> {
        let unserializable =
            |error| Error::internal(format!("the input of an operation cannot be serialized: {error}"));
        serde_json::to_value(input).map(Self::new).map_err(unserializable)
    }

    /// Records a change of the caller's own user, without arguments.
    pub(crate) fn of_own_user(context: &Context) -> Self {
        Self::new(json!({})).target(User::KIND, &context.principal().user)
    }

    /// Sets the changed resource, if it is known before the change.
    #[must_use]
    pub fn target(self, kind: &str, id: impl ToString) -> Self {
        let target = AuditTarget::new(kind, id);
        self.target_of(|_| target)
    }

    /// Sets the changed resource, if it is known only from the output.
    #[must_use]
    pub fn target_of(self, target: impl FnOnce(&T) -> AuditTarget + Send + 'static) -> Self {
        Self { target: Box::new(|output| Some(target(output))), ..self }
    }

    /// Writes the record also to the log of this existing organization.
    #[must_use]
    pub fn other_org(self, org: OrgId) -> Self {
        Self { other_org: Some(org), ..self }
    }

    /// Writes the record also as the first entry in the log of the organization that the operation creates.
    #[must_use]
    pub fn creates(self, org: OrgId) -> Self {
        Self { created_org: Some(org), ..self }
    }
}

/// A change that is recorded in audit logs.
#[derive(Debug)]
pub struct AuditedChange {
    user: UserId,
    org: OrgId,
    /// `SERVICE.NAME` of the operation.
    operation: String,
    /// The key of the entries. It is derived from the user and the request id, so that a repeated request writes the same
    /// entries.
    key: String,
}

impl AuditedChange {
    pub(crate) fn new(declaration: &Declaration, context: &Context) -> Self {
        let (org, user) = (context.audit_org(), context.principal().user.clone());
        let key = format!("request:{user}:{}", context.request.id());
        Self { user, org, operation: format!("{}.{}", declaration.service.name, declaration.name), key }
    }

    /// Makes the change with an entry before it and another one after it, in each log. The caller must not drop this
    /// future.
    ///
    /// If the first entry cannot be written, nothing is changed. If the second entry cannot be written, or the change ends with
    /// an error that leaves its outcome open, the log shows that the change was requested.
    pub(crate) async fn run<T>(
        self,
        store: &dyn AuditStore,
        environment: &dyn Environment,
        record: AuditRecord<T>,
        change: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let AuditRecord { arguments, other_org, target, created_org } = record;
        let mut logs = vec![self.org.clone()];
        logs.extend(other_org.filter(|org| *org != self.org));
        let requested = [self.entry(environment, AuditKind::ChangeRequested, &arguments)];
        for org in &logs {
            store.append(org, &requested).await?;
        }
        let changed = change.await;
        let entry = match &changed {
            Ok(output) => {
                logs.extend(created_org);
                let entry = self.entry(environment, AuditKind::ChangeApplied, &arguments);
                AuditEntry { target: target(output), ..entry }
            }
            Err(error) if nothing_was_changed(error) => {
                let entry = self.entry(environment, AuditKind::ChangeFailed, &arguments);
                AuditEntry { outcome: Some(error.reason.as_str().to_owned()), ..entry }
            }
            Err(_) => return changed,
        };
        let entries = [entry];
        for org in &logs {
            if let Err(error) = store.append(org, &entries).await {
                let operation = &self.operation;
                tracing::error!(%org, operation, %error, "the outcome of a change is missing in the audit log");
            }
        }
        changed
    }

    fn entry(&self, environment: &dyn Environment, kind: AuditKind, arguments: &Value) -> AuditEntry {
        AuditEntry {
            arguments: Some(RedactedArguments::request(arguments)),
            ..AuditEntry::new(&self.key, kind, environment.now(), Some(self.user.clone()), &self.operation)
        }
    }
}

/// Returns true if an error states that nothing was changed. After any other error, a part of the change or all of it
/// may be stored.
fn nothing_was_changed(error: &Error) -> bool {
    match error.reason {
        // A model endpoint is called before anything is changed.
        Reason::ModelUnavailable | Reason::ModelFailed | Reason::ModelTimeout => true,
        _ => match error.code {
            Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::ResourceExhausted
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::Unimplemented => true,
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::DataLoss | Code::Internal => false,
        },
    }
}
