//! What administrators change goes to the audit log: before it is made, and once it was.

use folio_proto::fields;
use folio_storage::AuditStore;
use folio_types::audit::{AuditEntry, AuditKind, AuditTarget, Redacted};
use folio_types::{Environment, OrgId, Principal, RequestId, Result};
use serde_json::Value;

/// A change that an administrator asks for.
pub(crate) struct Change {
    by: Principal,
    operation: &'static str,
    /// Under which it is recorded: the request, as its op key names it.
    key: String,
    arguments: Value,
}

/// A change that was made.
pub(crate) struct Made {
    /// What was changed.
    pub(crate) target: AuditTarget,
    /// The organization that it concerns, where that is another one than the administrator's: its log tells it, too.
    pub(crate) concerns: Option<OrgId>,
}

impl Made {
    /// In the administrator's own organization.
    pub(crate) fn here(kind: &str, id: impl ToString) -> Self {
        Self { target: AuditTarget::new(kind, id), concerns: None }
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
        Ok(Self { by: by.clone(), operation, key: format!("request:{}:{request}", by.user), arguments })
    }

    /// Makes the change, with an entry before it and another one after it; whoever asks sees to it that this is not dropped. Where the first cannot be written nothing is changed;
    /// where the second cannot, the change stands and the log says that it was asked for.
    pub(crate) async fn recorded<T>(
        self,
        store: &dyn AuditStore,
        environment: &dyn Environment,
        change: impl Future<Output = Result<T>>,
        made: impl FnOnce(&T) -> Made,
    ) -> Result<T> {
        store.append(&self.by.org, &[self.entry(environment, AuditKind::ChangeAsked)]).await?;
        let changed = change.await;
        let (entry, concerns) = match &changed {
            Ok(changed) => {
                let Made { target, concerns } = made(changed);
                let entry = self.entry(environment, AuditKind::ChangeMade);
                (AuditEntry { target: Some(target), ..entry }, concerns.filter(|org| *org != self.by.org))
            }
            Err(error) => {
                let entry = self.entry(environment, AuditKind::ChangeFailed);
                (AuditEntry { outcome: Some(error.reason.as_str().to_owned()), ..entry }, None)
            }
        };
        let entries = [entry];
        for org in std::iter::once(&self.by.org).chain(&concerns) {
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
