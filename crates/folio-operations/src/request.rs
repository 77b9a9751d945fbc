//! Makes changes outside turns, each once per request id. A repeated request returns the recorded result.
//!
//! A change is computed from the resource that was just read, and is conditional on its version. After a version
//! conflict, the change is recomputed a few times, unless the request names the version that it is based on.

use folio_resources::Resource;
use folio_storage::Stores;
use folio_types::op::{Expected, IdempotencyRecord, OpKey, OpResult, OpRow, OpState, Target, Write, WriteOutcome};
use folio_types::{Code, Digest, Environment, Error, Etag, OrgId, Principal, Reason, RequestId, Result, Timestamp};
use serde_json::{Value, json};

use crate::declaration::{Effect, Idempotency};
use crate::operation::Operation;

/// Maximum number of attempts of a change that meets version conflicts.
const ATTEMPTS: u32 = 5;

/// Identity of a request: the user, the request id, and the digest of the input.
#[derive(Debug, Clone)]
pub struct ChangeRequest {
    principal: Principal,
    id: RequestId,
    /// True if the client chose the id. A request under a generated id cannot be repeated.
    is_repeatable: bool,
    digest: Digest,
    at: Timestamp,
    /// The tenant of the resource that the request changes.
    tenant: OrgId,
    /// The key of the op rows that the deciding writes of the change leave.
    change_key: OpKey,
}

impl ChangeRequest {
    /// The digest covers the operation's name and the canonical JSON of its input. The input is omitted for an
    /// operation that only reads, and for an operation whose repeated requests the owner of a thread recognizes.
    pub(crate) fn new<O: Operation>(
        environment: &dyn Environment,
        principal: &Principal,
        id: Option<RequestId>,
        operation: &O,
    ) -> Result<Self> {
        let input = match (O::DECLARATION.effect, O::DECLARATION.idempotency) {
            (Effect::Read, _) | (_, Idempotency::Thread) => Value::Null,
            (Effect::Change, _) => serde_json::to_value(operation)
                .map_err(|error| Error::internal(format!("an input cannot be serialized: {error}")))?,
        };
        let (is_repeatable, id) = (id.is_some(), id.unwrap_or_else(|| RequestId::generate(environment)));
        let request = match O::DECLARATION.idempotency {
            Idempotency::OpRow | Idempotency::Thread => id.clone(),
            // The request id identifies the record of the outcome. The change has a different id, so that a repeated
            // request without a recorded outcome finds the change.
            Idempotency::Outcome => {
                format!("folio-change-{}", Digest::of(format!("{}/{id}", principal.org).as_bytes())).parse()?
            }
        };
        Ok(Self {
            principal: principal.clone(),
            tenant: principal.org.clone(),
            change_key: OpKey::Request { user: principal.user.clone(), request },
            is_repeatable,
            id,
            digest: Digest::of_json(&json!({ "operation": O::DECLARATION.name, "input": input })),
            at: environment.now(),
        })
    }

    /// Sets the tenant whose resource the request changes, such as [`OrgId::platform`]. Only operations that record
    /// their outcome change resources of another tenant than the caller's, because their change keys differ between
    /// callers.
    #[must_use]
    pub(crate) fn in_tenant(self, tenant: OrgId) -> Self {
        Self { tenant, ..self }
    }

    /// The client's id, or a generated one.
    pub fn id(&self) -> &RequestId {
        &self.id
    }

    pub fn received_at(&self) -> Timestamp {
        self.at
    }

    /// Records that this request runs an operation whose outcome is recorded. Returns the outcome if the request has
    /// run before.
    ///
    /// # Errors
    /// `REQUEST_ID_CONFLICT` if the id was used for another operation or another input.
    pub(crate) async fn begin(&self, stores: &Stores, operation: &str) -> Result<Option<Value>> {
        if !self.is_repeatable {
            return Ok(None);
        }
        let target = Target::operation(operation);
        let record = IdempotencyRecord { target: target.clone(), digest: self.digest.clone(), at: self.at };
        let stored = stores.ops.record_request(&self.principal.org, &self.key(), record).await?;
        if stored.target != target || stored.digest != self.digest {
            return Err(Error::request_id_conflict());
        }
        let outcome = stores.ops.request(&self.principal.org, &self.outcome_key()?).await?;
        let malformed = |error| Error::internal(format!("a recorded outcome is malformed: {error}"));
        outcome
            .as_ref()
            .and_then(|row| row.target.outcome_text())
            .map(serde_json::from_str)
            .transpose()
            .map_err(malformed)
    }

    /// Records the outcome of an operation for repeated requests.
    pub(crate) async fn complete(&self, stores: &Stores, outcome: &Value) -> Result<()> {
        if !self.is_repeatable {
            return Ok(());
        }
        let target = Target::outcome(outcome.to_string());
        let record = IdempotencyRecord { target, digest: self.digest.clone(), at: self.at };
        stores.ops.record_request(&self.principal.org, &self.outcome_key()?, record).await.map(drop)
    }

    /// True if the client chose the id.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.is_repeatable
    }

    /// The key of the recorded outcome: its request id is derived from the id of this request.
    fn outcome_key(&self) -> Result<OpKey> {
        let request = format!("folio-outcome-{}", Digest::of(self.id.as_str().as_bytes())).parse()?;
        Ok(OpKey::Request { user: self.principal.user.clone(), request })
    }

    /// Parts from which the id of a new resource is derived, so that a repeated request derives the same id.
    pub fn id_parts(&self) -> [&str; 3] {
        [self.principal.org.as_str(), self.principal.user.as_str(), self.id.as_str()]
    }

    /// The deciding write of a change.
    pub fn write<C>(&self, expected: Expected, change: C) -> Write<C> {
        Write {
            org: self.tenant.clone(),
            op: self.change_key.clone(),
            digest: self.digest.clone(),
            by: self.principal.user.clone(),
            at: self.at,
            expected,
            change,
        }
    }

    /// The deciding write of a further change of this request, which has an op key of its own. `name`: identifies the change with its
    /// content among all changes of the user.
    ///
    /// # Errors
    /// None: the key is well-formed.
    pub(crate) fn further_write<C>(&self, name: &str, expected: Expected, change: C) -> Result<Write<C>> {
        let digest = Digest::of_json(&json!({ "further": name }));
        let request = format!("folio-further-{digest}").parse()?;
        let op = OpKey::Request { user: self.principal.user.clone(), request };
        Ok(Write { op, digest, ..self.write(expected, change) })
    }

    pub(crate) fn key(&self) -> OpKey {
        OpKey::Request { user: self.principal.user.clone(), request: self.id.clone() }
    }

    /// Runs a change once for this request. The target is found by a name; a repeated request keeps the target even if
    /// the name then identifies another one.
    pub async fn once<A: Resource>(
        &self,
        stores: &Stores,
        change: impl Future<Output = Result<A::Id>>,
    ) -> Result<A::Id> {
        let target = match self.completed_target(stores).await? {
            Some(target) => target,
            None => match change.await {
                // A concurrent repetition of this request may have changed another target.
                Err(error) if error.reason == Reason::RequestIdConflict => {
                    self.completed_target(stores).await?.ok_or(error)?
                }
                changed => return changed,
            },
        };
        A::id_in(&target).ok_or_else(Error::request_id_conflict)
    }

    /// Returns the target that this request changed before.
    async fn completed_target(&self, stores: &Stores) -> Result<Option<Target>> {
        let Some(target) = self.recorded_target(stores).await? else { return Ok(None) };
        self.recorded_result(stores, &target).await?;
        Ok(Some(target))
    }

    async fn recorded_target(&self, stores: &Stores) -> Result<Option<Target>> {
        if !self.is_repeatable {
            return Ok(None);
        }
        match stores.ops.request(&self.tenant, &self.change_key).await? {
            Some(row) if row.digest != self.digest => Err(Error::request_id_conflict()),
            row => Ok(row.map(|row| row.target)),
        }
    }

    /// Returns true if [`Self::record`] has recorded the target.
    ///
    /// # Errors
    /// `REQUEST_ID_CONFLICT` if the id was used for another input.
    pub(crate) async fn has_recorded(&self, stores: &Stores, target: &Target) -> Result<bool> {
        Ok(self.recorded_target(stores).await?.as_ref() == Some(target))
    }

    /// Records the target of this request before it is created by other means than [`Self::create`].
    ///
    /// # Errors
    /// `REQUEST_ID_CONFLICT` if the id was used for another target or another input.
    pub(crate) async fn record(&self, stores: &Stores, target: Target) -> Result<()> {
        if !self.is_repeatable {
            return Ok(());
        }
        let record = IdempotencyRecord { target, digest: self.digest.clone(), at: self.at };
        let stored = stores.ops.record_request(&self.tenant, &self.change_key, record.clone()).await?;
        let is_same = stored.target == record.target && stored.digest == record.digest;
        if is_same { Ok(()) } else { Err(Error::request_id_conflict()) }
    }

    /// Returns the recorded result of this request on a target. Callers check it before expensive work.
    ///
    /// # Errors
    /// `REQUEST_ID_CONFLICT` if the id was used for another target or another input.
    pub async fn recorded_result(&self, stores: &Stores, target: &Target) -> Result<Option<OpResult>> {
        if !self.is_repeatable {
            return Ok(None);
        }
        if self.recorded_target(stores).await?.is_some_and(|recorded| recorded != *target) {
            return Err(Error::request_id_conflict());
        }
        match stores.ops.row(&self.tenant, target, &self.change_key).await? {
            Some(row) if row.digest != self.digest => Err(Error::request_id_conflict()),
            Some(row) => result(row).map(Some),
            None => Ok(None),
        }
    }

    /// Creates a resource under the id that follows from the request, and returns the id.
    ///
    /// Error: `REQUEST_ID_CONFLICT` if the id is in use.
    pub async fn create<A: Resource>(&self, stores: &Stores, change: A::Change) -> Result<A::Id> {
        let id = A::derive_id(&self.id_parts());
        let decided = stores.of::<A>().decide(&id, self.write(Expected::Absent, change)).await?;
        created(decided).map(|_| id)
    }

    /// Changes an existing resource; `change` computes the change from the stored resource. `etag` is the version that
    /// the change is based on. None: any version.
    ///
    /// # Errors
    /// `NOT_FOUND`, `VERSION_CONFLICT`, and the errors of `change`.
    pub async fn update<A, F>(
        &self,
        stores: &Stores,
        id: &A::Id,
        etag: Option<Etag>,
        change: impl Fn(A) -> F + Send,
    ) -> Result<OpResult>
    where
        A: Resource,
        F: Future<Output = Result<A::Change>> + Send,
    {
        let target = A::target(id);
        if let Some(recorded) = self.recorded_result(stores, &target).await? {
            return Ok(recorded);
        }
        for _ in 0..ATTEMPTS {
            let Some(found) = stores.of::<A>().get(&self.tenant, id).await? else {
                let recorded = self.recorded_result(stores, &target).await?;
                return recorded.ok_or_else(|| Error::not_found(target.kind(), &target));
            };
            let stored = found.version();
            if etag.is_some_and(|etag| etag.version() != stored) {
                return self.recorded_result(stores, &target).await?.ok_or_else(|| version_conflict(&target));
            }
            let write = self.write(Expected::Version(stored), change(found).await?);
            if let WriteOutcome::Row(row) = stores.of::<A>().decide(id, write).await? {
                return result(row);
            }
        }
        Err(version_conflict(&target))
    }

    /// Deletes an existing resource. `etag` as in [`ChangeRequest::update`].
    pub async fn delete<A: Resource>(&self, stores: &Stores, id: &A::Id, etag: Option<Etag>) -> Result<()> {
        self.update(stores, id, etag, |_: A| async { Ok(A::DELETE) }).await.map(drop)
    }

    /// Checks that a resource exists or was deleted. Writes nothing. Error: `NOT_FOUND` if it never existed.
    pub async fn check_existed<A: Resource>(&self, stores: &Stores, id: &A::Id) -> Result<()> {
        // No stored resource has version 0, so the write always fails.
        stores.of::<A>().decide(id, self.write(Expected::Version(0), A::DELETE)).await.map(drop)
    }

    /// Creates a resource with a name, or revises the resource that has the name. Returns its id.
    ///
    /// # Errors
    /// `VERSION_CONFLICT` if other requests take or release the name too often during the change.
    pub async fn create_or_revise<A: Resource>(
        &self,
        stores: &Stores,
        name: &str,
        create: A::Change,
        revise: A::Change,
    ) -> Result<A::Id> {
        for _ in 0..ATTEMPTS {
            if let Some(found) = stores.of::<A>().by_name(&self.tenant, name).await? {
                let revised = self.update(stores, found.id(), None, |_: A| async { Ok(revise.clone()) }).await;
                match revised {
                    Err(deleted) if deleted.code == Code::NotFound => continue,
                    revised => return revised.map(|_| found.id().clone()),
                }
            }
            match self.create::<A>(stores, create.clone()).await {
                // Another request took the name between the read and the write.
                Err(error) if error.reason == Reason::NameTaken => {}
                created => return created,
            }
        }
        Err(version_conflict(&A::target(&A::derive_id(&self.id_parts()))))
    }
}

/// Result of a write that expected no resource under the id.
fn created(decided: WriteOutcome) -> Result<OpResult> {
    match decided {
        WriteOutcome::Row(row) => result(row),
        WriteOutcome::VersionMismatch => Err(Error::request_id_conflict()),
    }
}

fn result(row: OpRow) -> Result<OpResult> {
    match row.state {
        OpState::Done(result) => Ok(result),
        OpState::Conflict | OpState::Aborted => {
            let message = "the request was abandoned before it changed anything";
            Err(Error::version_conflict(message))
        }
    }
}

fn version_conflict(target: &Target) -> Error {
    let message = format!("{} {target} was changed concurrently; read it again and retry", target.kind());
    Error::version_conflict(message)
}
