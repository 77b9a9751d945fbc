//! References from the arguments of a call to the results of earlier calls of its round, as a pure function of the round.
//!
//! A reference is the whole text of an argument that expects an id: `$TOOL.FIELD`, or `$TOOL[N].FIELD` for the N-th call of
//! the tool in the round, from 1. Only arguments whose names end with `_id`, `_revid` or `_ids` (each item) expect ids. In
//! any other argument, a `$` is literal.
//!
//! The round and the decisions contain the reference; the intent contains the arguments with the ids.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use crate::journal::CallStatus;
use crate::{CallRecord, RoundRecord};

/// A reference to a field in the result of an earlier call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference<'a> {
    /// Name of the tool.
    pub tool: &'a str,
    /// Position among the calls of the tool in the round, from 1.
    pub nth: usize,
    /// Member of the result.
    pub field: &'a str,
}

impl<'a> Reference<'a> {
    /// Parses the text of an argument. None: the text is no reference.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (call, field) = text.strip_prefix('$')?.split_once('.')?;
        let (tool, nth) = match call.strip_suffix(']').map(|call| call.split_once('[')) {
            None => (call, 1),
            Some(numbered) => {
                let (tool, number) = numbered?;
                (tool, position(number)?)
            }
        };
        (is_name(tool) && is_name(field)).then_some(Self { tool, nth, field })
    }

    /// Returns the index, from 0, of the call in a round whose calls have these names. None: there is no such call.
    pub fn target<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Option<usize> {
        let mut named = names.into_iter().enumerate().filter(|(_, name)| *name == self.tool);
        named.nth(self.nth.checked_sub(1)?).map(|(at, _)| at)
    }

    /// Returns the id in the recorded result of the call. None: the call has no result, or the result has no such text.
    pub fn value(&self, call: &CallRecord) -> Option<String> {
        let result = call.result.as_ref().filter(|result| result.status == CallStatus::Ok)?;
        let content: Value = serde_json::from_str(&result.content).ok()?;
        content.get(self.field)?.as_str().map(str::to_owned)
    }
}

impl fmt::Display for Reference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tool, nth, field } = self;
        match nth {
            1 => write!(f, "${tool}.{field}"),
            nth => write!(f, "${tool}[{nth}].{field}"),
        }
    }
}

/// Parses a decimal number from 1 without a sign and without leading zeros.
fn position(text: &str) -> Option<usize> {
    text.parse().ok().filter(|_| !text.starts_with(['+', '0']))
}

/// Returns true for the names of tools and of the members of their results: lowercase letters, digits and underscores
/// after a letter.
fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    text.starts_with(|first: char| first.is_ascii_lowercase()) && text.bytes().all(is_part)
}

fn is_id(argument: &str) -> bool {
    argument.ends_with("_id") || argument.ends_with("_revid")
}

fn is_id_list(argument: &str) -> bool {
    argument.ends_with("_ids")
}

/// Returns the texts in the arguments that expect ids, each with the name of its argument.
pub fn id_texts(arguments: &Value) -> impl Iterator<Item = (&str, &str)> {
    arguments.as_object().into_iter().flatten().flat_map(|(name, value)| {
        let items: &[Value] = match value {
            Value::Array(items) if is_id_list(name) => items,
            value if is_id(name) => std::slice::from_ref(value),
            _ => &[],
        };
        items.iter().filter_map(move |item| Some((name.as_str(), item.as_str()?)))
    })
}

/// Returns the references in the arguments of a call.
pub fn references(arguments: &Value) -> impl Iterator<Item = Reference<'_>> {
    id_texts(arguments).filter_map(|(_, text)| Reference::parse(text))
}

/// Returns the arguments with other texts for their references. `text` receives the name of the argument and the
/// reference; None: the reference stays.
pub fn replace_references(arguments: &Value, text: impl Fn(&str, &Reference<'_>) -> Option<String>) -> Value {
    let mut replaced = arguments.clone();
    for (name, value) in replaced.as_object_mut().into_iter().flatten() {
        let items: &mut [Value] = match value {
            Value::Array(items) if is_id_list(name) => items,
            value if is_id(name) => std::slice::from_mut(value),
            _ => &mut [],
        };
        for item in items {
            let new = item.as_str().and_then(Reference::parse).and_then(|reference| text(name, &reference));
            if let Some(new) = new {
                *item = Value::String(new);
            }
        }
    }
    replaced
}

/// State of the references in the arguments of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Resolution<'a> {
    /// The arguments with which the call runs. Owned: references were replaced by ids, and no intent is recorded.
    Ready(Cow<'a, Value>),
    /// A call to which the arguments refer has no result yet.
    Waiting,
    /// The reference has no id, so the call cannot run. The status is that of the earlier call; `Ok`: its result lacks
    /// the field. None: the round has no such call before this one.
    Failed(Reference<'a>, Option<CallStatus>),
}

impl RoundRecord {
    /// Returns the earlier call to which a reference in the arguments of `from` points.
    pub fn referred(&self, from: &CallRecord, reference: &Reference<'_>) -> Option<&CallRecord> {
        let earlier = self.calls.iter().take_while(|call| call.call.index < from.call.index);
        self.calls.get(reference.target(earlier.map(|call| call.call.name.as_str()))?)
    }

    /// Resolves the references of a call from the recorded results of the round. A recorded intent takes precedence.
    pub fn resolve<'a>(&self, call: &'a CallRecord) -> Resolution<'a> {
        if let Some(intent) = &call.intent {
            return Resolution::Ready(Cow::Borrowed(intent.arguments.as_ref().unwrap_or(call.arguments())));
        }
        let (mut has_references, mut is_waiting) = (false, false);
        for reference in references(call.arguments()) {
            has_references = true;
            let Some(earlier) = self.referred(call, &reference) else { return Resolution::Failed(reference, None) };
            match earlier.status() {
                None => is_waiting = true,
                Some(CallStatus::Ok) if reference.value(earlier).is_some() => {}
                Some(status) => return Resolution::Failed(reference, Some(status)),
            }
        }
        if is_waiting {
            return Resolution::Waiting;
        }
        if !has_references {
            return Resolution::Ready(Cow::Borrowed(call.arguments()));
        }
        let id = |_: &str, reference: &Reference<'_>| reference.value(self.referred(call, reference)?);
        Resolution::Ready(Cow::Owned(replace_references(call.arguments(), id)))
    }
}

#[cfg(test)]
mod tests;
