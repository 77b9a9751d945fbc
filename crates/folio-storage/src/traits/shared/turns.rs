//! The states of open turns, for every node and gateway.

use std::time::Duration;

use async_trait::async_trait;
use folio_history::event::CallView;
use folio_history::thread::Phase;
use folio_resources::policy::Approver;
use folio_types::{Incarnation, OrgId, Principal, Result, Role, Timestamp, TurnId, UserId};
use serde::{Deserialize, Serialize};

/// Time to live of the state of an open turn without an expiry.
const WITHOUT_EXPIRY: Duration = Duration::from_secs(3_600);

/// The newest published state of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedTurn {
    pub org: OrgId,
    /// The user that owns the thread.
    pub user: UserId,
    /// The user that started the turn, who is not always the user that owns the thread.
    pub requester: UserId,
    pub turn: TurnId,
    /// The node that owned the thread and published the state.
    pub node: Incarnation,
    /// The epoch of the thread's header at publication.
    pub epoch: u64,
    /// The version of the thread's header at publication.
    pub version: u64,
    /// None: the turn has ended.
    pub phase: Option<Phase>,
    /// The calls that wait for decisions.
    pub pending: Vec<CallView>,
    #[serde(default, rename = "since")]
    pub paused_at: Option<Timestamp>,
    /// The time at which the pause expires. None: the pause has no expiry.
    pub expires_at: Option<Timestamp>,
    /// Approvers of the undecided calls, without duplicates. If the round only waits to be resumed: every user that can
    /// read the thread.
    #[serde(default)]
    pub approvers: Vec<Approver>,
}

impl SharedTurn {
    /// Returns whether the turn waits for a decision that this principal may make.
    pub fn is_waiting_for(&self, principal: &Principal) -> bool {
        let (is_owner, role) = (self.user == principal.user, principal.role);
        let sees = is_owner || role == Role::Admin || self.approvers.iter().any(|approver| approver.names(role));
        let is_requester = principal.may_be(&self.requester);
        let may = self.approvers.iter().any(|approver| approver.lets(role, is_requester));
        self.is_waiting() && self.org == principal.org && sees && may
    }

    /// Returns the position of the turn among waiting turns. None: the turn does not wait.
    pub fn cursor(&self) -> Option<TurnCursor> {
        let paused_at = self.paused_at.filter(|_| self.is_waiting())?;
        Some(TurnCursor { paused_at, turn: self.turn.clone() })
    }

    /// Returns the time to live of this state in the store.
    pub fn ttl(&self, now: Timestamp, idle_turn_ttl: Duration) -> Duration {
        let left = |at: Timestamp| Duration::try_from(at.duration_since(now)).unwrap_or_default();
        let open = self.phase.map(|_| self.expires_at.map_or(WITHOUT_EXPIRY, left));
        open.unwrap_or_default().saturating_add(idle_turn_ttl)
    }

    pub fn is_waiting(&self) -> bool {
        self.phase == Some(Phase::Paused)
    }
}

/// The last turn of a page of waiting turns, which are ordered by the start of their pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnCursor {
    pub paused_at: Timestamp,
    pub turn: TurnId,
}

/// States of turns that wait for decisions, with the indexes over them.
///
/// The node that owns the thread publishes a turn when its wait starts and when its wait ends. A turn that never
/// waits is not published. The store may lose its data: the thread is authoritative.
#[async_trait]
pub trait SharedTurnStore: Send + Sync {
    /// Stores a state unless a state with a higher (epoch, version) is stored. Returns whether it was stored.
    async fn publish(&self, turn: &SharedTurn) -> Result<bool>;

    /// Returns the stored state of a turn. The state of a turn that stopped waiting is kept for a while, so that a late
    /// older state is dropped.
    async fn get(&self, org: &OrgId, turn: &TurnId) -> Result<Option<SharedTurn>>;

    /// Returns at most `limit` turns of an organization that wait for decisions, after `after`, the longest pause
    /// first. `requester`: only turns that this user started. A shorter list is the last page.
    async fn waiting(
        &self,
        org: &OrgId,
        requester: Option<&UserId>,
        after: Option<&TurnCursor>,
        limit: usize,
    ) -> Result<Vec<SharedTurn>>;

    /// Removes the states of an organization's waiting turns. States of other turns expire within about an hour.
    async fn erase(&self, org: &OrgId) -> Result<()>;
}
