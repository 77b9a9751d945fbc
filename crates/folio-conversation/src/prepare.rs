//! Checking what callers ask before anything is looked up, and the ids that follow from a request.

use std::sync::Arc;

use folio_history::import;
use folio_history::journal::{Decision, WorkingState};
use folio_history::thread::{RequestRow, begun_by};
use folio_llm::Catalogue;
use folio_storage::NewThread;
use folio_trace::TraceContext;
use folio_types::fields;
use folio_types::message::Message;
use folio_types::profile::{DOCUMENT_PROFILE, Profile};
use folio_types::{
    Code, Digest, DocumentId, Error, OrgId, Principal, Reason, RequestId, Result, Role, ThreadId, UserId, limits,
};
use serde_json::json;

use crate::actor::ChatAsk;
use crate::command::{ApproveCommand, ChatCommand, ForkCommand, NewThreadCommand};
use crate::shared::Shared;

/// Characters of the reason of a rejection.
const REASON_CHARS: usize = 2_000;

/// Whoever chats, decides or changes must be more than a viewer.
pub(crate) fn may_change(principal: &Principal) -> Result<()> {
    match principal.role {
        Role::Member | Role::Admin => Ok(()),
        Role::Viewer => {
            Err(Error::new(Code::PermissionDenied, Reason::RoleNotAllowed, "a viewer may read, not change"))
        }
    }
}

/// Checks a chat as far as it can be checked without its thread.
pub(crate) fn check_chat(command: &ChatCommand) -> Result<()> {
    if command.text.trim().is_empty() {
        return Err(Error::invalid_field("text", "must not be empty"));
    }
    if command.text.len() > limits::USER_TEXT_BYTES {
        let message = format!("has {} bytes, at most {}", command.text.len(), limits::USER_TEXT_BYTES);
        return Err(Error::invalid_field("text", message));
    }
    if command.mentions.len() > limits::MENTIONS_MAX {
        return Err(Error::invalid_field("mentions", format!("at most {}", limits::MENTIONS_MAX)));
    }
    if command.auto_approved_tools.len() > 100 {
        return Err(Error::invalid_field("auto_approved_tools", "at most 100"));
    }
    if command.thread.is_some() && command.ephemeral {
        return Err(Error::invalid_field("ephemeral", "only a new thread can be ephemeral"));
    }
    if !command.history.is_empty() && !command.ephemeral {
        return Err(Error::invalid_field("history", "only an ephemeral thread may bring one"));
    }
    check_history(&command.history)
}

fn check_history(history: &[Message]) -> Result<()> {
    if history.len() > limits::HISTORY_MESSAGES {
        return Err(Error::invalid_field("history", format!("at most {} messages", limits::HISTORY_MESSAGES)));
    }
    for (at, message) in history.iter().enumerate() {
        let (bytes, ids): (usize, Vec<&str>) = match message {
            Message::User { text } => (text.len(), vec![]),
            Message::Tool { call, content } => (content.len(), vec![call]),
            Message::Assistant { text, calls, .. } => (text.len(), calls.iter().map(|call| call.id.as_str()).collect()),
        };
        if bytes > limits::USER_TEXT_BYTES {
            let message = format!("has {bytes} bytes, at most {}", limits::USER_TEXT_BYTES);
            return Err(Error::invalid_field(format!("history[{at}]"), message));
        }
        let odd = |id: &&str| {
            id.is_empty() || id.len() > 128 || !id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
        };
        if ids.iter().any(odd) {
            return Err(Error::invalid_field(format!("history[{at}]"), "a call id is 1 to 128 of A-Z a-z 0-9 _ -"));
        }
    }
    Ok(())
}

/// Checks an approval as far as it can be checked without its turn.
pub(crate) fn check_approve(command: &ApproveCommand) -> Result<()> {
    let mut rounds: Vec<u32> = command.decisions.iter().map(|decision| decision.call.round).collect();
    rounds.extend(command.round);
    rounds.dedup();
    if rounds.is_empty() {
        return Err(Error::invalid_field("round", "needed where there are no decisions"));
    }
    if rounds.len() > 1 {
        return Err(Error::invalid_field("decisions", "are of several rounds"));
    }
    if command.decisions.len() > 4 * limits::CALLS_PER_ROUND_MAX {
        return Err(Error::invalid_field("decisions", "are more than a round has calls"));
    }
    for (at, decision) in command.decisions.iter().enumerate() {
        let field = || format!("decisions[{at}]");
        if decision.call.turn != command.turn {
            let field = format!("{}.call_id", field());
            return Err(Error::invalid_field(field, "the call is of another turn").because(Reason::UnknownCall));
        }
        if command.decisions.iter().skip(at + 1).any(|other| other.call == decision.call) {
            return Err(Error::invalid_field(field(), "there is another decision on this call"));
        }
        if let Decision::Reject { reason: Some(reason) } = &decision.decision
            && reason.chars().count() > REASON_CHARS
        {
            return Err(Error::invalid_field(field(), format!("the reason has more than {REASON_CHARS} characters")));
        }
    }
    Ok(())
}

/// Checks a title.
pub(crate) fn check_title(title: &str, may_be_empty: bool) -> Result<()> {
    if title.is_empty() && may_be_empty { Ok(()) } else { fields::check_name("title", title) }
}

/// The chat as its organization wants it, with its request id and the digest of its content: what a repetition must say again.
/// What is done where the thread is busy is no content: a client may ask again otherwise.
pub(crate) async fn ask(shared: &Shared, org: &OrgId, command: ChatCommand) -> Result<ChatAsk> {
    let organization = shared.stores().access.organization(org).await?;
    let (policy, approval_ttl_seconds) =
        organization.map(|found| (found.policy, found.approval_ttl_seconds)).unwrap_or_default();
    let request = match &command.request_id {
        Some(request) => request.clone(),
        None => RequestId::generate(&**shared.environment()),
    };
    let digest = chat_digest(&command);
    let (models, trace) = (shared.models().catalogue(org).await?, TraceContext::current());
    Ok(ChatAsk { command, request, digest, new: None, trace, policy: Arc::new(policy), models, approval_ttl_seconds })
}

/// The chat as its organization wants it now, after it waited.
pub(crate) async fn ask_again(shared: &Shared, org: &OrgId, waited: ChatAsk) -> Result<ChatAsk> {
    let ChatAsk { command, request, new, trace, .. } = waited;
    Ok(ChatAsk { request, new, trace, ..ask(shared, org, command).await? })
}

fn chat_digest(command: &ChatCommand) -> Digest {
    Digest::of_json(&json!({
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
    }))
}

/// The thread that a chat without one begins.
pub(crate) fn thread_of_chat(shared: &Shared, principal: &Principal, ask: &ChatAsk) -> Result<NewThread> {
    let command = &ask.command;
    let new = NewThreadCommand {
        profile: command.profile.clone(),
        documents: command.documents.clone(),
        title: String::new(),
        model: command.model.clone(),
        request_id: Some(ask.request.clone()),
    };
    let mut thread = new_thread(shared, principal, &ask.models, new)?;
    // The row of the request is that of its turn, once it is accepted.
    thread.id = begun_by(principal, &thread.profile, &thread.documents, &ask.request);
    thread.request = None;
    if command.truncate_to_message_count.is_some_and(|_| command.history.is_empty()) {
        return Err(Error::invalid_field("truncate_to_message_count", "the thread is new"));
    }
    shared.tools().profile(&thread.profile)?.check_names("auto_approved_tools", &command.auto_approved_tools)?;
    if command.ephemeral {
        thread.ephemeral = true;
        let life = jiff::SignedDuration::try_from(limits::DAY).unwrap_or(jiff::SignedDuration::MAX);
        thread.expires_at = Some(thread.at.checked_add(life).unwrap_or(folio_types::Timestamp::MAX));
        thread.imported = import(command.history.clone(), &WorkingState::default())?;
    }
    Ok(thread)
}

/// A thread that is to be made. The same request id gives the same thread, and must ask for the same.
pub(crate) fn new_thread(
    shared: &Shared,
    principal: &Principal,
    models: &Catalogue,
    command: NewThreadCommand,
) -> Result<NewThread> {
    let profile = shared.tools().profile(command.profile.as_deref().unwrap_or(DOCUMENT_PROFILE))?;
    let profile = &profile.profile;
    check_documents(profile, &command)?;
    check_title(&command.title, true)?;
    models.for_chat(command.model.as_deref())?;
    let environment = shared.environment();
    let digest = Digest::of_json(&json!({
        "ask": "create",
        "profile": profile.name,
        "documents": sorted(&command.documents),
        "title": command.title,
        "model": command.model,
    }));
    let (id, request) = match command.request_id {
        Some(request) => {
            let (id, row) = made_by(&principal.org, &principal.user, request, digest);
            (id, Some(row))
        }
        None => (ThreadId::generate(&**environment), None),
    };
    Ok(NewThread {
        id,
        org: principal.org.clone(),
        user: principal.user.clone(),
        profile: profile.name.to_owned(),
        documents: command.documents,
        title: command.title,
        model: command.model,
        ephemeral: false,
        expires_at: None,
        imported: Vec::new(),
        request,
        at: environment.now(),
    })
}

/// The id of the thread that a request makes, and the row that says what it asked for.
pub(crate) fn made_by(org: &OrgId, user: &UserId, request: RequestId, digest: Digest) -> (ThreadId, RequestRow) {
    let id = ThreadId::derive(&["made", org.as_str(), user.as_str(), request.as_str()]);
    (id, RequestRow { request, turn: 0, digest })
}

/// Digest of what a fork asks for.
pub(crate) fn fork_digest(command: &ForkCommand) -> Digest {
    Digest::of_json(&json!({
        "ask": "fork",
        "thread": command.thread,
        "message_count": command.message_count,
        "title": command.title,
    }))
}

/// Documents as the set that they are: the same ones in another order ask for the same.
pub(crate) fn sorted(documents: &[DocumentId]) -> Vec<&DocumentId> {
    let mut sorted: Vec<_> = documents.iter().collect();
    sorted.sort();
    sorted
}

fn check_documents(profile: &Profile, command: &NewThreadCommand) -> Result<()> {
    let (count, allowed) = (command.documents.len(), profile.documents);
    let most = allowed.max.min(limits::DOCUMENTS_PER_THREAD);
    if count < allowed.min || count > most {
        let message = format!("profile {} takes {} to {most} documents, {count} were given", profile.name, allowed.min);
        return Err(Error::invalid_field("document_ids", message));
    }
    if sorted(&command.documents).windows(2).any(|pair| matches!(pair, [a, b] if a == b)) {
        return Err(Error::invalid_field("document_ids", "a document is named twice"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_a_set_in_the_digest_of_a_chat_and_in_the_id_of_its_thread() {
        let principal = Principal { org: OrgId::derive(&["o"]), user: UserId::derive(&["u"]), role: Role::Member };
        let request: RequestId = "r".parse().unwrap();
        let (a, b) = (DocumentId::derive(&["a"]), DocumentId::derive(&["b"]));
        let of = |documents: &[&DocumentId]| {
            let documents: Vec<DocumentId> = documents.iter().map(|document| (*document).clone()).collect();
            let id = begun_by(&principal, "document", &documents, &request);
            (id, chat_digest(&ChatCommand { documents, ..ChatCommand::new("x") }))
        };
        assert_eq!(of(&[&a, &b]), of(&[&b, &a]));
        assert_ne!(of(&[&a, &b]), of(&[&a]));
    }
}
