//! Serves `LinkService`.

use folio_operations::links::{
    IncomingLink, LinkReport, ListDocumentLinks, ListLinkingDocuments, ListMissingLinks, MissingLink, NamedDocument,
    ResolveDocumentLinks, ResolvedLink,
};
use folio_proto::{fields, time, v1};
use folio_tools::links::LinkStatus;
use v1::link_service_server::LinkService;

use super::Api;
use super::handler::{change, list};

#[tonic::async_trait]
impl LinkService for Api {
    list!(
        list_document_links,
        ListDocumentLinksRequest,
        ListDocumentLinks { document_id },
        ListDocumentLinksResponse { links: resolved }
    );

    list!(
        list_linking_documents,
        ListLinkingDocumentsRequest,
        ListLinkingDocuments { document_id },
        ListLinkingDocumentsResponse { links: incoming }
    );

    list!(
        list_missing_links,
        ListMissingLinksRequest,
        ListMissingLinks {},
        ListMissingLinksResponse { links: missing }
    );

    change!(
        resolve_document_links,
        ResolveDocumentLinksRequest,
        ResolveDocumentLinksResponse,
        |request| ResolveDocumentLinks { document_id: fields::id("document_id", &request.document_id)? },
        |report: LinkReport| v1::ResolveDocumentLinksResponse {
            matched: number(report.matched),
            ambiguous: number(report.ambiguous),
            missing: number(report.missing),
            truncated: report.is_cut,
        }
    );
}

/// Converts a count to a field of a message. A count above the maximum of the field becomes the maximum.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn resolved(found: &ResolvedLink) -> v1::ResolvedLink {
    let status = match found.status {
        LinkStatus::Matched => v1::LinkStatus::Matched,
        LinkStatus::Ambiguous => v1::LinkStatus::Ambiguous,
        LinkStatus::Missing => v1::LinkStatus::Missing,
        LinkStatus::NotADocument => v1::LinkStatus::Unspecified,
    };
    let matched_by = match found.matched_by {
        Some("id") => v1::LinkProperty::Id,
        Some("url") => v1::LinkProperty::Url,
        Some("name") => v1::LinkProperty::Name,
        Some("title") => v1::LinkProperty::Title,
        _ => v1::LinkProperty::Unspecified,
    };
    let action = if found.is_followed { v1::LinkAction::Followed } else { v1::LinkAction::Left };
    v1::ResolvedLink {
        page: found.link.page,
        anchor_text: found.link.anchor.clone(),
        target: found.link.target.clone(),
        status: status.into(),
        matched_by: matched_by.into(),
        documents: found.documents.iter().map(document).collect(),
        action: action.into(),
        create_time: Some(time::to_proto(found.link.since)),
    }
}

fn document(document: &NamedDocument) -> v1::LinkedDocument {
    v1::LinkedDocument { document_id: document.id.to_string(), document_name: document.name.clone() }
}

fn incoming(link: &IncomingLink) -> v1::IncomingLink {
    v1::IncomingLink {
        document: Some(document(&link.document)),
        target: link.target.clone(),
        create_time: Some(time::to_proto(link.since)),
    }
}

fn missing(link: &MissingLink) -> v1::MissingLink {
    v1::MissingLink {
        target: link.target.clone(),
        document_ids: link.documents.iter().map(ToString::to_string).collect(),
        has_more_documents: link.has_more,
        create_time: Some(time::to_proto(link.since)),
    }
}
