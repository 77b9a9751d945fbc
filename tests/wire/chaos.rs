//! `kill -9` at moments that a seed chooses, with an oracle: an acknowledged result is never lost, no effect happens
//! twice, and every accepted turn ends (invariants 3, 4, 7, 8).

use std::time::{Duration, Instant};

use folio_proto::v1;
use folio_proto::v1::approve_response::Outcome;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::client::{Client, approved, ask, decide};
use crate::sandbox::Sandbox;

/// Resources are named after the user message, so that the effects of each turn are distinguishable.
const SCRIPT: &str = "
rules:
  - when: {system: {contains: You extract data}}
    answer: {text: '{\"total\": 957}'}
  - when: {user: {prefix: work}}
    rounds:
      - calls:
          - {name: create_tag, arguments: {name: '{{user}}'}}
          - name: create_schema
            arguments:
              name: '{{user}}'
              response_format:
                type: json_schema
                json_schema:
                  name: bill
                  strict: true
                  schema: {type: object, properties: {total: {type: number}}, required: [total], additionalProperties: false}
      - calls: [{name: create_prompt, arguments: {name: '{{user}}', content: Extract., schema_id: '{{last.create_schema.schema_id}}'}}]
      - calls: [{name: run_extraction}]
      - text: Worked.
  - when: {user: {prefix: hello}}
    answer: {text: Hello.}
";

/// Number of kills of each test.
const KILLS: usize = 8;

/// A server that is killed repeatedly.
struct Chaos {
    sandbox: Sandbox,
    client: Client,
    document: String,
    random: StdRng,
    /// Duration of an undisturbed unit of work.
    usual: Duration,
}

impl Chaos {
    async fn start() -> Self {
        let sandbox = Sandbox::start(SCRIPT).await;
        let (client, document) = sandbox.with_document().await;
        let random = StdRng::seed_from_u64(folio_testkit::seed());
        let started_at = Instant::now();
        let request = v1::ChatRequest { auto_approve: true, ..ask(&document, "work undisturbed") };
        client.send(request).await.unwrap().completed().await;
        Self { sandbox, client, document, random, usual: started_at.elapsed() }
    }

    /// Kills the server after a part of the usual time, and starts it again.
    async fn strike(&mut self) {
        let part: f64 = self.random.random_range(0.0..1.1);
        let wait = self.usual.mul_f64(part);
        // The seed determines the time of the kill.
        tokio::time::sleep(wait).await;
        self.sandbox.kill();
        eprintln!("killed after {wait:?} of {:?}", self.usual);
        self.client = self.sandbox.restart().await;
    }

    /// Waits until a turn has ended or is pending. A failed turn is resumed.
    async fn settle(&self, turn: &str) -> v1::Turn {
        folio_testkit::wait_for("an ended turn", crate::LIMIT, || async {
            let found = self.client.turn(turn).await;
            match found.status() {
                v1::TurnStatus::Running => None,
                v1::TurnStatus::Failed => {
                    assert!(found.retriable, "{found:?}");
                    let _ = self.client.resume(turn).await.unwrap().end().await;
                    None
                }
                _ => Some(found),
            }
        })
        .await
    }

    /// Checks that each effect of the turn with this text exists exactly once.
    async fn check_effects(&self, text: &str) {
        let mut client = self.client.clone();
        let tags = self.client.tag_names().await;
        assert_eq!(tags.iter().filter(|name| *name == text).count(), 1, "{tags:?}");
        let request = v1::ListSchemasRequest { filter: format!("name:\"{text}\""), ..Default::default() };
        let schemas = client.schemas.list_schemas(request).await.unwrap().into_inner().schemas;
        let latest = |schema: &v1::Schema| schema.revision;
        assert_eq!(schemas.iter().map(latest).collect::<Vec<_>>(), [1], "one schema of one revision");
        let request = v1::ListPromptsRequest { filter: format!("name:\"{text}\""), ..Default::default() };
        let prompts = client.prompts.list_prompts(request).await.unwrap().into_inner().prompts;
        assert_eq!(prompts.iter().map(|p| p.revision).collect::<Vec<_>>(), [1]);
        let revid = &prompts[0].prompt_revid;
        let request = v1::ListExtractionsRequest { document_id: self.document.clone(), ..Default::default() };
        let extractions = client.extractions.list_extractions(request).await.unwrap().into_inner().extractions;
        assert_eq!(extractions.iter().filter(|found| found.prompt_revid == *revid).count(), 1);
    }
}

#[tokio::test]
async fn after_a_kill_at_any_moment_a_turn_ends_and_its_effects_happen_once() {
    let mut chaos = Chaos::start().await;
    for kill in 0..KILLS {
        let text = format!("work {kill}");
        let id = format!("request-{kill}");
        let request = v1::ChatRequest { auto_approve: true, request_id: id, ..ask(&chaos.document, &text) };
        let (client, sent) = (chaos.client.clone(), request.clone());
        let (turn_sender, first_turn) = tokio::sync::oneshot::channel();
        let chatting = tokio::spawn(async move {
            if let Ok(events) = client.send(sent).await {
                let _ = turn_sender.send(events.turn());
                let _ = events.drain().await;
            }
        });
        chaos.strike().await;
        chatting.await.unwrap();
        // The repeated request joins, resumes or repeats its turn, or starts it if it was never accepted.
        let again = chaos.client.send(request).await.unwrap();
        let turn = again.turn();
        if let Ok(first) = first_turn.await {
            assert_eq!(turn, first, "an accepted turn is never lost");
        }
        let _ = again.drain().await;
        let ended = chaos.settle(&turn).await;
        assert_eq!((ended.status(), ended.text.as_str()), (v1::TurnStatus::Completed, "Worked."));
        chaos.check_effects(&text).await;
        // The history is one that an endpoint takes.
        assert_eq!(chaos.client.say(&ended.thread_id, "hello").await.completed().await.text, "Hello.");
    }
}

#[tokio::test]
async fn after_a_kill_at_any_moment_of_an_approval_the_same_decisions_have_the_same_outcome() {
    let mut chaos = Chaos::start().await;
    chaos.usual /= 3;
    for kill in 0..KILLS {
        let text = format!("work {kill}");
        let mut waiting = chaos.client.chat(&chaos.document, &text).await.pause().await;
        let turn = waiting.turn_id.clone();
        let (client, request) = (chaos.client.clone(), decide(&waiting, approved));
        let approving = tokio::spawn(async move { client.approve(request).await });
        chaos.strike().await;
        let first = approving.await.unwrap();
        loop {
            let answer = chaos.client.approve_all(&waiting).await;
            if let Ok(first) = &first
                && first.round.as_ref().map(|round| round.round) == answer.round.as_ref().map(|round| round.round)
                && !matches!(first.outcome, Some(Outcome::Failed(_)))
            {
                assert_eq!(*first, answer, "invariant 7");
            }
            match answer.outcome {
                Some(Outcome::AwaitingApproval(next)) => waiting = next,
                Some(Outcome::Completed(_)) => break,
                Some(Outcome::Failed(failed)) => {
                    assert!(failed.retriable, "{failed:?}");
                    let _ = chaos.client.resume(&turn).await.unwrap().drain().await;
                    match chaos.client.turn(&turn).await {
                        found if found.status() == v1::TurnStatus::AwaitingApproval => {
                            waiting.round = found.rounds.last().map_or(waiting.round, |round| round.round);
                            waiting.pending = found.pending;
                        }
                        found => {
                            assert_eq!(found.status(), v1::TurnStatus::Completed);
                            break;
                        }
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        chaos.check_effects(&text).await;
    }
}
