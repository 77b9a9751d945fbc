//! Turns that a job drives, while a user pauses the job.

use folio_history::job::{JobCommand, JobHeader, JobWrite, JobWritten, NewJob};
use folio_history::thread::NewThread;
use folio_types::JobId;

use super::sandbox::pending;
use super::*;

/// Creates a job, and a thread whose turns the job drives.
async fn start(sandbox: &Sandbox) -> (JobHeader, ThreadId) {
    let at = sandbox.environment.now();
    let new = NewJob {
        id: JobId::derive(&["job"]),
        principal: sandbox.principal.clone(),
        kind: "test".to_owned(),
        input: json!({}),
        items: vec!["one".to_owned()],
        running_max: Duration::from_secs(60),
        at,
    };
    let job = sandbox.stores.jobs.create(new.header().unwrap()).await.unwrap();
    let id = ThreadId::generate(&*sandbox.environment);
    let new = NewThread::new(id, &sandbox.principal, "document", vec![sandbox.document.clone()], at);
    let thread = sandbox.stores.threads.create(NewThread { job: Some(job.id.clone()), ..new }).await.unwrap().id;
    (job, thread)
}

/// Executes a command of a user, and returns the header that is then stored.
async fn execute(sandbox: &Sandbox, before: JobHeader, command: JobCommand) -> JobHeader {
    let after = before.after(command, sandbox.environment.now()).unwrap().unwrap();
    let write = JobWrite { batch: sandbox.environment.random(), before, after, outcome: None };
    match sandbox.stores.jobs.write(write).await.unwrap() {
        JobWritten::Done(stored) => *stored,
        JobWritten::Refused(stored) => panic!("the write is refused: {stored:?}"),
    }
}

fn is_paused(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Failed { error, retriable: true } if error.reason == Reason::JobPaused)
}

#[tokio::test]
async fn a_turn_stops_before_its_next_model_call_while_its_job_is_paused_and_continues_afterwards() {
    let sandbox = Sandbox::start().await;
    let (job, thread) = start(&sandbox).await;
    let message = ChatCommand { request_id: request("run"), ..sandbox.chat_in(&thread, "x") };
    sandbox.models.then([gated(call("list_tags", json!({})))]);
    let stream = sandbox.begin(message.clone()).await;
    sandbox.wait_for_model_calls(1).await;
    let job = execute(&sandbox, job, JobCommand::Pause).await;
    sandbox.models.release();
    let events = all(stream).await;
    assert!(is_paused(closing(&events)), "{events:?}");
    let has_result = events.iter().any(|event| matches!(event.kind, EventKind::ToolResult { .. }));
    assert!(has_result, "the round in progress ends: {events:?}");
    let events = sandbox.run(message.clone()).await;
    assert!(is_paused(closing(&events)), "the job is still paused: {events:?}");
    assert_eq!(sandbox.models.requests().len(), 1);

    // Another failed turn could not be resumed any more.
    sandbox.environment.advance(2 * limits::DAY);
    execute(&sandbox, job, JobCommand::Resume).await;
    sandbox.models.then([say("Done.")]);
    let events = sandbox.run(message).await;
    let EventKind::Completed { rounds, .. } = closing(&events) else { panic!("{events:?}") };
    assert_eq!((rounds.len(), sandbox.models.requests().len()), (1, 2), "no step is repeated");
    sandbox.finish().await;
}

#[tokio::test]
async fn a_decision_about_a_turn_of_a_paused_job_takes_effect_and_the_turn_stops() {
    let sandbox = Sandbox::start().await;
    let (job, thread) = start(&sandbox).await;
    let message = ChatCommand { request_id: request("run"), ..sandbox.chat_in(&thread, "x") };
    sandbox.models.then([call("create_tag", json!({"name": "a"}))]);
    let (turn, waiting) = pending(&sandbox.run(message.clone()).await);
    let job = execute(&sandbox, job, JobCommand::Pause).await;
    let ended = reached(sandbox.approve_with(approve_all(&turn, &waiting)).await.unwrap());
    assert!(is_paused(&ended), "{ended:?}");
    assert_eq!(sandbox.tag_names().await, ["a"]);
    assert_eq!(sandbox.models.requests().len(), 1);

    execute(&sandbox, job, JobCommand::Resume).await;
    sandbox.models.then([say("Done.")]);
    let events = sandbox.run(message).await;
    assert!(matches!(closing(&events), EventKind::Completed { .. }), "{events:?}");
    assert_eq!(sandbox.tag_names().await, ["a"], "the call runs once");
    sandbox.finish().await;
}
