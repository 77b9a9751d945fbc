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
    /// The organization of the turn.
    pub org: OrgId,
    /// The owner of the thread.
    pub user: UserId,
    /// The user that started the turn, who is not always the owner of the thread.
    pub requester: UserId,
    /// The turn.
    pub turn: TurnId,
    /// The node that published the state.
    pub owner: Incarnation,
    /// The epoch of the thread's header at publication.
    pub epoch: u64,
    /// The version of the thread's header at publication.
    pub version: u64,
    /// The phase of the turn. None: the turn has ended.
    pub phase: Option<Phase>,
    /// The calls that wait for decisions.
    pub pending: Vec<CallView>,
    /// The time at which the turn was paused.
    #[serde(default)]
    pub since: Option<Timestamp>,
    /// The time at which the pause expires.
    pub expires_at: Option<Timestamp>,
    /// Approvers of the undecided calls, without duplicates. If the round only waits to be resumed: every user that can
    /// read the thread.
    #[serde(default)]
    pub approvers: Vec<Approver>,
}

impl SharedTurn {
    /// Returns whether the turn waits for a decision that this principal may make.
    pub fn is_waiting_for(&self, principal: &Principal) -> bool {
        let (owner, role) = (self.user == principal.user, principal.role);
        let sees = owner || role == Role::Admin || self.approvers.iter().any(|approver| approver.names(role));
        let is_requester = self.requester == principal.user;
        let may = self.approvers.iter().any(|approver| approver.lets(role, is_requester));
        self.is_waiting() && self.org == principal.org && sees && may
    }

    /// Returns the position of the turn among waiting turns; none if it does not wait.
    pub fn cursor(&self) -> Option<TurnCursor> {
        let since = self.since.filter(|_| self.is_waiting())?;
        Some(TurnCursor { since, turn: self.turn.clone() })
    }

    /// Returns whether the turn waits for a decision.
    pub fn is_waiting(&self) -> bool {
        self.phase == Some(Phase::Paused)
    }
}

/// The last turn of a page of waiting turns, which are ordered by the start of their pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnCursor {
    /// The time at which the turn was paused.
    pub since: Timestamp,
    /// The turn.
    pub turn: TurnId,
}

/// States of turns that wait for decisions, with the indexes over them.
///
/// An owner publishes a turn when it starts to wait and when it stops waiting. A turn that never waits is not
/// published. The store may lose its data: the thread is the source of truth.
#[async_trait]
pub trait SharedTurnStore: Send + Sync {
    /// Stores a state, unless one with a higher (epoch, version) is stored. Returns whether this state is now stored.
    async fn publish(&self, turn: &SharedTurn) -> Result<bool>;

    /// Returns the stored state of a turn. A turn that stopped waiting keeps its state for a while, so that a late
    /// state of it is dropped.
    async fn get(&self, org: &OrgId, turn: &TurnId) -> Result<Option<SharedTurn>>;

    /// Returns turns that wait for decisions, of an organization or of one user that started them, the longest pause
    /// first. At most `limit`, after `after`; a shorter list is the last page.
    async fn waiting(
        &self,
        org: &OrgId,
        requester: Option<&UserId>,
        after: Option<&TurnCursor>,
        limit: usize,
    ) -> Result<Vec<SharedTurn>>;

    /// Removes the states of an organization's waiting turns. States of other turns expire within little more than an
    /// hour.
    async fn erase(&self, org: &OrgId) -> Result<()>;
}
