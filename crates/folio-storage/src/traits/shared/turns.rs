//! The states of open turns, for every node and gateway.

use std::time::Duration;

use async_trait::async_trait;
use folio_history::event::CallView;
use folio_history::thread::{Phase, ThreadHeader};
use folio_history::{CallRecord, RoundRecord, TurnRecord};
use folio_resources::policy::Approver;
use folio_types::{Incarnation, OrgId, Principal, Result, Role, Timestamp, TurnId, UserId};
use serde::{Deserialize, Serialize};

/// Time to live of the state of a waiting turn without an expiry.
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

/// Time within which the owner of a waiting turn publishes it again if the store lost its state.
pub const REPUBLISH_INTERVAL: Duration = Duration::from_secs(600);

impl SharedTurn {
    /// Returns the state of a turn by the thread: its open turn, or its newest one. `record`: this turn. `node`: the owner
    /// of the thread.
    pub fn of(header: &ThreadHeader, record: Option<&TurnRecord>, node: Incarnation) -> Self {
        let open = header.open_turn.as_ref();
        let number = open.map_or(header.turns, |open| open.number);
        let (turn, phase) = (TurnId::new(header.id.clone(), number), open.map(|open| open.phase));
        let record = record.filter(|record| record.number() == number);
        let requester = record.map_or(&header.user, |record| &record.accepted.user).clone();
        let paused = record.filter(|_| phase == Some(Phase::Paused));
        let paused = paused.and_then(|record| record.pause().map(|pause| (pause, record.round(pause.round))));
        let (pause, round) = paused.unzip();
        let round = round.flatten();
        let view = |call: &CallRecord| Some(call.view(turn.clone(), pause?.round));
        Self {
            org: header.org.clone(),
            user: header.user.clone(),
            requester,
            node,
            epoch: header.epoch,
            version: header.version,
            phase,
            pending: round.into_iter().flat_map(|round| &round.calls).filter_map(view).collect(),
            paused_at: pause.map(|pause| pause.at),
            expires_at: open.and_then(|open| open.expires_at),
            approvers: round.map(approvers).unwrap_or_default(),
            turn,
        }
    }

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

    /// Returns the time to live of this state in the store. The state of a turn that no longer waits is kept only so that no
    /// older state replaces it.
    pub fn ttl(&self, now: Timestamp, idle_turn_ttl: Duration) -> Duration {
        let left = |at: Timestamp| Duration::try_from(at.duration_since(now)).unwrap_or_default();
        let wait = self.is_waiting().then(|| self.expires_at.map_or(WITHOUT_EXPIRY, left));
        wait.unwrap_or_default().saturating_add(idle_turn_ttl)
    }

    pub fn is_waiting(&self) -> bool {
        self.phase == Some(Phase::Paused)
    }
}

/// Returns the approvers of the undecided calls, without duplicates. If all calls are decided, the round waits to be
/// resumed, which every user with access to the thread may do.
fn approvers(round: &RoundRecord) -> Vec<Approver> {
    let mut approvers = Vec::new();
    for call in round.undecided() {
        let approver =
            call.call.approval_requirement.as_ref().map(|requirement| requirement.approver.clone()).unwrap_or_default();
        if !approvers.contains(&approver) {
            approvers.push(approver);
        }
    }
    if approvers.is_empty() { vec![Approver::default()] } else { approvers }
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
