//! Prepares requests for the actor of their thread, and derives thread ids from requests.

use std::sync::Arc;

use folio_history::command::{ChatCommand, CreateThreadCommand, ForkThreadCommand};
use folio_history::journal::{WorkingExtraction, WorkingState};
use folio_history::thread::{NewThread, RequestRow, thread_of_chat};
use folio_history::{import, starting_from};
use folio_llm::Catalogue;
use folio_resources::{Document, Extraction, Organization, Proposal, ProposalFilter, ProposalState};
use folio_trace::TraceContext;
use folio_types::profile::{DOCUMENT_PROFILE, Profile, Subject, SubjectKind};
use folio_types::{
    Code, Digest, DocumentId, Error, OrgId, Principal, Reason, RequestId, Result, Role, ThreadId, limits,
};
use serde_json::json;

use crate::actor::PreparedChat;
use crate::handle::Dependencies;
use crate::shared::Shared;

/// Fails unless the caller has at least the role `member`, which chats, decisions and changes require.
pub(crate) fn require_member(principal: &Principal) -> Result<()> {
    match principal.role {
        Role::Member | Role::Admin => Ok(()),
        Role::Viewer => Err(Error::new(
            Code::PermissionDenied,
            Reason::RoleNotAllowed,
            "the role viewer does not allow changes: role member is required",
        )),
    }
}

/// Adds the organization's settings, the request id (generated if missing) and the digest of the content to a chat. A
/// repeated request must have the same digest, but may have another `if_busy` and `if_pending`.
pub(crate) async fn prepare_chat(shared: &Shared, org: &OrgId, command: ChatCommand) -> Result<PreparedChat> {
    let Dependencies { stores, models, turn_slots, .. } = &shared.dependencies;
    let (platform, organizations) = (OrgId::platform(), stores.of::<Organization>());
    let (organization, models) = tokio::try_join!(organizations.get(&platform, org), models.catalogue(org))?;
    turn_slots.cache_quotas(org, organization.as_ref()).await;
    let (policy, approval_ttl_seconds) =
        organization.map(|found| (found.policy, found.approval_ttl_seconds)).unwrap_or_default();
    let request = match &command.request_id {
        Some(request) => request.clone(),
        None => RequestId::generate(&*shared.dependencies.environment),
    };
    let (digest, new, trace) = (chat_digest(&command), None, TraceContext::current());
    let policy = Arc::new(policy);
    Ok(PreparedChat { command, request, digest, new, trace, policy, models, approval_ttl_seconds })
}

/// Replaces the settings in a queued chat by the organization's current settings.
pub(crate) async fn refresh_chat(shared: &Shared, org: &OrgId, queued: PreparedChat) -> Result<PreparedChat> {
    let PreparedChat { command, request, new, trace, .. } = queued;
    Ok(PreparedChat { request, new, trace, ..prepare_chat(shared, org, command).await? })
}

fn chat_digest(command: &ChatCommand) -> Digest {
    let mut content = json!({
        "profile": command.profile,
        "documents": sorted(&command.documents),
        "ephemeral": command.ephemeral,
        "history": command.history,
        "text": command.text,
        "mentions": command.mentions,
        "model": command.model,
        "auto_approve": command.auto_approve,
        "auto_approved_tools": command.auto_approved_tools,
        "truncate_to_message_count": command.truncate_to_message_count,
    });
    // A chat of an older version has no such member.
    if let (Some(credits), Some(content)) = (command.credit_budget, content.as_object_mut()) {
        content.insert("credit_budget".to_owned(), credits.into());
    }
    // The number of the thread is not content: a repeated request searches the threads for its turn.
    if let (Some(call), Some(content)) = (&command.direct_call, content.as_object_mut()) {
        content.insert("direct_call".to_owned(), json!({ "tool": call.tool, "arguments": call.arguments }));
    }
    if let (false, Some(content)) = (command.images.is_empty(), content.as_object_mut()) {
        content.insert("images".to_owned(), json!(command.images));
    }
    Digest::of_json(&content)
}

/// Returns the thread that a chat without a thread creates.
pub(crate) fn new_thread_of_chat(shared: &Shared, principal: &Principal, prepared: &PreparedChat) -> Result<NewThread> {
    let command = &prepared.command;
    let new = CreateThreadCommand {
        profile: command.profile.clone(),
        documents: command.documents.clone(),
        title: String::new(),
        model: command.model.clone(),
        request_id: Some(prepared.request.clone()),
    };
    let mut thread = new_thread(shared, principal, &prepared.models, new)?;
    // The request row is written when the turn is accepted.
    thread.id = thread_of_chat(principal, &thread.profile, command, &prepared.request);
    thread.request = None;
    if command.truncate_to_message_count.is_some_and(|_| command.history.is_empty()) {
        return Err(Error::invalid_field("truncate_to_message_count", "not allowed for a new thread"));
    }
    let profile = shared.dependencies.tools.profile(&thread.profile)?;
    profile.check_names("auto_approved_tools", &command.auto_approved_tools)?;
    if command.ephemeral {
        thread.ephemeral = true;
        let lifetime = jiff::SignedDuration::try_from(limits::DAY).unwrap_or(jiff::SignedDuration::MAX);
        thread.expires_at = Some(thread.at.checked_add(lifetime).unwrap_or(folio_types::Timestamp::MAX));
        thread.imported = import(command.history.clone(), &WorkingState::default())?;
    }
    Ok(thread)
}

/// Returns the thread that a request creates. A repeated request yields the same id and must have the same content.
pub(crate) fn new_thread(
    shared: &Shared,
    principal: &Principal,
    models: &Catalogue,
    command: CreateThreadCommand,
) -> Result<NewThread> {
    let profile = shared.dependencies.tools.profile(command.profile.as_deref().unwrap_or(DOCUMENT_PROFILE))?;
    let profile = &profile.profile;
    check_documents(profile, &command)?;
    subject_of(profile, None, &command.documents)?;
    models.for_chat(command.model.as_deref())?;
    let environment = &shared.dependencies.environment;
    let digest = Digest::of_json(&json!({
        "ask": "create",
        "profile": profile.name,
        "documents": sorted(&command.documents),
        "title": command.title,
        "model": command.model,
    }));
    let (id, request) = match command.request_id {
        Some(request) => {
            let (id, row) = requested_thread(principal, request, digest);
            (id, Some(row))
        }
        None => (ThreadId::generate(&**environment), None),
    };
    let new = NewThread::new(id, principal, profile.name, command.documents, environment.now());
    Ok(NewThread { title: command.title, model: command.model, request, ..new })
}

/// Returns the id of the thread that a request creates, and the request row.
pub(crate) fn requested_thread(principal: &Principal, request: RequestId, digest: Digest) -> (ThreadId, RequestRow) {
    let id = ThreadId::derive(&["made", principal.org.as_str(), principal.user.as_str(), request.as_str()]);
    (id, RequestRow { request, turn: 0, digest })
}

pub(crate) fn fork_digest(command: &ForkThreadCommand) -> Digest {
    Digest::of_json(&json!({
        "ask": "fork",
        "thread": command.thread,
        "message_count": command.message_count,
        "title": command.title,
    }))
}

/// Lets a new thread about one document start from the proposal of the document that is open or accepted, if there is one.
pub(crate) async fn start_from_proposal(shared: &Shared, new: &mut NewThread) -> Result<()> {
    let ([document], true) = (new.documents.as_slice(), new.imported.is_empty()) else { return Ok(()) };
    if shared.dependencies.tools.profile(&new.profile)?.profile.subject != SubjectKind::Document {
        return Ok(());
    }
    let stores = &shared.dependencies.stores;
    let found = stores.of::<Document>().get(&new.org, document).await?;
    if !found.is_some_and(|document| document.has_auto_create) {
        return Ok(());
    }
    let filter = ProposalFilter {
        document: Some(document.clone()),
        any_state: vec![ProposalState::Proposed, ProposalState::Accepted],
        ..ProposalFilter::default()
    };
    let proposal = stores.of::<Proposal>().first(&new.org, &filter).await?;
    let Some(proposed) = proposal.and_then(|proposal| proposal.resources) else { return Ok(()) };
    let extraction = stores.of::<Extraction>().get(&new.org, &proposed.extraction).await?;
    let working = WorkingState {
        schema_revid: proposed.schema,
        prompt_revid: Some(proposed.prompt),
        extraction: extraction.map(|extraction| WorkingExtraction {
            data: extraction.current().clone(),
            id: extraction.id,
            document: extraction.document,
            prompt: extraction.prompt,
        }),
        profile_state: None,
    };
    new.imported = starting_from(&working);
    Ok(())
}

/// Returns the documents in a canonical order, because digests and ids do not depend on their order.
pub(crate) fn sorted(documents: &[DocumentId]) -> Vec<&DocumentId> {
    let mut sorted: Vec<_> = documents.iter().collect();
    sorted.sort();
    sorted
}

/// Returns the subject of a thread. `recorded`: the subject with which the thread was created. A thread of a profile whose
/// subject is not a document is created with its subject; no chat can name one.
pub(crate) fn subject_of(profile: &Profile, recorded: Option<&Subject>, documents: &[DocumentId]) -> Result<Subject> {
    let is_open = profile.subject == SubjectKind::Organization;
    let default = || if is_open { Some(Subject::Organization) } else { Subject::first_document(documents) };
    let subject = recorded.cloned().or_else(default);
    subject.filter(|subject| subject.kind() == profile.subject).ok_or_else(|| {
        let (name, kind) = (profile.name, profile.subject.as_str());
        let message = format!("profile {name} requires a thread about its {kind}, which is created with the {kind}");
        Error::invalid_field("profile", message)
    })
}

/// Fails unless the documents of a new thread have a media type that its profile permits. Missing documents are ignored,
/// because the creation of the thread refuses them.
pub(crate) async fn check_media_types(shared: &Shared, new: &NewThread) -> Result<()> {
    let permitted = shared.dependencies.tools.profile(&new.profile)?.profile.documents.media_types;
    if permitted.is_empty() {
        return Ok(());
    }
    let documents = shared.dependencies.stores.of::<Document>().get_many(&new.org, &new.documents).await?;
    match documents.iter().find(|document| !permitted.contains(&document.media_type.as_str())) {
        None => Ok(()),
        Some(document) => {
            let (profile, found, permitted) = (&new.profile, &document.media_type, permitted.join(", "));
            let message =
                format!("profile {profile} requires documents of type {permitted}; {} is {found}", document.id);
            Err(Error::invalid_field("document_ids", message).with_reason(Reason::UnsupportedType))
        }
    }
}

fn check_documents(profile: &Profile, command: &CreateThreadCommand) -> Result<()> {
    let (count, allowed) = (command.documents.len(), profile.documents);
    let max = allowed.max.min(limits::DOCUMENTS_PER_THREAD);
    if count < allowed.min || count > max {
        let message = format!("profile {} requires {} to {max} documents, got {count}", profile.name, allowed.min);
        return Err(Error::invalid_field("document_ids", message));
    }
    if sorted(&command.documents).windows(2).any(|pair| matches!(pair, [a, b] if a == b)) {
        return Err(Error::invalid_field("document_ids", "contains a duplicate document"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use folio_types::UserId;

    use super::*;

    #[test]
    fn documents_are_a_set_in_the_digest_of_a_chat_and_in_the_id_of_its_thread() {
        let principal = Principal::new(OrgId::derive(&["o"]), UserId::derive(&["u"]), Role::Member);
        let request: RequestId = "r".parse().unwrap();
        let (a, b) = (DocumentId::derive(&["a"]), DocumentId::derive(&["b"]));
        let of = |documents: &[&DocumentId]| {
            let documents: Vec<DocumentId> = documents.iter().map(|document| (*document).clone()).collect();
            let chat = ChatCommand { documents, ..ChatCommand::new("x") };
            (thread_of_chat(&principal, "document", &chat, &request), chat_digest(&chat))
        };
        assert_eq!(of(&[&a, &b]), of(&[&b, &a]));
        assert_ne!(of(&[&a, &b]), of(&[&a]));
    }
}
