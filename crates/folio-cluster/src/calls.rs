//! The calls between processes, each known by what it is asked with: a signed header is good for one of them.

use folio_proto::cluster::v1 as wire;

/// What a call is asked with.
pub(crate) trait Call {
    /// The call's name in the header.
    const NAME: &'static str;
    /// Service and call, as traces name it.
    const METHOD: &'static str;
}

macro_rules! calls {
    ($($request:ident => $name:literal,)*) => {
        $(impl Call for wire::$request {
            const NAME: &'static str = $name;
            const METHOD: &'static str = concat!("folio.cluster.v1.ConversationNodeService/", $name);
        })*
    };
}

calls! {
    ChatRequest => "Chat",
    ApproveRequest => "Approve",
    ResumeTurnRequest => "ResumeTurn",
    CancelTurnRequest => "CancelTurn",
    GetTurnRequest => "GetTurn",
    GetOpenTurnRequest => "GetOpenTurn",
    WatchTurnRequest => "WatchTurn",
    ListToolsRequest => "ListTools",
    CreateThreadRequest => "CreateThread",
    RenameThreadRequest => "RenameThread",
    DeleteThreadRequest => "DeleteThread",
    ForkThreadRequest => "ForkThread",
    HoldsRequest => "Holds",
    GetStatusRequest => "GetStatus",
}
