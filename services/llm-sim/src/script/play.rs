//! Execution of a script.

use std::sync::{Mutex, PoisonError};

use super::template::Scope;
use super::{Rule, Script};
use crate::answer::{Answer, Call};
use crate::request::ChatRequest;
use crate::responder::{Decision, Refusal, Responder};

/// Executes a script and counts the responses of each rule.
#[derive(Debug)]
pub struct Player {
    script: Script,
    answered: Mutex<Vec<u64>>,
}

impl Player {
    /// Creates a player with zero counters.
    pub fn new(script: Script) -> Self {
        let answered = Mutex::new(vec![0; script.rules.len()]);
        Self { script, answered }
    }

    /// Returns the response if the script responds to every request equally. Requests need not be parsed then.
    pub(crate) fn constant(&self) -> Option<Decision> {
        let [rule] = self.script.rules.as_slice() else { return None };
        let free = rule.when.is_empty() && rule.times.is_none() && rule.fault.is_none();
        let answer = rule.answer.as_ref().filter(|answer| free && is_plain(answer))?;
        Some(Decision {
            answer: answer.clone(),
            rule: None,
            fault: None,
            pacing: rule.pacing.or(self.script.pacing),
            latency: rule.latency.or(self.script.latency),
        })
    }

    fn find(&self, request: &ChatRequest, number: u64) -> Option<(usize, &Rule)> {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        for ((index, rule), count) in self.script.rules.iter().enumerate().zip(answered.iter_mut()) {
            let left = rule.times.is_none_or(|times| *count < times);
            let round = rule.rounds.is_empty() || request.round() <= rule.rounds.len();
            if left && round && rule.when.holds(request, number) {
                *count += 1;
                return Some((index, rule));
            }
        }
        None
    }
}

/// Returns true if a response has no templates.
fn is_plain(answer: &Answer) -> bool {
    let templated = |call: &Call| call.arguments.to_string().contains("{{");
    !answer.text.contains("{{") && !answer.calls.iter().any(templated)
}

fn fill(answer: &Answer, scope: &Scope<'_>) -> Result<Answer, String> {
    let mut filled = answer.clone();
    filled.text = scope.fill_text(&answer.text)?;
    for call in &mut filled.calls {
        call.arguments = scope.fill_value(&call.arguments)?;
    }
    Ok(filled)
}

impl Responder for Player {
    fn decide(&self, request: &ChatRequest, number: u64) -> Result<Decision, Refusal> {
        let Some((index, rule)) = self.find(request, number) else {
            let last: String = request.messages.last().map_or("", |m| m.text.as_str()).chars().take(200).collect();
            let round = request.round();
            return Err(Refusal(format!("no rule of the script answers request {number} (round {round}): {last}")));
        };
        let name = rule.name.clone().unwrap_or_else(|| format!("rule {index}"));
        let round = rule.rounds.get(request.round().saturating_sub(1));
        let answer = match rule.answer.as_ref().or(round) {
            Some(answer) => fill(answer, &Scope { request, number })
                .map_err(|what| Refusal(format!("the script's {name}: {what}")))?,
            None => Answer::default(),
        };
        Ok(Decision {
            answer,
            rule: Some(name),
            fault: rule.fault.clone(),
            pacing: rule.pacing.or(self.script.pacing),
            latency: rule.latency.or(self.script.latency),
        })
    }

    fn reset(&self) {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner).fill(0);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ask(player: &Player, messages: Value, number: u64) -> Result<Decision, Refusal> {
        player.decide(&ChatRequest::parse(&json!({"model": "m", "messages": messages}), 0).unwrap(), number)
    }

    #[test]
    fn the_first_matching_rule_answers_up_to_its_limit() {
        let script = "
rules:
  - {when: {user: hi}, times: 1, answer: {text: once}}
  - {when: {user: {prefix: h}}, answer: {text: again}}
";
        let player = Player::new(Script::parse(script).unwrap());
        let hi = json!([{"role": "user", "content": "hi"}]);
        assert_eq!(ask(&player, hi.clone(), 1).unwrap().answer.text, "once");
        assert_eq!(ask(&player, hi.clone(), 2).unwrap().answer.text, "again");
        player.reset();
        assert_eq!(ask(&player, hi, 3).unwrap().answer.text, "once");
        let refusal = ask(&player, json!([{"role": "user", "content": "bye"}]), 4).unwrap_err();
        assert!(refusal.0.contains("no rule") && refusal.0.contains("bye"), "{refusal:?}");
    }

    #[test]
    fn rounds_answer_one_model_call_each() {
        let script = "
rules:
  - when: {user: go}
    rounds:
      - calls: [{name: list_tags}]
      - text: 'found {{last.list_tags.total}}'
";
        let player = Player::new(Script::parse(script).unwrap());
        let call = json!({"id": "a", "function": {"name": "list_tags", "arguments": "{}"}});
        let mut messages = vec![json!({"role": "user", "content": "go"})];
        assert_eq!(ask(&player, messages.clone().into(), 1).unwrap().answer.calls[0].name, "list_tags");
        messages.push(json!({"role": "assistant", "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": "a", "content": "{\"total\": 3}"}));
        assert_eq!(ask(&player, messages.clone().into(), 2).unwrap().answer.text, "found 3");
        messages.push(json!({"role": "assistant", "content": "found 3"}));
        assert!(ask(&player, messages.into(), 3).is_err());
    }
}
