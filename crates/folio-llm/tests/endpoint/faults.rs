//! Each kind of fault: whether the call is retried, and the error for the caller.

use std::time::Instant;

use folio_llm::TimeLimit;
use folio_llm::options::Timeouts;
use llm_sim::script::Rule;
use llm_sim::{Answer, Call, Fault, RecordedRequest, Thinking};

use super::raw::{END, HEAD, RawServer, Step, chunk, send};
use super::*;

fn status(code: u16, retry_after: Option<u64>) -> Fault {
    Fault::Status { code, retry_after, body: None }
}

/// Asserts that a streaming and a non-streaming call succeed after `requests` requests each.
async fn recovers(plan: FaultPlan, requests: usize) {
    let sim = faulty(plan.clone()).await;
    let models = models(&sim.url());
    let reply = streamed(&models).await.unwrap();
    assert!(reply.text.starts_with("The total"), "{reply:?}");
    assert_eq!(sim.chats().len(), requests, "streaming call");
    let has_id = |chat: &RecordedRequest| chat.header("x-client-request-id") == Some("turn.1");
    assert!(sim.chats().iter().all(has_id), "every attempt carries the id of its call");
    sim.reset();
    sim.set_faults(plan);
    assert!(models.complete(request()).await.is_ok());
    assert_eq!(sim.chats().len(), requests, "non-streaming call");
    assert!(sim.chats().iter().all(has_id), "every attempt carries the id of its call");
}

/// Asserts that a streaming and a non-streaming call fail after `requests` requests each. Returns the text and the
/// error of the streaming call.
async fn fails(plan: FaultPlan, requests: usize, change: impl FnOnce(&mut Options)) -> (String, ModelError) {
    let sim = faulty(plan.clone()).await;
    let (models, _) = client(&sim.url(), change);
    let failed = streamed(&models).await.unwrap_err();
    assert_eq!(sim.chats().len(), requests, "streamed: {failed:?}");
    sim.reset();
    sim.set_faults(plan);
    assert!(models.complete(request()).await.is_err());
    failed
}

#[tokio::test]
async fn rate_limits_and_server_errors_are_retried_before_the_first_token() {
    for fault in [status(429, None), status(500, None), status(503, None), Fault::Reset { after_chunks: 0 }] {
        recovers(FaultPlan::first(2, fault), 3).await;
    }
}

#[tokio::test]
async fn the_number_of_retries_is_bounded() {
    let (_, error) = fails(FaultPlan::always(status(429, None)), 3, |_| {}).await;
    assert_eq!(error, ModelError::RateLimited { retry_after: None });
    let (_, error) = fails(FaultPlan::always(status(500, None)), 3, |_| {}).await;
    assert!(error.to_string().contains("500"), "{error}");
    let (_, error) = fails(FaultPlan::always(status(500, None)), 1, |options| options.retries.retries = 0).await;
    assert!(error.is_retriable());
}

#[tokio::test]
async fn the_retry_delay_of_an_endpoint_is_respected() {
    let began = Instant::now();
    recovers(FaultPlan::first(1, status(429, Some(1))), 2).await;
    assert!(began.elapsed() >= Duration::from_secs(2), "each of the two calls waits one second");
}

#[tokio::test]
async fn a_wait_beyond_the_bound_is_returned_to_the_caller() {
    let (_, error) = fails(FaultPlan::always(status(429, Some(3_600))), 1, |_| {}).await;
    assert_eq!(error, ModelError::RateLimited { retry_after: Some(Duration::from_secs(3_600)) });
    let (_, error) = fails(FaultPlan::always(status(503, Some(21))), 1, |_| {}).await;
    assert!(matches!(error, ModelError::Failed(_)), "{error:?}");
}

#[tokio::test]
async fn retry_after_may_be_a_date() {
    // The client's clock is fixed at 2026-09-21 14:13:20 UTC.
    let head = "HTTP/1.1 429 Too Many\r\nretry-after: Mon, 21 Sep 2026 15:13:20 GMT\r\ncontent-length: 0\r\n\r\n";
    let server = RawServer::start(vec![send(head)]).await;
    let (_, error) = streamed(&models(&server.url())).await.unwrap_err();
    assert_eq!(error, ModelError::RateLimited { retry_after: Some(Duration::from_secs(3_600)) });
}

#[tokio::test]
async fn comments_and_empty_chunks_do_not_count_as_the_first_token() {
    let alive =
        chunk(": still here\n\ndata: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n");
    let server = RawServer::start(vec![send(HEAD), Step::Forever(alive.into_bytes())]).await;
    let (models, _) =
        client(&server.url(), |options| options.timeouts.first_token_seconds = Duration::from_millis(200));
    let (models_with_call_timeout, _) =
        client(&server.url(), |options| options.timeouts.call_seconds = Duration::from_millis(300));
    let error = streamed(&models).await.unwrap_err().1;
    assert_eq!(error, ModelError::Timeout(TimeLimit::FirstToken));
    let error = streamed(&models_with_call_timeout).await.unwrap_err().1;
    assert_eq!(error, ModelError::Timeout(TimeLimit::WholeCall));
}

#[tokio::test]
async fn a_hang_ends_at_its_timeout_and_is_not_retried() {
    type Choose = fn(&mut Timeouts) -> &mut Duration;
    // Long enough for the first chunks on a busy machine.
    let short = Duration::from_secs(1);
    let cases: [(TimeLimit, usize, Choose); 3] = [
        (TimeLimit::FirstToken, 0, |timeouts| &mut timeouts.first_token_seconds),
        (TimeLimit::BetweenTokens, 3, |timeouts| &mut timeouts.between_tokens_seconds),
        (TimeLimit::WholeCall, 3, |timeouts| &mut timeouts.call_seconds),
    ];
    for (limit, after_chunks, timeout) in cases {
        let sim = faulty(FaultPlan::always(Fault::Hang { after_chunks })).await;
        let (models, _) = client(&sim.url(), |options| *timeout(&mut options.timeouts) = short);
        let (text, error) = streamed(&models).await.unwrap_err();
        assert_eq!((text.is_empty(), text.starts_with("The total")), (after_chunks == 0, after_chunks > 0), "{text:?}");
        assert_eq!(error, ModelError::Timeout(limit));
        let setting = match limit {
            TimeLimit::FirstToken => "models.timeouts.first_token_seconds",
            TimeLimit::BetweenTokens => "models.timeouts.between_tokens_seconds",
            _ => "models.timeouts.call_seconds",
        };
        let message = folio_types::Error::from(error).message;
        assert!(message.contains(setting), "{message}");
        assert_eq!(sim.chats().len(), 1);
        closed_by_client(&sim).await;
        if limit == TimeLimit::WholeCall {
            assert_eq!(models.complete(request()).await, Err(ModelError::Timeout(limit)));
            closed_by_client(&sim).await;
        }
    }
}

#[tokio::test]
async fn a_stream_cut_after_its_first_token_is_an_error_and_never_retried() {
    for broken in [false, true] {
        let (text, error) = fails(FaultPlan::always(Fault::Cut { after_chunks: 3, broken }), 1, |_| {}).await;
        assert!(text.starts_with("The total"), "{text:?}");
        assert!(matches!(error, ModelError::Failed(_)), "{error:?}");
    }
    let (text, error) = fails(FaultPlan::always(Fault::Reset { after_chunks: 3 }), 1, |_| {}).await;
    assert!(matches!(error, ModelError::Failed(_)), "{text:?} {error:?}");
}

#[tokio::test]
async fn a_stream_that_breaks_after_nothing_but_thinking_is_retried() {
    let thinking = Thinking { text: "The total is at the end of the page. ".repeat(20), ..Thinking::default() };
    let answer = Answer { thinking: vec![thinking.clone()], ..Answer::text("1,234.50") };
    for broken in [false, true] {
        let rule = Rule { answer: Some(answer.clone()), ..Rule::default() };
        let sim = sim(Script::of(vec![rule])).await;
        sim.set_faults(FaultPlan::first(2, Fault::Cut { after_chunks: 3, broken }));
        let models = models(&sim.url());
        let mut stream = models.stream(request()).await.unwrap();
        let received = receive(&mut stream).await;
        let reply = received.end.unwrap().unwrap();
        assert_eq!((received.text.as_str(), reply.text.as_str()), ("1,234.50", "1,234.50"));
        assert_eq!(reply.thinking[0].text, thinking.text, "the reply contains the thinking of one attempt");
        assert!(received.thinking.len() > thinking.text.len(), "the events contain the thinking of all attempts");
        assert_eq!((sim.chats().len(), models.endpoints()[0].calls), (3, 0));

        sim.reset();
        sim.set_faults(FaultPlan::always(Fault::Cut { after_chunks: 3, broken }));
        let (text, error) = streamed(&models).await.unwrap_err();
        assert!(text.is_empty() && matches!(error, ModelError::Failed(_)), "{text:?} {error:?}");
        assert_eq!((sim.chats().len(), models.endpoints()[0].calls), (3, 0), "the number of retries is bounded");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_within_a_tool_call_is_retried() {
    let arguments = serde_json::json!({ "name": "a tag with a name that takes several chunks of the stream" });
    let rule = |text: &str| {
        let answer = Answer::calls(text, vec![Call::new("create_tag", arguments.clone())]);
        Script::of(vec![Rule { answer: Some(answer), ..Rule::default() }])
    };
    for broken in [false, true] {
        // The first chunks are the role, the head of the call, and its first arguments.
        let sim = sim(rule("")).await;
        sim.set_faults(FaultPlan::first(2, Fault::Cut { after_chunks: 3, broken }));
        let models = models(&sim.url());
        let (request, whole) = (request(), arguments.to_string());
        let progress = request.progress.clone();
        let mut stream = models.stream(request).await.unwrap();
        let received = receive(&mut stream).await;
        let reply = received.end.unwrap().unwrap();
        let calls: Vec<_> = reply.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
        assert_eq!(calls, [("create_tag", whole.as_str())], "the reply contains the call of one attempt");
        assert!(progress.call_bytes() > whole.len(), "the arguments of all attempts are counted");
        assert_eq!((sim.chats().len(), models.endpoints()[0].calls), (3, 0));

        sim.reset();
        sim.set_faults(FaultPlan::always(Fault::Cut { after_chunks: 3, broken }));
        let (text, error) = streamed(&models).await.unwrap_err();
        assert!(text.is_empty() && matches!(error, ModelError::Failed(_)), "{text:?} {error:?}");
        assert_eq!(sim.chats().len(), 3, "the number of retries is bounded");
    }
    let sim = sim(rule("I create it.")).await;
    sim.set_faults(FaultPlan::always(Fault::Cut { after_chunks: 4, broken: false }));
    assert!(streamed(&models(&sim.url())).await.is_err());
    assert_eq!(sim.chats().len(), 1, "text was shown before the call");
}

#[tokio::test]
async fn a_loading_model_is_waited_for_up_to_the_limit() {
    let body = r#"{"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}"#;
    let loading = Fault::Status { code: 503, retry_after: None, body: Some(body.to_owned()) };
    let sim = faulty(FaultPlan::first(8, loading.clone())).await;
    let (models, _) = client(&sim.url(), |options| {
        options.retries.retries = 0;
        options.retries.max_seconds = Duration::from_millis(10);
        options.breaker.failures = 2;
    });
    assert!(streamed(&models).await.is_ok(), "neither the retries nor the breaker end the wait");
    assert_eq!(sim.chats().len(), 9);
    sim.set_faults(FaultPlan::first(8, loading.clone()));
    assert!(models.complete(request()).await.is_ok());

    sim.set_faults(FaultPlan::always(loading));
    let (models, _) = client(&sim.url(), |options| options.retries.loading_seconds = Duration::from_millis(20));
    let request = request();
    let progress = request.progress.clone();
    let error = models.complete(request).await.unwrap_err();
    assert!(matches!(error, ModelError::Loading(_)) && error.is_retriable(), "{error:?}");
    assert!(error.to_string().contains("Loading model"), "{error}");
    assert!(error.to_string().contains("models.retries.loading_seconds"), "{error}");
    assert!(!progress.is_sent(), "a model that is loading is not charged");
}

#[tokio::test]
async fn a_stream_cut_before_its_first_token_is_retried() {
    let server = RawServer::start(vec![send(HEAD), send(chunk(": hello\n\n")), send(END)]).await;
    let (_, error) = streamed(&models(&server.url())).await.unwrap_err();
    assert!(error.to_string().contains("without a finish reason"), "{error}");
    assert_eq!(server.requests(), 3);
}

#[tokio::test]
async fn a_partial_answer_without_streaming_is_never_retried() {
    let broken = Fault::Cut { after_chunks: 3, broken: true };
    for fault in [Fault::NoFinish, broken, Fault::Reset { after_chunks: 3 }] {
        let sim = faulty(FaultPlan::always(fault.clone())).await;
        let failed = models(&sim.url()).complete(request()).await;
        assert!(matches!(failed, Err(ModelError::Failed(_))), "{fault:?}: {failed:?}");
        assert_eq!(sim.chats().len(), 1, "{fault:?}: the call is charged once, so it is not retried");
    }
}

#[tokio::test]
async fn a_stream_without_a_finish_reason_is_never_a_short_answer() {
    let (text, error) = fails(FaultPlan::always(Fault::NoFinish), 1, |_| {}).await;
    assert!(text.ends_with("3 March."), "{text:?}");
    assert!(error.to_string().contains("without a finish reason"), "{error}");
}

#[tokio::test]
async fn garbage_is_an_error() {
    for after_chunks in [0, 3] {
        let (text, error) = fails(FaultPlan::always(Fault::Garbage { after_chunks }), 1, |options| {
            options.retries.retries = 0;
        })
        .await;
        assert_eq!(text.is_empty(), after_chunks == 0);
        assert!(matches!(error, ModelError::Failed(_)), "{error:?}");
    }
}

#[tokio::test]
async fn a_slow_start_is_waited_for() {
    recovers(FaultPlan::always(Fault::SlowStart { ms: 300 }), 1).await;
}

#[tokio::test]
async fn a_refused_connection_is_retried_and_reported() {
    // A bound socket that does not listen keeps its port from the servers of other tests.
    let closed = tokio::net::TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = closed.local_addr().unwrap();
    let models = models(&format!("http://{address}/v1"));
    for whole in [false, true] {
        let request = request();
        let progress = request.progress.clone();
        let error = match whole {
            true => models.complete(request).await.err().unwrap(),
            false => models.stream(request).await.err().unwrap(),
        };
        assert!(error.to_string().contains("cannot connect to openai") && error.is_retriable(), "{error}");
        assert!(matches!(error, ModelError::Unreachable(_)) && !error.is_possibly_charged(), "{error:?}");
        assert!(!progress.is_sent(), "no attempt was sent, so the call is not charged");
    }
}

#[tokio::test]
async fn a_call_was_sent_if_one_of_its_attempts_was() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let models = models(&format!("http://{}/v1", listener.local_addr().unwrap()));
    // The server closes its first connection without an answer and refuses all others.
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        drop(listener);
        tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 16]).await.unwrap();
    });
    let request = request();
    let progress = request.progress.clone();
    let error = models.stream(request).await.err().unwrap();
    server.await.unwrap();
    assert!(matches!(error, ModelError::Unreachable(_)) && progress.is_sent(), "{error:?}");
}

#[tokio::test]
async fn the_arguments_before_a_reported_error_are_counted() {
    let arguments = r#"{"name": "a tag"}"#;
    let call = serde_json::json!({"choices": [{"delta": {"tool_calls": [
        {"index": 0, "id": "a", "function": {"name": "create_tag", "arguments": arguments}}
    ]}}]});
    let event = |data: &str| send(chunk(&format!("data: {data}\n\n")));
    let error = r#"{"error": {"code": 429, "message": "enough"}}"#;
    let server = RawServer::start(vec![send(HEAD), event(&call.to_string()), event(error), send(END)]).await;
    let request = request();
    let progress = request.progress.clone();
    let mut stream = models(&server.url()).stream(request).await.unwrap();
    let end = receive(&mut stream).await.end.unwrap();
    assert!(matches!(end, Err(ModelError::RateLimited { .. })), "{end:?}");
    assert_eq!(server.requests(), 3, "no text was shown, so the call is retried");
    assert_eq!((progress.is_sent(), progress.call_bytes()), (true, 3 * arguments.len()));
}

#[tokio::test]
async fn an_error_event_before_the_first_token_is_treated_like_its_status() {
    let event = |code: &str| chunk(&format!("data: {{\"error\": {{\"code\": {code}, \"message\": \"no\"}}}}\n\n"));
    for (code, requests, retriable) in [("503", 3, true), ("429", 3, true), ("400", 1, false), ("null", 1, true)] {
        let server = RawServer::start(vec![send(HEAD), send(event(code)), send(END)]).await;
        let (_, error) = streamed(&models(&server.url())).await.unwrap_err();
        assert_eq!((server.requests(), error.is_retriable()), (requests, retriable), "{code}: {error:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_no_event_stream_is_an_error() {
    let html = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nhi";
    let server = RawServer::start(vec![send(html)]).await;
    let (_, error) = streamed(&models(&server.url())).await.unwrap_err();
    assert!(error.to_string().contains("text/html"), "{error}");
    assert!(models(&server.url()).complete(request()).await.is_err());
}

#[tokio::test]
async fn a_whole_answer_ends_although_its_connection_stays_open() {
    let answer = "data: {\"choices\":[{\"delta\":{\"content\":\"yes\"},\"finish_reason\":\"stop\"}]}\n\n";
    for tail in ["", "data: [DONE]\n\n"] {
        let server =
            RawServer::start(vec![send(HEAD), send(chunk(answer)), send(chunk(&format!("{tail}:\n\n"))), Step::Hang])
                .await;
        let reply = streamed(&models(&server.url())).await.unwrap();
        assert_eq!((reply.text.as_str(), reply.usage.reported), ("yes", false), "{tail:?}");
    }
    let broken = RawServer::start(vec![send(HEAD), send(chunk(answer)), send("no chunk\r\n")]).await;
    assert_eq!(
        streamed(&models(&broken.url())).await.unwrap().text,
        "yes",
        "the connection broke after the finish reason"
    );
}
