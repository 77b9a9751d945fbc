//! Turns of the assistant through the actors: the request of each node, its memory, and a crash between two nodes.

use folio_history::event::RoundView;
use folio_types::profile::{ASSISTANT_PROFILE, NodeKind};
use serde_json::Value;

use super::*;

fn question(text: &str) -> ChatCommand {
    ChatCommand { profile: Some(ASSISTANT_PROFILE.to_owned()), ..ChatCommand::new(text) }
}

fn classified(intent: &str) -> Step {
    say(&json!({ "intent_type": intent, "confidence": 1, "reasoning": "r" }).to_string())
}

fn answered() -> Step {
    let answer = json!({ "formula": "sum", "expression": "1+1", "result": 2, "sources": [], "confidence": 1 });
    say(&answer.to_string())
}

fn remembered() -> Step {
    say(&json!({ "summary": "The sum is 2." }).to_string())
}

fn computed() -> Step {
    call("calculator", json!({ "expression": "1 + 1" }))
}

fn answer(rounds: &[RoundView]) -> Option<Value> {
    let node = rounds.iter().filter_map(|round| round.node.as_ref()).rfind(|node| node.kind == NodeKind::Answer)?;
    node.end.as_ref()?.answer.clone()
}

#[tokio::test]
async fn each_node_has_a_request_of_its_own_and_the_next_turn_has_the_memory() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([classified("calculation"), computed(), answered(), remembered()]);
    let events = sandbox.run(question("What is 1 + 1?")).await;
    let EventKind::Completed { text, rounds, usage, .. } = closing(&events) else { panic!("{events:?}") };
    assert_eq!((text.as_str(), usage.model_calls), ("1+1 = 2", 4));
    assert_eq!(answer(rounds).unwrap()["result"], 2);
    let requests = sandbox.models.requests();
    let steps = ["Step: classify", "Step: compute", "Step: compute", "Step: update the summary"];
    for (request, step) in requests.iter().zip(steps) {
        assert!(request.system.contains(step) && request.system.contains("# Answer"), "{step}: {}", request.system);
    }
    let tools: Vec<usize> = requests.iter().map(|request| request.tools.len()).collect();
    assert_eq!(tools, [0, 5, 5, 0]);
    assert!(matches!(requests[3].messages.as_slice(), [Message::User { .. }, Message::User { .. }]));
    let operations: Vec<String> = sandbox.usage().await.into_iter().map(|record| record.operation).collect();
    assert!(operations.iter().all(|operation| operation == ASSISTANT_PROFILE), "{operations:?}");

    let thread = events[0].turn.thread.clone();
    sandbox.models.then([classified("qa"), say("no JSON"), say("no JSON")]);
    let events = sandbox.run(sandbox.chat_in(&thread, "Who says so?")).await;
    let EventKind::Failed { error, retriable: false } = closing(&events) else { panic!("{events:?}") };
    assert_eq!((error.reason, error.details["raw_text"].as_str()), (Reason::AnswerInvalid, "no JSON"));
    let next = &sandbox.models.requests()[4];
    assert!(next.state.contains("The sum is 2."), "{}", next.state);
    let [.., Message::Assistant { text, .. }, Message::User { .. }] = next.messages.as_slice() else {
        panic!("{:?}", next.messages)
    };
    assert_eq!(text, "1+1 = 2", "earlier turns show no JSON of nodes");
    let state = sandbox.header(&thread).await.working.profile_state.unwrap();
    assert_eq!(state["actions_taken"], json!(["classify_intent", "calculation_agent", "update_memory"]));
    sandbox.finish().await;
}

#[tokio::test]
async fn a_turn_continues_at_the_chosen_node_after_a_crash() {
    let mut sandbox = Sandbox::start().await;
    sandbox.models.then([classified("calculation")]);
    let chat = ChatCommand { request_id: request("r-1"), ..question("What is 1 + 1?") };
    sandbox.crash_at("round:after", |sandbox| sandbox.spawn_chat(chat.clone())).await;
    sandbox.models.then([computed(), answered(), remembered()]);
    let mut events = sandbox.run(chat.clone()).await;
    if matches!(closing(&events), EventKind::Failed { retriable: true, .. }) {
        events = sandbox.run(chat).await;
    }
    let EventKind::Completed { text, .. } = closing(&events) else { panic!("{events:?}") };
    assert_eq!(text, "1+1 = 2");
    assert_eq!(sandbox.models.requests().len(), 4, "the message was classified once");
    sandbox.finish().await;
}

#[tokio::test]
async fn a_thread_of_the_assistant_needs_no_document_and_may_name_some() {
    let sandbox = Sandbox::start().await;
    let foreign = ChatCommand { documents: vec![DocumentId::derive(&["of another organization"])], ..question("x") };
    assert_eq!(sandbox.chat_error(foreign).await.code, Code::NotFound);
    sandbox.models.then([classified("calculation"), computed(), answered(), remembered()]);
    let named = ChatCommand { documents: vec![sandbox.document.clone()], ..question("What is 1 + 1?") };
    let events = sandbox.run(named).await;
    assert!(matches!(closing(&events), EventKind::Completed { .. }), "{events:?}");
    let header = sandbox.header(&events[0].turn.thread).await;
    assert_eq!(header.documents, std::slice::from_ref(&sandbox.document));
    sandbox.finish().await;
}

#[tokio::test]
async fn nodes_receive_the_summary_of_a_long_conversation() {
    let sandbox = Sandbox::start().await;
    let found = || say(&json!({ "question": "q", "answer": "a", "sources": [], "confidence": 1 }).to_string());
    sandbox.models.then([classified("qa"), found(), remembered()]);
    let events = sandbox.run(question("question 1")).await;
    let thread = events[0].turn.thread.clone();
    for number in 2..=15 {
        sandbox.models.then([classified("qa"), found(), remembered()]);
        sandbox.run(sandbox.chat_in(&thread, &format!("question {number}"))).await;
    }
    sandbox.models.then([say("They asked."), classified("qa"), found(), remembered()]);
    let events = sandbox.run(sandbox.chat_in(&thread, "question 16")).await;
    let EventKind::Completed { usage, .. } = closing(&events) else { panic!("{events:?}") };
    assert_eq!(usage.model_calls, 4);
    let requests = sandbox.models.requests();
    let [.., summary, classify, answer, _] = requests.as_slice() else { panic!("{requests:?}") };
    assert!(summary.system.starts_with("You summarize") && summary.tools.is_empty(), "{}", summary.system);
    for request in [classify, answer] {
        assert!(request.state.contains("They asked."), "{}", request.state);
        let sent = format!("{:?}", request.messages);
        assert!(!sent.contains("question 5") && sent.contains("question 6"), "{sent}");
    }
    sandbox.finish().await;
}
