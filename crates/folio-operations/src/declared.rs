//! Operations whose implementation is still in the gateway's services. Each moves into the module of its service.

use folio_types::Role;
use folio_types::access::Scope;

use crate::declaration::{Declaration, Quota, Service};

static CONVERSATION: Service = Service { name: "ConversationService", scope: Some(Scope::Conversations) };
static THREAD: Service = Service { name: "ThreadService", scope: Some(Scope::Conversations) };

pub(crate) const DECLARATIONS: &[Declaration] = &[
    CONVERSATION.change("Chat").long().quota(Quota::Turns),
    CONVERSATION.change("Approve").long().quota(Quota::Turns),
    CONVERSATION.change("ResumeTurn").long().quota(Quota::Turns),
    CONVERSATION.change("CancelTurn"),
    CONVERSATION.read("GetTurn"),
    CONVERSATION.read("WatchTurn").long(),
    CONVERSATION.read("ListTools"),
    CONVERSATION.read("ListPendingApprovals").role(Role::Member),
    CONVERSATION.read("WatchPendingApprovals").role(Role::Member).long(),
    THREAD.change("CreateThread"),
    THREAD.read("ListThreads"),
    THREAD.read("GetThread"),
    THREAD.change("RenameThread"),
    THREAD.change("DeleteThread"),
    THREAD.change("ForkThread"),
];
