//! Writes outside turns: keyed by their request, so that a repeated request finds what it did.
//!
//! A change is made on what was just read, under the version that was read. Where somebody else was faster it is tried
//! again a few times on what is there then, unless the request itself says which version it is about.

use folio_storage::{Aggregate, Named, Stores};
use folio_types::op::{Decided, Expected, OpKey, OpResult, OpRow, OpState, Target, Write};
use folio_types::{Code, Digest, Environment, Error, Principal, Reason, RequestId, Result, Timestamp};

/// How often a change is tried again on what is there then.
const ATTEMPTS: u32 = 5;

/// One request that changes something.
#[derive(Debug, Clone)]
pub(crate) struct Op {
    /// Who asks.
    pub(crate) principal: Principal,
    /// The request.
    pub(crate) request: RequestId,
    /// Whether the id is the client's: no other can be repeated.
    given: bool,
    digest: Digest,
    at: Timestamp,
}

impl Op {
    /// The op of a message. Without a request id nothing can repeat it.
    pub(crate) fn new(
        environment: &dyn Environment,
        principal: &Principal,
        rpc: &str,
        request_id: &str,
        message: &impl prost::Message,
    ) -> Result<Self> {
        let request = folio_proto::fields::request_id(request_id)?;
        let mut asked = format!("{rpc}\n").into_bytes();
        asked.extend(message.encode_to_vec());
        Ok(Self {
            principal: principal.clone(),
            given: request.is_some(),
            request: request.unwrap_or_else(|| RequestId::generate(environment)),
            digest: Digest::of(&asked),
            at: environment.now(),
        })
    }

    /// What the id of something new is derived from.
    pub(crate) fn parts(&self) -> [&str; 3] {
        [self.principal.org.as_str(), self.principal.user.as_str(), self.request.as_str()]
    }

    /// The deciding write of a change.
    pub(crate) fn write<C>(&self, expected: Expected, change: C) -> Write<C> {
        Write {
            org: self.principal.org.clone(),
            op: self.key(),
            digest: self.digest.clone(),
            by: self.principal.user.clone(),
            at: self.at,
            expected,
            change,
        }
    }

    fn key(&self) -> OpKey {
        OpKey::Request { user: self.principal.user.clone(), request: self.request.clone() }
    }

    /// Carries out a request that finds its target by a name: once, whatever the name leads to by then.
    pub(crate) async fn once<A: Aggregate>(
        &self,
        stores: &Stores,
        carry_out: impl Future<Output = Result<A::Id>>,
    ) -> Result<A::Id> {
        let target = match self.carried_out(stores).await? {
            Some(target) => target,
            None => match carry_out.await {
                // Perhaps by its own repetition, which found another target at the same time.
                Err(error) if error.reason == Reason::RequestIdConflict => {
                    self.carried_out(stores).await?.ok_or(error)?
                }
                done => return done,
            },
        };
        A::id_in(&target).cloned().ok_or_else(reused)
    }

    /// The target that the request changed before, or none.
    async fn carried_out(&self, stores: &Stores) -> Result<Option<Target>> {
        let Some(target) = self.asked(stores).await? else { return Ok(None) };
        self.done(stores, &target).await?;
        Ok(Some(target))
    }

    async fn asked(&self, stores: &Stores) -> Result<Option<Target>> {
        if !self.given {
            return Ok(None);
        }
        match stores.ops.asked(&self.principal.org, &self.key()).await? {
            Some(row) if row.digest != self.digest => Err(reused()),
            row => Ok(row.map(|row| row.target)),
        }
    }

    /// What the request did to this target before, or none: asked before work that costs. One that changed another target
    /// is refused.
    pub(crate) async fn done(&self, stores: &Stores, target: &Target) -> Result<Option<OpResult>> {
        if !self.given {
            return Ok(None);
        }
        if self.asked(stores).await?.is_some_and(|asked| asked != *target) {
            return Err(reused());
        }
        match stores.ops.row(&self.principal.org, target, &self.key()).await? {
            Some(row) if row.digest != self.digest => Err(reused()),
            Some(row) => self.result(row).map(Some),
            None => Ok(None),
        }
    }

    /// What the store decided on something new.
    pub(crate) fn created(&self, decided: Decided) -> Result<OpResult> {
        match decided {
            Decided::Row(row) => self.result(row),
            Decided::Moved => Err(reused()),
        }
    }

    /// Changes something that is there; what is done to it may follow from how it is found. `version` is the one that the
    /// request is about, 0: whatever it is.
    pub(crate) async fn change<A, F>(
        &self,
        stores: &Stores,
        id: &A::Id,
        version: u64,
        change: impl Fn(A) -> F,
    ) -> Result<OpResult>
    where
        A: Aggregate,
        F: Future<Output = Result<A::Change>>,
    {
        let target = A::target(id);
        if let Some(done) = self.done(stores, &target).await? {
            return Ok(done);
        }
        for _ in 0..ATTEMPTS {
            let Some(found) = A::find(stores, &self.principal.org, id).await? else {
                return self.done(stores, &target).await?.ok_or_else(|| Error::not_found(target.kind(), &target));
            };
            let there = found.version();
            if version > 0 && there != version {
                return self.done(stores, &target).await?.ok_or_else(|| moved(&target));
            }
            let write = self.write(Expected::Version(there), change(found).await?);
            if let Decided::Row(row) = A::decide(stores, id, write).await? {
                return self.result(row);
            }
        }
        Err(moved(&target))
    }

    /// Deletes something that is there.
    pub(crate) async fn delete<A: Aggregate>(&self, stores: &Stores, id: &A::Id, version: u64) -> Result<()> {
        self.change(stores, id, version, async |_: A| Ok(A::DELETE)).await.map(drop)
    }

    /// Creates under a name, or revises what has it already. Gives its id.
    pub(crate) async fn create_or_revise<A: Named>(
        &self,
        stores: &Stores,
        name: &str,
        create: A::Change,
        revise: A::Change,
    ) -> Result<A::Id> {
        let new = A::derive(&self.parts());
        for _ in 0..ATTEMPTS {
            if let Some(there) = A::by_name(stores, &self.principal.org, name).await? {
                match self.change(stores, there.id(), 0, async |_: A| Ok(revise.clone())).await {
                    Err(gone) if gone.code == Code::NotFound => continue,
                    done => return done.map(|_| there.id().clone()),
                }
            }
            match A::decide(stores, &new, self.write(Expected::Absent, create.clone())).await {
                // Somebody else took the name between the look and the write: worth another look.
                Err(error) if error.reason == Reason::NameTaken => {}
                decided => return self.created(decided?).map(|_| new),
            }
        }
        Err(moved(&A::target(&new)))
    }

    fn result(&self, row: OpRow) -> Result<OpResult> {
        match row.state {
            OpState::Done(result) => Ok(result),
            OpState::Conflict | OpState::Aborted => {
                Err(Error::new(Code::Aborted, Reason::VersionConflict, "the request was given up before it happened"))
            }
        }
    }
}

fn reused() -> Error {
    Error::new(Code::AlreadyExists, Reason::RequestIdConflict, "this request_id was used for another request")
}

/// The error of a change that was made on another version.
fn moved(target: &Target) -> Error {
    let message = format!("{} {target} was changed meanwhile; read it again", target.kind());
    Error::new(Code::Aborted, Reason::VersionConflict, message)
}
