//! What administrators change goes to the audit log: before it is made, and once it was.

use folio_proto::fields;
use folio_storage::AuditStore;
use folio_types::audit::{AuditEntry, AuditKind, AuditTarget, Redacted};
use folio_types::{Code, Environment, Error, OrgId, Principal, Reason, RequestId, Result};
use serde_json::Value;

/// A change that an administrator asks for.
pub(crate) struct Change {
    by: Principal,
    /// Whose logs tell it: that of the administrator's organization, and of another one that it concerns.
    logs: Vec<OrgId>,
    operation: &'static str,
    /// Under which it is recorded: the request, as its op key names it.
    key: String,
    arguments: Value,
}

/// A change that was made.
pub(crate) struct Made {
    /// What was changed.
    pub(crate) target: AuditTarget,
    /// The organization that it made: its log begins with this.
    pub(crate) founded: Option<OrgId>,
}

impl Made {
    /// In an organization that was there.
    pub(crate) fn here(kind: &str, id: impl ToString) -> Self {
        Self { target: AuditTarget::new(kind, id), founded: None }
    }
}

impl Change {
    /// `arguments`: what it is about, without secrets; where it may concern another organization than the caller's, ids and numbers
    /// only, since what the caller's log tells stays when the other one is deleted. Error: the request's id is malformed.
    pub(crate) fn new(
        environment: &dyn Environment,
        by: &Principal,
        operation: &'static str,
        request_id: &str,
        arguments: Value,
    ) -> Result<Self> {
        let request = fields::request_id(request_id)?.unwrap_or_else(|| RequestId::generate(environment));
        let key = format!("request:{}:{request}", by.user);
        Ok(Self { by: by.clone(), logs: vec![by.org.clone()], operation, key, arguments })
    }

    /// The same change, of this organization, which is there: its log tells all of it, too.
    pub(crate) fn of(mut self, org: &OrgId) -> Self {
        if !self.logs.contains(org) {
            self.logs.push(org.clone());
        }
        self
    }

    /// Makes the change, with an entry before it and another one after it, in each log; whoever asks sees to it that this is not
    /// dropped. Where the first cannot be written nothing is changed; where the second cannot, the change stands and the log says that
    /// it was asked for. So it does where the change ended with an error that leaves open whether it stands.
    pub(crate) async fn recorded<T>(
        self,
        store: &dyn AuditStore,
        environment: &dyn Environment,
        change: impl Future<Output = Result<T>>,
        made: impl FnOnce(&T) -> Made,
    ) -> Result<T> {
        let asked = [self.entry(environment, AuditKind::ChangeAsked)];
        for org in &self.logs {
            store.append(org, &asked).await?;
        }
        let changed = change.await;
        let (entry, founded) = match &changed {
            Ok(changed) => {
                let Made { target, founded } = made(changed);
                let entry = self.entry(environment, AuditKind::ChangeMade);
                (AuditEntry { target: Some(target), ..entry }, founded)
            }
            Err(error) if decides(error) => {
                let entry = self.entry(environment, AuditKind::ChangeFailed);
                (AuditEntry { outcome: Some(error.reason.as_str().to_owned()), ..entry }, None)
            }
            Err(_) => return changed,
        };
        let entries = [entry];
        for org in self.logs.iter().chain(&founded) {
            if let Err(error) = store.append(org, &entries).await {
                tracing::error!(%org, operation = self.operation, %error, "the audit log lacks how a change came out");
            }
        }
        changed
    }

    fn entry(&self, environment: &dyn Environment, kind: AuditKind) -> AuditEntry {
        let user = Some(self.by.user.clone());
        AuditEntry {
            arguments: Some(Redacted::request(&self.arguments)),
            ..AuditEntry::new(&self.key, kind, environment.now(), user, self.operation)
        }
    }
}

/// Whether an error says that nothing was changed. Any other one may come after a part of the change, or all of it.
fn decides(error: &Error) -> bool {
    match error.reason {
        // A model endpoint is asked before anything is changed.
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
