//! The states of open turns, for every node and gateway.

use async_trait::async_trait;
use folio_history::event::CallView;
use folio_history::thread::Phase;
use folio_types::policy::Approver;
use folio_types::{Incarnation, OrgId, Principal, Result, Role, Timestamp, TurnId, UserId};
use serde::{Deserialize, Serialize};

/// The state of a turn that its owner published last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedTurn {
    /// Its organization.
    pub org: OrgId,
    /// Whose thread it is in.
    pub user: UserId,
    /// Who began it; none: told by a version that did not tell, see [`SharedTurn::asker`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asker: Option<UserId>,
    /// The turn.
    pub turn: TurnId,
    /// Who told it.
    pub owner: Incarnation,
    /// The epoch of the thread's header that was told of.
    pub epoch: u64,
    /// The version of the thread's header that was told of.
    pub version: u64,
    /// What it does; none: it ended.
    pub phase: Option<Phase>,
    /// The calls that wait for decisions.
    pub pending: Vec<CallView>,
    /// When its pause began.
    #[serde(default)]
    pub since: Option<Timestamp>,
    /// When its pause ends.
    pub expires_at: Option<Timestamp>,
    /// Who may take the decisions that are missing, each kind once; where the round only waits to be gone on with, whoever sees
    /// the thread.
    #[serde(default)]
    pub approvers: Vec<Approver>,
}

impl SharedTurn {
    /// Whether it waits for a decision that this principal may take.
    pub fn waits_for(&self, principal: &Principal) -> bool {
        let (owner, role) = (self.user == principal.user, principal.role);
        let sees = owner || role == Role::Admin || self.approvers.iter().any(|approver| approver.names(role));
        let asker = *self.asker() == principal.user;
        let may = self.approvers.iter().any(|approver| approver.lets(role, asker));
        self.waits() && self.org == principal.org && sees && may
    }

    /// Who began it: not always whose thread it is.
    pub fn asker(&self) -> &UserId {
        self.asker.as_ref().unwrap_or(&self.user)
    }

    /// Its place among those that wait; none: it does not.
    pub fn cursor(&self) -> Option<TurnCursor> {
        let since = self.since.filter(|_| self.waits())?;
        Some(TurnCursor { since, turn: self.turn.clone() })
    }

    /// Whether somebody is to decide.
    pub fn waits(&self) -> bool {
        self.phase == Some(Phase::Paused)
    }
}

/// The last turn of a page of waiting turns: those that wait longest come first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnCursor {
    /// When its pause began.
    pub since: Timestamp,
    /// The turn.
    pub turn: TurnId,
}

/// States of turns that wait for decisions, with the indexes over them.
///
/// An owner publishes a turn when it starts to wait and when it stops waiting. A turn that never waits is not published. The
/// store may lose its data: the thread is the source of truth.
#[async_trait]
pub trait SharedTurnStore: Send + Sync {
    /// Stores a state, unless one with a higher (epoch, version) is stored. Returns whether this state is now stored.
    async fn publish(&self, turn: &SharedTurn) -> Result<bool>;

    /// Returns the stored state of a turn. A turn that stopped waiting keeps its state for a while, so that a late state of
    /// it is dropped.
    async fn get(&self, org: &OrgId, turn: &TurnId) -> Result<Option<SharedTurn>>;

    /// Turns of an organization, or those that one user of it began, that wait for decisions: those that wait longest come first. At most
    /// `limit`, after `after`; fewer is the end.
    async fn waiting(
        &self,
        org: &OrgId,
        asker: Option<&UserId>,
        after: Option<&TurnCursor>,
        limit: usize,
    ) -> Result<Vec<SharedTurn>>;

    /// Removes the states of an organization's turns that wait. Those of other turns expire within little more than an hour.
    async fn erase(&self, org: &OrgId) -> Result<()>;
}
