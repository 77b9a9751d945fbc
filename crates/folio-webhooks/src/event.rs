//! Events, and the records from which they derive. Pure.

mod row;

use folio_history::job::{EXTRACTION_KIND, JobState, JobWrite};
use folio_history::journal::{End, Entry};
use folio_history::thread::Append;
use folio_resources::{
    DictionaryQuestion, DictionaryQuestionId, Extraction, ExtractionState, Proposal, ProposalState, QuestionState,
    StackRowId, TextState, WebhookEndpointId,
};
use folio_storage::IngestUpdate;
use folio_types::op::OpKey;
use folio_types::{
    DocumentId, Error, ExtractionId, JobId, OrgId, ProposalId, Reason, Result, ThreadId, Timestamp, TurnId, named_enum,
    plain_id,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) use row::of_stack_row;

/// Maximum size of the body of an event, in bytes.
// proto: WebhookDelivery.body_json "at most {} KiB"
pub const EVENT_BYTES: usize = 16 * 1024;

plain_id!(
    /// An event. It derives from the record of the event, so that a repeated write has the same events.
    EventId, "evt", "event"
);

named_enum! {
    /// The types of events. Endpoints may also name types that this version does not know.
    pub enum EventType {
        /// The text of a document can be read.
        DocumentReady = "document.ready",
        /// The text of a document could not be read, or the document has none.
        DocumentFailed = "document.failed",
        /// A prompt run stored an extraction.
        ExtractionCompleted = "extraction.completed",
        /// A proposal waits for a decision.
        ProposalReady = "proposal.ready",
        /// A turn waits for decisions, an extraction or a row for a reviewer, a proposal for a decision, or a question for an answer.
        InboxWaiting = "inbox.waiting",
        TurnFailed = "turn.failed",
        /// A job that runs a prompt on documents has ended.
        BatchFinished = "batch.finished",
        /// A user tests an endpoint. Endpoints do not name this type.
        Test = "webhook.test",
    }
}

/// An event of an organization. It contains ids, states and versions, and no content of documents or conversations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub id: EventId,
    /// Name of the type. It may be a name of a newer version.
    #[serde(rename = "type")]
    pub name: String,
    /// Time of the write of the record.
    pub at: Timestamp,
    pub data: Value,
    /// The record that must be stored before the event is sent. None: the event needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
}

/// A record from which an event derives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// An append to a thread. `batch`: its id as a hexadecimal number.
    Append { thread: ThreadId, batch: String },
    /// The text of a document, reported at this time. A later report replaces the text: a step of ingestion whose write was
    /// lost is repeated at a later time, and has an event of its own.
    Text { document: DocumentId, at: Timestamp },
    /// The write of an extraction with this op.
    Extraction { extraction: ExtractionId, op: OpKey },
    /// The write of a proposal with this op.
    Proposal { proposal: ProposalId, op: OpKey },
    /// The write of a question about a term with this op.
    DictionaryQuestion { question: DictionaryQuestionId, op: OpKey },
    /// The write of a row of a stack with this op.
    StackRow { row: StackRowId, op: OpKey },
    /// The end of a job: a version of its header, and the name of the state, because concurrent writes that end a job have
    /// the same version.
    Job { job: JobId, version: u64, state: String },
}

impl Source {
    pub(crate) fn append(thread: &ThreadId, batch: u128) -> Self {
        Self::Append { thread: thread.clone(), batch: format!("{batch:032x}") }
    }
}

impl Event {
    /// Creates an event. `key`: the parts that distinguish the event from others of its type in the organization.
    fn new(r#type: EventType, org: &OrgId, key: &[&str], at: Timestamp, data: Value, source: Source) -> Self {
        let parts: Vec<&str> = [r#type.as_str(), org.as_str()].into_iter().chain(key.iter().copied()).collect();
        Self { id: EventId::derive(&parts), name: r#type.as_str().to_owned(), at, data, source: Some(source) }
    }

    /// Creates the event of a test. `request`: identifies the request.
    pub fn test(org: &OrgId, endpoint: &WebhookEndpointId, request: &[&str], at: Timestamp) -> Self {
        let name = EventType::Test.as_str();
        let parts: Vec<&str> = [name, endpoint.as_str()].into_iter().chain(request.iter().copied()).collect();
        let data = json!({ "organization_id": org, "webhook_endpoint_id": endpoint });
        Self { id: EventId::derive(&parts), name: name.to_owned(), at, data, source: None }
    }

    /// Returns the body of the request.
    ///
    /// # Errors
    /// `TOO_LARGE` above [`EVENT_BYTES`].
    pub fn body(&self) -> Result<String> {
        let body = json!({ "type": self.name, "timestamp": self.at, "data": self.data }).to_string();
        if body.len() > EVENT_BYTES {
            let message = format!("the event has {} bytes, at most {EVENT_BYTES} are allowed", body.len());
            return Err(Error::invalid(Reason::TooLarge, message));
        }
        Ok(body)
    }
}

/// Returns the events of an append to a thread.
pub(crate) fn of_append(org: &OrgId, thread: &ThreadId, append: &Append) -> Vec<Event> {
    append.entries.iter().filter_map(|entry| of_entry(org, thread, append, entry)).collect()
}

fn of_entry(org: &OrgId, thread: &ThreadId, append: &Append, entry: &Entry) -> Option<Event> {
    let source = Source::append(thread, append.batch);
    // A turn may fail or pause several times. Each time has another number of the closing event.
    let new = |r#type: EventType, turn: u32, number: u64, state: Value| {
        let turn = TurnId::new(thread.clone(), turn).to_string();
        let mut data = json!({ "organization_id": org, "thread_id": thread, "turn_id": turn });
        if let (Some(data), Value::Object(state)) = (data.as_object_mut(), state) {
            data.extend(state);
        }
        Event::new(r#type, org, &[&turn, &number.to_string()], append.at, data, source)
    };
    match entry {
        Entry::Paused(paused) => {
            let state = json!({ "kind": "approval", "state": "awaiting_approval", "round": paused.round });
            Some(new(EventType::InboxWaiting, paused.turn, paused.event, state))
        }
        Entry::Ended(ended) => match &ended.end {
            // A turn that its paused job interrupts has not failed for its users.
            End::Failed { error, .. } if error.reason == Reason::JobPaused => None,
            End::Failed { error, retriable } => {
                let state = json!({ "state": "failed", "reason": error.reason.as_str(), "retriable": retriable });
                Some(new(EventType::TurnFailed, ended.turn, ended.event, state))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns the event of a step of ingestion. None: the state of the text is not settled.
pub(crate) fn of_text(org: &OrgId, document: &DocumentId, update: &IngestUpdate) -> Option<Event> {
    let (r#type, state) = match &update.state {
        TextState::Ready => (EventType::DocumentReady, "ready"),
        TextState::NoText(_) => (EventType::DocumentFailed, "no_text"),
        TextState::Failed(_) => (EventType::DocumentFailed, "failed"),
        TextState::Uploaded | TextState::Processing => return None,
    };
    let at = update.at;
    let data = json!({ "organization_id": org, "document_id": document, "state": state, "text_generation": at });
    let source = Source::Text { document: document.clone(), at };
    Some(Event::new(r#type, org, &[document.as_str(), &at.to_string()], at, data, source))
}

/// Returns the events of a change of an extraction. `before` is None if the change creates the extraction. A write that is
/// repeated for another version has the same ids.
pub(crate) fn of_extraction(op: &OpKey, before: Option<&Extraction>, after: &Extraction) -> Vec<Event> {
    let waited = before.is_some_and(Extraction::is_waiting_for_review);
    let starts_waiting = !waited && after.is_waiting_for_review();
    let new = |r#type: EventType, kind: Option<&str>, state: &str| {
        let mut data = json!({
            "organization_id": after.org, "extraction_id": after.id, "document_id": after.document,
            "prompt_revid": after.prompt, "schema_revid": after.schema, "version": after.version, "state": state,
        });
        if let (Some(data), Some(kind)) = (data.as_object_mut(), kind) {
            data.insert("kind".to_owned(), kind.into());
        }
        let source = Source::Extraction { extraction: after.id.clone(), op: op.clone() };
        let key = [after.id.as_str(), &op.to_string()];
        Event::new(r#type, &after.org, &key, after.updated_at, data, source)
    };
    let is_completed = |extraction: &Extraction| extraction.state() == ExtractionState::Completed;
    let is_new = is_completed(after) && !before.is_some_and(is_completed);
    let completed = is_new.then(|| new(EventType::ExtractionCompleted, None, "completed"));
    let waiting = starts_waiting.then(|| new(EventType::InboxWaiting, Some("field_review"), "awaiting_review"));
    completed.into_iter().chain(waiting).collect()
}

/// Returns the events of a change of a proposal. None waits for a decision before its creation.
pub(crate) fn of_proposal(op: &OpKey, is_new: bool, after: &Proposal) -> Vec<Event> {
    let Some(proposed) = after.resources.as_ref().filter(|_| is_new && after.state == ProposalState::Proposed) else {
        return Vec::new();
    };
    let new = |r#type: EventType, kind: Option<&str>| {
        let mut data = json!({
            "organization_id": after.org, "proposal_id": after.id, "document_id": after.document,
            "extraction_id": proposed.extraction, "prompt_revid": proposed.prompt, "schema_revid": proposed.schema,
            "version": after.version, "state": after.state.as_str(),
        });
        if let (Some(data), Some(kind)) = (data.as_object_mut(), kind) {
            data.insert("kind".to_owned(), kind.into());
        }
        let source = Source::Proposal { proposal: after.id.clone(), op: op.clone() };
        Event::new(r#type, &after.org, &[after.id.as_str()], after.updated_at, data, source)
    };
    vec![new(EventType::ProposalReady, None), new(EventType::InboxWaiting, Some("proposal"))]
}

/// Returns the event of a change of a question about a term. None waits for an answer before its creation.
pub(crate) fn of_question(op: &OpKey, is_new: bool, after: &DictionaryQuestion) -> Option<Event> {
    if !is_new || after.state != QuestionState::Open {
        return None;
    }
    let data = json!({
        "organization_id": after.org, "dictionary_question_id": after.id, "document_id": after.document,
        "version": after.version, "state": after.state.as_str(), "kind": "dictionary_question",
    });
    let source = Source::DictionaryQuestion { question: after.id.clone(), op: op.clone() };
    Some(Event::new(EventType::InboxWaiting, &after.org, &[after.id.as_str()], after.updated_at, data, source))
}

/// Returns the event of a write of a job. None: the write does not end a job that runs a prompt.
pub(crate) fn of_job(write: &JobWrite) -> Option<Event> {
    let after = &write.after;
    let state = after.outcome().filter(|_| !write.before.is_ended() && after.kind == EXTRACTION_KIND)?;
    let (org, progress) = (after.org(), after.progress());
    let mut data = json!({
        "organization_id": org, "job_id": after.id, "state": state, "version": after.version, "items": progress.items,
        "done_items": progress.done, "failed_items": progress.failed,
    });
    if let (Some(data), JobState::Failed(error)) = (data.as_object_mut(), &after.state) {
        data.insert("reason".to_owned(), error.reason.as_str().into());
    }
    let source = Source::Job { job: after.id.clone(), version: after.version, state: state.to_owned() };
    let key = [after.id.as_str(), &after.version.to_string(), state];
    Some(Event::new(EventType::BatchFinished, org, &key, after.updated_at, data, source))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use folio_history::job::{DELIVERY_KIND, JobCommand, NewJob};
    use folio_history::journal::{Ended, Paused, WorkingState};
    use folio_history::thread::Fence;
    use folio_resources::{
        AgentStep, DictionaryQuestionChange, ExtractionChange, ExtractionReport, NewExtraction, NewProposal,
        NewQuestion, ProposalChange, ProposalOutcome, ProposedResources, Resource as _,
    };
    use folio_types::op::{Expected, Write};
    use folio_types::{Principal, PromptId, PromptRevId, Role, UserId};

    use super::*;

    fn org() -> OrgId {
        OrgId::derive(&["o"])
    }

    fn at() -> Timestamp {
        Timestamp::constant(1_790_000_000, 0)
    }

    fn appended(entries: Vec<Entry>) -> Vec<Event> {
        let fence = Fence { epoch: 1, version: 1 };
        let append = Append { entries, ..Append::new(7, fence, at()) };
        of_append(&org(), &ThreadId::derive(&["t"]), &append)
    }

    fn ended(end: End, event: u64) -> Entry {
        Entry::Ended(Box::new(Ended::new(2, end, event, at())))
    }

    fn failed(event: u64) -> Entry {
        let error = Error::unavailable(Reason::ModelUnavailable, "secret text of the provider");
        ended(End::Failed { error, retriable: true }, event)
    }

    #[test]
    fn a_failed_and_a_paused_turn_have_an_event_each_time() {
        let paused =
            Paused { turn: 2, round: 3, expires_at: at(), working: WorkingState::default(), event: 9, at: at() };
        let events = appended(vec![Entry::Paused(paused), failed(11), ended(End::Cancelled, 12)]);
        let names: Vec<_> = events.iter().map(|event| event.name.as_str()).collect();
        assert_eq!(names, ["inbox.waiting", "turn.failed"]);
        let body = events[1].body().unwrap();
        assert!(body.contains(r#""state":"failed""#) && body.contains("MODEL_UNAVAILABLE"), "{body}");
        assert!(!body.contains("secret"), "a message may quote content: {body}");
        assert_eq!(events[1].source, Some(Source::append(&ThreadId::derive(&["t"]), 7)));
        assert_eq!(appended(vec![failed(11)])[0].id, events[1].id, "the same record");
        assert_ne!(appended(vec![failed(13)])[0].id, events[1].id, "another failure of the turn");
        let error = Error::precondition(Reason::JobPaused, "the job is paused");
        assert_eq!(appended(vec![ended(End::Failed { error, retriable: true }, 14)]), []);
    }

    #[test]
    fn a_settled_text_has_an_event_without_its_reason() {
        let document = DocumentId::derive(&["d"]);
        let event = |state| {
            let update = IngestUpdate { state, pages: Vec::new(), lacks_program: false, at: at() };
            of_text(&org(), &document, &update)
        };
        for (state, expected) in [
            (TextState::Uploaded, None),
            (TextState::Processing, None),
            (TextState::Ready, Some(("document.ready", "ready"))),
            (TextState::NoText("blank".into()), Some(("document.failed", "no_text"))),
            (TextState::Failed("broken".into()), Some(("document.failed", "failed"))),
        ] {
            let found = event(state.clone());
            let found = found.as_ref().map(|event| (event.name.as_str(), event.data["state"].as_str().unwrap()));
            assert_eq!(found, expected, "{state:?}");
        }
        assert!(!event(TextState::Failed("broken".into())).unwrap().body().unwrap().contains("broken"));
    }

    #[test]
    fn an_extraction_is_completed_once_and_waits_once_for_a_reviewer() {
        let id = ExtractionId::derive(&["x"]);
        let apply = |change, before: Option<&Extraction>| {
            let write = Write::by_platform(org(), "key".parse().unwrap(), at(), Expected::Absent, change);
            Extraction::apply(&id, &write, before.cloned()).unwrap().after.unwrap()
        };
        let new = NewExtraction {
            document: DocumentId::derive(&["d"]),
            prompt: PromptRevId::new(PromptId::derive(&["p"]), 1),
            schema: None,
            model: "model".into(),
            data: json!({ "total": "secret" }),
            report: ExtractionReport::default(),
            approvals: None,
        };
        let made = apply(ExtractionChange::Create(Box::new(new.clone())), None);
        let waiting = apply(ExtractionChange::RequestReview { requested: true }, Some(&made));
        let edited = apply(ExtractionChange::Edit { data: json!({}) }, Some(&waiting));
        let op = OpKey::Request { user: UserId::platform(), request: "key".parse().unwrap() };
        let names = |before: Option<&Extraction>, after: &Extraction| {
            of_extraction(&op, before, after).into_iter().map(|event| event.name).collect::<Vec<_>>()
        };
        assert_eq!(names(None, &made), ["extraction.completed"]);
        assert_eq!(names(Some(&made), &waiting), ["inbox.waiting"]);
        assert!(names(Some(&waiting), &edited).is_empty());
        let event = of_extraction(&op, None, &made).remove(0);
        assert_eq!(event.source, Some(Source::Extraction { extraction: id.clone(), op: op.clone() }));
        let later = Extraction { version: 2, ..made.clone() };
        assert_eq!(of_extraction(&op, None, &later)[0].id, event.id, "the write is repeated for another version");
        let other = OpKey::Request { user: UserId::platform(), request: "other".parse().unwrap() };
        assert_ne!(of_extraction(&other, None, &made)[0].id, event.id, "another write");
        let step = |step, before: &Extraction| apply(ExtractionChange::Agent(Box::new(step)), Some(before));
        let begun = apply(ExtractionChange::Begin(Box::new(new), ThreadId::derive(&["t"])), None);
        let complete = AgentStep::Complete { report: Box::default(), approvals: None };
        let completed = step(complete, &begun);
        assert!(names(None, &begun).is_empty());
        assert!(names(Some(&begun), &step(AgentStep::Fail { reason: "x".into() }, &begun)).is_empty());
        assert_eq!(names(Some(&begun), &completed), ["extraction.completed"]);
        let start = AgentStep::Start { thread: ThreadId::derive(&["further"]) };
        assert!(names(Some(&completed), &step(start, &completed)).is_empty());
        assert!(!event.body().unwrap().contains("secret"), "the data are not part of the event");
    }

    #[test]
    fn the_end_of_a_batch_has_one_event() {
        let write = |kind: &str, command: JobCommand| {
            let new = NewJob {
                id: JobId::derive(&["j"]),
                principal: Principal::new(org(), UserId::derive(&["u"]), Role::Member),
                kind: kind.to_owned(),
                input: json!({ "secret": true }),
                items: vec!["doc_1".to_owned()],
                running_max: Duration::from_secs(60),
                at: at(),
            };
            let before = new.header().unwrap();
            let after = before.after(command, at()).unwrap().unwrap();
            JobWrite { batch: 1, before, after, outcome: None }
        };
        assert_eq!(of_job(&write(EXTRACTION_KIND, JobCommand::Pause)), None);
        assert_eq!(of_job(&write(DELIVERY_KIND, JobCommand::Cancel)), None);
        let event = of_job(&write(EXTRACTION_KIND, JobCommand::Cancel)).unwrap();
        let source = Source::Job { job: JobId::derive(&["j"]), version: 1, state: "cancelled".to_owned() };
        assert_eq!((event.name.as_str(), event.source.clone()), ("batch.finished", Some(source)));
        assert_eq!((&event.data["items"], &event.data["state"]), (&json!(1), &json!("cancelled")));
        assert!(!event.body().unwrap().contains("secret"), "the input is not part of the event");
    }

    #[test]
    fn a_proposal_is_ready_once_and_only_if_it_waits_for_a_decision() {
        let id = ProposalId::derive(&["p"]);
        let apply = |change, before: Option<&Proposal>| {
            let write = Write::by_platform(org(), "key".parse().unwrap(), at(), Expected::Absent, change);
            Proposal::apply(&id, &write, before.cloned()).unwrap().after.unwrap()
        };
        let create = |outcome| {
            let new = NewProposal { document: DocumentId::derive(&["d"]), outcome, thread: None };
            apply(ProposalChange::Create(Box::new(new)), None)
        };
        let proposed = create(ProposalOutcome::Proposed(ProposedResources {
            schema: None,
            is_schema_reused: false,
            prompt: PromptRevId::new(PromptId::derive(&["p"]), 1),
            extraction: ExtractionId::derive(&["x"]),
            document_type: Some("secret".into()),
            similar: None,
        }));
        let op = OpKey::Request { user: UserId::platform(), request: "key".parse().unwrap() };
        let events = of_proposal(&op, true, &proposed);
        let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
        assert_eq!(names, ["proposal.ready", "inbox.waiting"]);
        assert_eq!(events[0].source, Some(Source::Proposal { proposal: id.clone(), op: op.clone() }));
        assert_eq!((&events[0].data["state"], &events[1].data["kind"]), (&json!("proposed"), &json!("proposal")));
        assert!(!events[0].body().unwrap().contains("secret"));
        let accepted = apply(ProposalChange::Accept, Some(&proposed));
        assert!(of_proposal(&op, false, &accepted).is_empty());
        for outcome in [ProposalOutcome::Failed { reason: "x".into() }, ProposalOutcome::Skipped { reason: "x".into() }]
        {
            assert!(of_proposal(&op, true, &create(outcome)).is_empty());
        }
    }

    #[test]
    fn a_new_question_waits_in_the_inbox_without_its_content() {
        let document = DocumentId::derive(&["d"]);
        let new = NewQuestion {
            document: document.clone(),
            term: "SECRET".into(),
            occurrences: 1,
            contexts: vec!["secret".into()],
            guess: None,
        };
        let id = DictionaryQuestion::id_of(&org(), &document, &new.term);
        let create = DictionaryQuestionChange::Create(Box::new(new));
        let write = Write::by_platform(org(), "key".parse().unwrap(), at(), Expected::Absent, create);
        let question = DictionaryQuestion::apply(&id, &write, None).unwrap().after.unwrap();
        let event = of_question(&write.op, true, &question).unwrap();
        assert_eq!((event.name.as_str(), &event.data["kind"]), ("inbox.waiting", &json!("dictionary_question")));
        assert!(!event.body().unwrap().to_lowercase().contains("secret"));
        assert_eq!(event.source, Some(Source::DictionaryQuestion { question: id, op: write.op.clone() }));
        assert_eq!(of_question(&write.op, false, &question), None);
    }

    #[test]
    fn names_of_types_are_unique_and_of_the_form_of_endpoints() {
        let names: Vec<String> = EventType::names().into_iter().map(str::to_owned).collect();
        let distinct = folio_resources::check_event_types("f", names.clone()).unwrap();
        assert_eq!(distinct.len(), names.len());
    }

    #[test]
    fn the_body_of_an_event_is_bounded() {
        let request = ["o", "u", "r"];
        let mut event = Event::test(&org(), &WebhookEndpointId::derive(&["e"]), &request, at());
        let body = event.body().unwrap();
        assert!(body.starts_with(r#"{"type":"webhook.test","timestamp":"2026-09-21T14:13:20Z","data":{"#), "{body}");
        event.data = json!("x".repeat(EVENT_BYTES));
        assert_eq!(event.body().unwrap_err().reason, Reason::TooLarge);
    }
}
