//! Writes outside turns: keyed by their request, so that a repeated request finds what it did.
//!
//! A change is made on what was just read, under the version that was read. Where somebody else was faster it is tried
//! again a few times on what is there then, unless the request itself says which version it is about.

use folio_storage::Stores;
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
    pub(crate) async fn once(
        &self,
        stores: &Stores,
        carry_out: impl Future<Output = Result<Target>>,
    ) -> Result<Target> {
        if let Some(target) = self.carried_out(stores).await? {
            return Ok(target);
        }
        match carry_out.await {
            // Perhaps by its own repetition, which found another target at the same time.
            Err(error) if error.reason == Reason::RequestIdConflict => self.carried_out(stores).await?.ok_or(error),
            done => done,
        }
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

    /// Changes something that is there: `read` gives it with its version, `decide` makes the deciding write on it.
    /// `version` is the one that the request is about, 0: whatever it is.
    pub(crate) async fn change<T, R, D>(
        &self,
        stores: &Stores,
        target: &Target,
        version: u64,
        read: impl Fn() -> R,
        decide: impl Fn(T, Expected) -> D,
    ) -> Result<OpResult>
    where
        R: Future<Output = Result<Option<(u64, T)>>>,
        D: Future<Output = Result<Decided>>,
    {
        if let Some(done) = self.done(stores, target).await? {
            return Ok(done);
        }
        for _ in 0..ATTEMPTS {
            let Some((found, item)) = read().await? else {
                return self.done(stores, target).await?.ok_or_else(|| Error::not_found(kind(target), target));
            };
            if version > 0 && found != version {
                return self.done(stores, target).await?.ok_or_else(|| moved(target));
            }
            if let Decided::Row(row) = decide(item, Expected::Version(found)).await? {
                return self.result(row);
            }
        }
        Err(moved(target))
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

/// Whether somebody else took the name between the look and the write: worth another look.
pub(crate) fn lost_the_name(error: &Error) -> bool {
    error.reason == Reason::NameTaken
}

/// The result of an op that has another shape than its change makes.
pub(crate) fn unfit(result: &OpResult) -> Error {
    Error::internal(format!("an op row holds a result of another kind: {result:?}"))
}

fn kind(target: &Target) -> &'static str {
    match target {
        Target::Document(_) => "document",
        Target::Schema(_) => "schema",
        Target::Prompt(_) => "prompt",
        Target::Tag(_) => "tag",
        Target::Extraction(_) => "extraction",
        Target::Thread(_) => "thread",
    }
}

fn reused() -> Error {
    Error::new(Code::AlreadyExists, Reason::RequestIdConflict, "this request_id was used for another request")
}

/// The error of a change that was made on another version.
pub(crate) fn moved(target: &Target) -> Error {
    let message = format!("{} {target} was changed meanwhile; read it again", kind(target));
    Error::new(Code::Aborted, Reason::VersionConflict, message)
}
