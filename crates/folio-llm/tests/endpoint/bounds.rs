//! Bounds: sizes, concurrent calls, and the cost of calls whose caller disconnects.

use llm_sim::Fault;

use super::raw::{HEAD, RawServer, Step, chunk, send};
use super::*;

#[tokio::test]
async fn an_endless_text_is_cut_off() {
    let sim = faulty(FaultPlan::always(Fault::Flood { bytes: 256 << 10 })).await;
    let models = models(&sim.url());
    let (_, error) = streamed(&models).await.unwrap_err();
    assert_eq!(error, ModelError::TooLarge("text"));
    assert_eq!(sim.chats().len(), 1, "the call is not retried");
    assert!(matches!(models.complete(request()).await, Err(ModelError::TooLarge(_))));
}

#[tokio::test]
async fn a_prompt_that_the_endpoint_cut_is_an_error() {
    let reported = |usage: &str| format!("rules: [{{answer: {{text: It is 5., {usage}}}}}]");
    let long = ModelRequest { messages: vec![Message::user("line 7 of the document\n".repeat(2_000))], ..request() };
    for (usage, is_cut) in [
        ("usage: {prompt_tokens: 4096, completion_tokens: 5}", true),
        ("usage: {prompt_tokens: 9000, completion_tokens: 5}", false),
        ("usage: {prompt_tokens: 9000, cached_tokens: 8000, completion_tokens: 5}", false),
        ("no_usage: true", false),
    ] {
        let sim = sim(Script::parse(&reported(usage)).unwrap()).await;
        let models = models(&sim.url());
        let mut stream = models.stream(long.clone()).await.unwrap();
        let streamed = receive(&mut stream).await.end.unwrap();
        let complete = models.complete(long.clone()).await;
        assert_eq!(sim.chats().len(), 2, "{usage}: the calls are not retried");
        for result in [streamed, complete] {
            match result {
                Err(ModelError::PromptCut { read: 4_096, fewest: 10_000.. }) if is_cut => {}
                Ok(_) if !is_cut => {}
                other => panic!("{usage}: {other:?}"),
            }
        }
        assert!(models.complete(request()).await.is_ok(), "{usage}: a short prompt is not checked");
    }
}

#[tokio::test]
async fn a_line_without_an_end_is_cut_off() {
    let chunk = chunk(&"x".repeat(60_000));
    let server = RawServer::start(vec![send(HEAD), Step::Forever(chunk.into_bytes())]).await;
    let (_, error) = streamed(&models(&server.url())).await.unwrap_err();
    assert_eq!(error, ModelError::TooLarge("one line of the stream"));
}

#[tokio::test]
async fn dropping_a_stream_stops_the_upstream_request() {
    let sim = faulty(FaultPlan::always(Fault::Hold { gate: "half".into(), after_chunks: 3 })).await;
    let models = models(&sim.url());
    let mut stream = models.stream(request()).await.unwrap();
    assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Text(_)))));
    assert_eq!(models.endpoints()[0].calls, 1);
    drop(stream);
    closed_by_client(&sim).await;
    assert_eq!(models.endpoints()[0].calls, 0, "the permit is released");
}

#[tokio::test]
async fn leaving_before_the_first_token_stops_the_upstream_request() {
    for is_complete in [false, true] {
        let sim = faulty(FaultPlan::always(Fault::Hang { after_chunks: 0 })).await;
        let models = models(&sim.url());
        let mut call: futures::future::BoxFuture<'_, bool> = if is_complete {
            Box::pin(async { models.complete(request()).await.is_ok() })
        } else {
            Box::pin(async { models.stream(request()).await.is_ok() })
        };
        let arrived = sim.wait_until(LIMIT, |requests| {
            requests.last().is_some_and(|request| request.outcome == llm_sim::Outcome::Waiting)
        });
        tokio::select! {
            ended = &mut call => panic!("a hanging call ended: {ended}"),
            arrived = arrived => assert!(arrived.is_ok()),
        }
        drop(call);
        closed_by_client(&sim).await;
    }
}

#[tokio::test]
async fn concurrent_and_waiting_calls_are_bounded() {
    let sim = faulty(FaultPlan::always(Fault::Hold { gate: "all".into(), after_chunks: 0 })).await;
    let (models, _) = client(&sim.url(), |options| {
        let provider = options.providers.get_mut("openai").unwrap();
        (provider.max_concurrent_calls, provider.max_waiting_calls) = (2, 1);
    });
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let models = models.clone();
            tokio::spawn(async move { streamed(&models).await })
        })
        .collect();
    let status = || {
        let status = models.endpoints()[0].clone();
        let full = status.calls == 2 && status.waiting == 1;
        async move { full.then_some(()) }
    };
    folio_testkit::wait_for("two calls and one that waits", LIMIT, status).await;
    let refused = streamed(&models).await.unwrap_err().1;
    assert!(matches!(refused, ModelError::Busy { .. }) && refused.is_retriable(), "{refused:?}");
    sim.wait_until(LIMIT, |requests| requests.len() == 2).await.expect("two reach the endpoint");
    sim.open_gate("all");
    for call in calls {
        assert!(call.await.unwrap().is_ok());
    }
    assert_eq!(sim.chats().len(), 3);
    assert_eq!((models.endpoints()[0].calls, models.endpoints()[0].waiting), (0, 0));
}

#[tokio::test]
async fn a_call_is_sent_only_with_a_permit() {
    let sim = faulty(FaultPlan::always(Fault::Hold { gate: "all".into(), after_chunks: 0 })).await;
    let (models, _) = client(&sim.url(), |options| {
        options.providers.get_mut("openai").unwrap().max_concurrent_calls = 1;
    });
    let call = |request: &ModelRequest| {
        let (models, request) = (models.clone(), request.clone());
        tokio::spawn(async move { models.complete(request).await })
    };
    let waiting = async |count: usize| {
        let status = async || (models.endpoints()[0].waiting == count).then_some(());
        folio_testkit::wait_for("calls that wait", LIMIT, status).await;
    };
    let (first, second) = (request(), request());
    let made = call(&first);
    sim.wait_until(LIMIT, |requests| requests.len() == 1).await.expect("the first reaches the endpoint");
    let waits = call(&second);
    waiting(1).await;
    assert_eq!((first.progress.is_sent(), second.progress.is_sent()), (true, false));
    waits.abort();
    waiting(0).await;
    sim.open_gate("all");
    assert!(made.await.unwrap().is_ok());
    assert_eq!((sim.chats().len(), second.progress.is_sent()), (1, false));
}

#[tokio::test]
async fn a_burst_of_one_organization_does_not_starve_another() {
    let sim = faulty(FaultPlan::always(Fault::Hold { gate: "all".into(), after_chunks: 0 })).await;
    let (models, _) = client(&sim.url(), |options| {
        let provider = options.providers.get_mut("openai").unwrap();
        (provider.max_concurrent_calls, provider.max_waiting_calls) = (1, 100);
    });
    let (flood, quiet) = (OrgId::derive(&["flood"]), OrgId::derive(&["quiet"]));
    let (observed, mut calls) = (models.clone(), Vec::new());
    for (at, of) in [&flood, &flood, &flood, &flood, &quiet, &quiet].into_iter().enumerate() {
        let (models, of) = (models.clone(), of.clone());
        let text = format!("{at}");
        calls.push(tokio::spawn(async move {
            let request = ModelRequest { org: of, messages: vec![Message::user(text)], ..request() };
            models.complete(request).await
        }));
        folio_testkit::wait_for("the waiting call", LIMIT, || async {
            let status = &observed.endpoints()[0];
            (status.calls + status.waiting == at + 1).then_some(())
        })
        .await;
    }
    sim.wait_until(LIMIT, |requests| requests.len() == 1).await.expect("one reaches the endpoint");
    sim.open_gate("all");
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let order: Vec<String> = sim
        .chats()
        .iter()
        .map(|chat| chat.body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(order, ["0", "1", "4", "2", "5", "3"]);
}

#[tokio::test]
async fn a_connection_serves_one_call_after_another() {
    let answer =
        "data: {\"choices\":[{\"delta\":{\"content\":\"yes\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    // The end of the body arrives after the end mark.
    let pause = Step::Pause(Duration::from_millis(5));
    let server = RawServer::start(vec![send(HEAD), send(chunk(answer)), pause, send(raw::END)]).await;
    let models = models(&server.url());
    for _ in 0..30 {
        assert_eq!(streamed(&models).await.unwrap().text, "yes");
    }
    assert_eq!(server.requests(), 30);
    // The client waits 250 ms for the end of the body. On a busy machine it may come later and cost its connection.
    assert!(server.connections() <= 3, "{} connections", server.connections());
}

#[tokio::test]
async fn a_slow_consumer_causes_no_timeout() {
    let sim = faulty(FaultPlan::none()).await;
    let limit = Duration::from_secs(1);
    let (models, _) = client(&sim.url(), |options| options.timeouts.between_tokens_seconds = limit);
    let mut stream = models.stream(request()).await.unwrap();
    assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Text(_)))));
    // The time limit must pass while the consumer reads nothing.
    tokio::time::sleep(2 * limit).await;
    assert!(receive(&mut stream).await.end.unwrap().is_ok());
}
