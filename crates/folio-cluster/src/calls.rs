//! The RPCs between processes, each identified by its request type. A signed header is valid for one RPC only.

use folio_proto::cluster::v1 as cluster;
use folio_proto::v1;

/// A request type, which identifies its RPC.
pub(crate) trait Call {
    /// Service and method of the RPC, as in the signed header and in traces.
    const METHOD: &'static str;
}

macro_rules! calls {
    ($($service:literal { $($request:path => $name:literal,)* })*) => {
        $($(impl Call for $request {
            const METHOD: &'static str = concat!($service, "/", $name);
        })*)*
    };
}

calls! {
    "folio.v1.ConversationService" {
        v1::ChatRequest => "Chat",
        v1::ApproveRequest => "Approve",
        v1::ResumeTurnRequest => "ResumeTurn",
        v1::CancelTurnRequest => "CancelTurn",
        v1::GetTurnRequest => "GetTurn",
        v1::WatchTurnRequest => "WatchTurn",
    }
    "folio.v1.ThreadService" {
        v1::CreateThreadRequest => "CreateThread",
        v1::RenameThreadRequest => "RenameThread",
        v1::DeleteThreadRequest => "DeleteThread",
        v1::ForkThreadRequest => "ForkThread",
    }
    "folio.cluster.v1.NodeService" {
        cluster::GetOpenTurnRequest => "GetOpenTurn",
        cluster::GetThreadActivityRequest => "GetThreadActivity",
        cluster::RenderPageRequest => "RenderPage",
        cluster::CallIndexRequest => "CallIndex",
        cluster::GetStatusRequest => "GetStatus",
    }
}
