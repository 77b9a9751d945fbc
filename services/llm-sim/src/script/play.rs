//! Execution of a script.

use super::template::Scope;
use super::{Rule, Script};
use crate::answer::{Answer, Call};
use crate::faults::Fault;
use crate::request::ChatRequest;

#[derive(Debug, Clone, Default)]
pub(crate) struct Decision {
    pub(crate) answer: Answer,
    /// Fault instead of the response or within it.
    pub(crate) fault: Option<Fault>,
}

impl Script {
    /// Returns the response if the script responds to every request equally. Requests need not be parsed then.
    pub(crate) fn constant(&self) -> Option<Decision> {
        let [rule] = self.rules.as_slice() else { return None };
        let is_unconditional = rule.when.is_empty() && rule.fault.is_none();
        let answer = rule.answer.as_ref().filter(|answer| is_unconditional && is_plain(answer))?;
        Some(Decision { answer: answer.clone(), fault: None })
    }

    /// Returns the response of the first rule that matches and whose templates all have a value. The error states that no
    /// rule matches, or the first template without a value if every matching rule has one.
    pub(crate) fn decide(&self, request: &ChatRequest) -> Result<Decision, String> {
        let (round, mut first_problem) = (request.round(), None);
        let has_answer = |rule: &Rule| rule.rounds.is_empty() || round <= rule.rounds.len();
        let matches = |rule: &Rule| has_answer(rule) && rule.when.matches(request);
        for (index, rule) in self.rules.iter().enumerate().filter(|(_, rule)| matches(rule)) {
            let answer = rule.answer.as_ref().or(rule.rounds.get(round.saturating_sub(1)));
            match answer.map_or_else(|| Ok(Answer::default()), |answer| fill(answer, &Scope(request))) {
                Ok(answer) => return Ok(Decision { answer, fault: rule.fault.clone() }),
                Err(problem) => {
                    first_problem.get_or_insert_with(|| format!("the script's rule {index}: {problem}"));
                }
            }
        }
        Err(first_problem.unwrap_or_else(|| {
            let last: String = request.messages.last().map_or("", |m| m.text.as_str()).chars().take(200).collect();
            format!("no rule of the script matches round {round}; last message: {last}")
        }))
    }
}

/// Returns true if a response has no templates.
fn is_plain(answer: &Answer) -> bool {
    let has_template = |call: &Call| call.arguments.to_string().contains("{{");
    !answer.text.contains("{{") && !answer.calls.iter().any(has_template)
}

fn fill(answer: &Answer, scope: &Scope<'_>) -> Result<Answer, String> {
    let mut filled = answer.clone();
    filled.text = scope.fill_text(&answer.text)?;
    for call in &mut filled.calls {
        call.arguments = scope.fill_value(&call.arguments)?;
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ask(script: &Script, messages: Value) -> Result<Decision, String> {
        script.decide(&ChatRequest::parse(&json!({"model": "m", "messages": messages}), 0).unwrap())
    }

    #[test]
    fn the_first_matching_rule_answers() {
        let script = "
rules:
  - {when: {user: hi}, answer: {text: first}}
  - {when: {user: {prefix: h}}, answer: {text: second}}
";
        let script = Script::parse(script).unwrap();
        let decide = |text: &str| ask(&script, json!([{"role": "user", "content": text}]));
        assert_eq!(decide("hi").unwrap().answer.text, "first");
        assert_eq!(decide("hello").unwrap().answer.text, "second");
        let refusal = decide("bye").unwrap_err();
        assert!(refusal.contains("no rule") && refusal.contains("bye"), "{refusal}");
    }

    #[test]
    fn a_rule_whose_template_has_no_value_is_skipped() {
        let script = "
rules:
  - {when: {user: {prefix: go}}, answer: {text: 'found {{last.list_tags.total}}'}}
  - {when: {user: go ahead}, answer: {text: nothing was listed}}
  - {when: {user: {prefix: go}}, answer: {text: '{{last.get_tag.name}}'}}
";
        let script = Script::parse(script).unwrap();
        let decide = |text: &str| ask(&script, json!([{"role": "user", "content": text}]));
        assert_eq!(decide("go ahead").unwrap().answer.text, "nothing was listed");
        let refusal = decide("go").unwrap_err();
        assert!(refusal.contains("rule 0") && refusal.contains("no result of list_tags"), "{refusal}");
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
        let script = Script::parse(script).unwrap();
        let call = json!({"id": "a", "function": {"name": "list_tags", "arguments": "{}"}});
        let mut messages = vec![json!({"role": "user", "content": "go"})];
        assert_eq!(ask(&script, messages.clone().into()).unwrap().answer.calls[0].name, "list_tags");
        messages.push(json!({"role": "assistant", "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": "a", "content": "{\"total\": 3}"}));
        assert_eq!(ask(&script, messages.clone().into()).unwrap().answer.text, "found 3");
        messages.push(json!({"role": "assistant", "content": "found 3"}));
        assert!(ask(&script, messages.into()).is_err());
    }
}
