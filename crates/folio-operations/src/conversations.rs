//! Operations on turns, which the node that owns the thread runs, and the lists of profiles and tools.

use std::sync::{Arc, LazyLock};

use folio_history::command::{ApproveAnswer, ApproveCommand, ChatCommand};
use folio_history::event::TurnView;
use folio_history::journal::Access;
use folio_history::peer::EventStream;
use folio_tools::{ProfileTools, Registry, ToolSpec};
use folio_types::access::Scope;
use folio_types::page::Order;
use folio_types::profile::{DOCUMENT_PROFILE, SubjectKind};
use folio_types::{Result, TurnId, limits};
use serde::Serialize;

use crate::approvals;
use crate::call_previews;
use crate::context::Context;
use crate::declaration::{Declaration, Quota, service};
use crate::filter;
use crate::list::{ListPage, ListRequest, Listing, SortKeys};
use crate::message_images::{GetImage, UploadImage};
use crate::operation::Operation;

service! {
    "ConversationService", Some(Scope::Conversations) =>
    ChatCommand, UploadImage, GetImage, ApproveCommand, ResumeTurn, CancelTurn, GetTurn, WatchTurn, ListProfiles, ListTools,
    approvals::ListPendingApprovals, approvals::WatchPendingApprovals, call_previews::PreviewToolCall
}

impl Operation for ChatCommand {
    const DECLARATION: Declaration = SERVICE.change("Chat").long().quota(Quota::Turns).by_thread();
    type Output = EventStream;

    async fn run(self, context: &Context) -> Result<EventStream> {
        context.turn_runner()?.chat(context.principal(), self).await
    }
}

impl Operation for ApproveCommand {
    const DECLARATION: Declaration = SERVICE.change("Approve").long().quota(Quota::Turns).by_thread();
    type Output = ApproveAnswer;

    async fn run(self, context: &Context) -> Result<ApproveAnswer> {
        context.turn_runner()?.approve(context.principal(), self).await
    }
}

/// Declares an operation on a turn, which the node that owns the thread performs.
macro_rules! turn_operation {
    ($(#[$doc:meta])* $name:ident -> $Output:ty = $declaration:expr; |$context:ident| $peer:expr, $method:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Serialize)]
        pub struct $name {
            pub turn_id: TurnId,
        }

        impl Operation for $name {
            const DECLARATION: Declaration = $declaration;
            type Output = $Output;

            async fn run(self, $context: &Context) -> Result<$Output> {
                $peer.$method($context.principal(), &self.turn_id).await
            }
        }
    };
}

turn_operation! {
    /// Resumes a turn that failed retriably, and streams its events. If the turn is running, joins its stream.
    ResumeTurn -> EventStream = SERVICE.change("ResumeTurn").long().quota(Quota::Turns).by_thread();
    |context| context.turn_runner()?, resume
}

turn_operation! {
    /// Cancels a running or pending turn. A turn that has ended is returned unchanged.
    CancelTurn -> TurnView = SERVICE.change("CancelTurn").by_thread(); |context| context.conversations(), cancel
}

turn_operation! {
    GetTurn -> TurnView = SERVICE.read("GetTurn"); |context| context.conversations(), get_turn
}

/// Streams the events of a turn until its closing event, after a snapshot if earlier events are not available.
#[derive(Debug, Clone, Serialize)]
pub struct WatchTurn {
    pub turn_id: TurnId,
    /// Number of the first event. 0 and 1: the first event of the turn.
    pub from_event: u64,
}

impl Operation for WatchTurn {
    const DECLARATION: Declaration = SERVICE.read("WatchTurn").long();
    type Output = EventStream;

    async fn run(self, context: &Context) -> Result<EventStream> {
        context.conversations().watch(context.principal(), &self.turn_id, self.from_event).await
    }
}

/// Lists the profiles by name. Filter: `name:` a part of the name, `subject` with the name of a [`SubjectKind`].
#[derive(Debug, Clone, Serialize)]
pub struct ListProfiles {
    pub list: ListRequest,
}

impl Operation for ListProfiles {
    const DECLARATION: Declaration = SERVICE.read("ListProfiles");
    type Output = ListPage<Arc<ProfileTools>>;

    async fn run(self, context: &Context) -> Result<ListPage<Arc<ProfileTools>>> {
        let (mut name, mut subject) = (None, None);
        for condition in filter::parse(&self.list.filter)? {
            match (condition.field.as_str(), SubjectKind::from_name(&condition.value)) {
                ("name", _) => filter::set_once(&mut name, &condition, condition.search()?.to_lowercase())?,
                ("subject", Some(kind)) => filter::set_once(&mut subject, &condition, kind)?,
                _ => return Err(filter::unknown_field(&condition, "name, and subject with the name of a kind")),
            }
        }
        let scope = ["profiles", context.principal().org.as_str()];
        let listing = Listing::new(&self.list, &scope, SortKeys::Name, Order::Name, limits::PAGE_SIZE_MAX)?;
        let registry = registry()?;
        let matches = |tools: &&Arc<ProfileTools>| {
            let profile = &tools.profile;
            filter::contains(profile.name, name.as_ref()) && subject.is_none_or(|kind| profile.subject == kind)
        };
        let mut profiles: Vec<Arc<ProfileTools>> = registry.profiles().filter(matches).cloned().collect();
        listing.sort_by_name(&mut profiles, |tools| tools.profile.name);
        listing.slice(profiles)
    }
}

/// Lists the tools of a profile. Default order: the order of the profile. Filter: `name:` a part of the name, `access`
/// with `read_only` or `read_write`.
#[derive(Debug, Clone, Serialize)]
pub struct ListTools {
    /// None: `document`.
    pub profile: Option<String>,
    pub list: ListRequest,
}

impl Operation for ListTools {
    const DECLARATION: Declaration = SERVICE.read("ListTools");
    type Output = ListPage<ToolSpec>;

    async fn run(self, context: &Context) -> Result<ListPage<ToolSpec>> {
        let (mut name, mut access) = (None, None);
        for condition in filter::parse(&self.list.filter)? {
            match (condition.field.as_str(), condition.value.as_str()) {
                ("name", _) => filter::set_once(&mut name, &condition, condition.search()?.to_lowercase())?,
                ("access", "read_only") => filter::set_once(&mut access, &condition, Access::ReadOnly)?,
                ("access", "read_write") => filter::set_once(&mut access, &condition, Access::ReadWrite)?,
                _ => return Err(filter::unknown_field(&condition, "name, and access with read_only or read_write")),
            }
        }
        let profile = self.profile.as_deref().unwrap_or(DOCUMENT_PROFILE);
        let scope = ["tools", context.principal().org.as_str(), profile];
        let listing = Listing::new(&self.list, &scope, SortKeys::Name, Order::Newest, limits::PAGE_SIZE_MAX)?;
        let tools = registry()?.profile(profile)?;
        let matches = |tool: &&ToolSpec| {
            filter::contains(tool.name, name.as_ref()) && access.is_none_or(|access| tool.access == access)
        };
        let mut tools: Vec<ToolSpec> = tools.specs().filter(matches).cloned().collect();
        listing.sort_by_name(&mut tools, |tool| tool.name);
        listing.slice(tools)
    }
}

/// Returns all tools and profiles. Their schemas are compiled once.
pub fn registry() -> Result<Arc<Registry>> {
    static REGISTRY: LazyLock<Result<Arc<Registry>>> = LazyLock::new(Registry::standard);
    REGISTRY.clone()
}
