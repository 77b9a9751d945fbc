//! Conditions of a script's rule.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::request::{ChatRequest, Role};

/// Conditions of a rule, all of which must hold.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Condition {
    /// The last message, regardless of its author.
    pub last_message: Option<TextMatch>,
    /// The last user message.
    pub user: Option<TextMatch>,
    /// The system message.
    pub system: Option<TextMatch>,
    /// The last message is this tool's result.
    pub tool_result: Option<ToolMatch>,
    /// Number of the model call since the last user message, from 1.
    pub round: Option<u64>,
    /// Number of the chat request at this endpoint, from 1.
    pub request: Option<u64>,
    /// The requested model.
    pub model: Option<TextMatch>,
    /// Presence or name of a requested JSON Schema.
    pub response_format: Option<FormatMatch>,
    /// Name of a tool that must be offered.
    pub offers: Option<String>,
}

/// Conditions on a text. A plain string is an exact match, ignoring surrounding whitespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextMatch {
    /// The text equals this one.
    pub exact: Option<String>,
    /// The text contains all of these.
    pub contains: Vec<String>,
    /// The text starts with this one.
    pub prefix: Option<String>,
}

/// Conditions on a tool result. A plain string is the tool's name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolMatch {
    /// Name of the tool. None: any tool.
    pub tool: Option<String>,
    /// The result contains all of these.
    pub contains: Vec<String>,
}

/// Conditions on the response format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FormatMatch {
    /// A format is requested (`true`) or not (`false`).
    Present(bool),
    /// A format with this name is requested.
    Named(String),
}

impl TextMatch {
    /// Creates an exact match.
    pub fn exact(text: impl Into<String>) -> Self {
        Self { exact: Some(text.into()), ..Self::default() }
    }

    /// Creates a match of texts that contain this one.
    pub fn contains(text: impl Into<String>) -> Self {
        Self { contains: vec![text.into()], ..Self::default() }
    }

    /// Returns true if the text matches.
    pub fn holds(&self, text: &str) -> bool {
        self.exact.as_deref().is_none_or(|exact| exact.trim() == text.trim())
            && self.prefix.as_deref().is_none_or(|prefix| text.starts_with(prefix))
            && self.contains.iter().all(|part| text.contains(part))
    }
}

impl Condition {
    /// Returns true if there are no conditions.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if the conditions hold for the endpoint's request number `number`.
    pub fn holds(&self, request: &ChatRequest, number: u64) -> bool {
        let matches = |wanted: &Option<TextMatch>, text: &str| wanted.as_ref().is_none_or(|wanted| wanted.holds(text));
        let last = request.messages.last();
        matches(&self.last_message, last.map_or("", |message| message.text.as_str()))
            && matches(&self.user, request.user())
            && matches(&self.model, &request.model)
            && self.system.as_ref().is_none_or(|wanted| wanted.holds(&request.system()))
            && self.round.is_none_or(|round| round == request.round() as u64)
            && self.request.is_none_or(|wanted| wanted == number)
            && self.offers.as_deref().is_none_or(|tool| request.offers(tool))
            && self.tool_result.as_ref().is_none_or(|wanted| {
                last.is_some_and(|message| message.role == Role::Tool)
                    && request.results().last().is_some_and(|result| {
                        wanted.tool.as_deref().is_none_or(|tool| tool == result.tool)
                            && wanted.contains.iter().all(|part| result.content.contains(part))
                    })
            })
            && match (&self.response_format, &request.response_format) {
                (None, _) => true,
                (Some(FormatMatch::Present(asked)), format) => *asked == format.is_some(),
                (Some(FormatMatch::Named(name)), format) => format.as_ref().is_some_and(|format| format.name == *name),
            }
    }
}

/// One text or a list of texts.
struct Texts(Vec<String>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextsVisitor;
        impl<'de> Visitor<'de> for TextsVisitor {
            type Value = Texts;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of texts")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Texts, E> {
                Ok(Texts(vec![text.to_owned()]))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Texts, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = items.next_element()? {
                    texts.push(text);
                }
                Ok(Texts(texts))
            }
        }
        deserializer.deserialize_any(TextsVisitor)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextFields {
    exact: Option<String>,
    contains: Option<Texts>,
    prefix: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolFields {
    tool: Option<String>,
    contains: Option<Texts>,
}

impl<'de> Deserialize<'de> for TextMatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = TextMatch;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or a map with exact, contains or prefix")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<TextMatch, E> {
                Ok(TextMatch::exact(text))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TextMatch, A::Error> {
                let TextFields { exact, contains, prefix } = Deserialize::deserialize(MapAccessDeserializer::new(map))?;
                Ok(TextMatch { exact, contains: contains.map_or(Vec::new(), |texts| texts.0), prefix })
            }
        }
        deserializer.deserialize_any(TextVisitor)
    }
}

impl<'de> Deserialize<'de> for ToolMatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ToolVisitor;
        impl<'de> Visitor<'de> for ToolVisitor {
            type Value = ToolMatch;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a tool's name, or a map with tool or contains")
            }
            fn visit_str<E: Error>(self, tool: &str) -> Result<ToolMatch, E> {
                Ok(ToolMatch { tool: Some(tool.to_owned()), contains: Vec::new() })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ToolMatch, A::Error> {
                let ToolFields { tool, contains } = Deserialize::deserialize(MapAccessDeserializer::new(map))?;
                Ok(ToolMatch { tool, contains: contains.map_or(Vec::new(), |texts| texts.0) })
            }
        }
        deserializer.deserialize_any(ToolVisitor)
    }
}

impl<'de> Deserialize<'de> for FormatMatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FormatVisitor;
        impl Visitor<'_> for FormatVisitor {
            type Value = FormatMatch;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false or a format's name")
            }
            fn visit_bool<E: Error>(self, asked: bool) -> Result<FormatMatch, E> {
                Ok(FormatMatch::Present(asked))
            }
            fn visit_str<E: Error>(self, name: &str) -> Result<FormatMatch, E> {
                Ok(FormatMatch::Named(name.to_owned()))
            }
        }
        deserializer.deserialize_any(FormatVisitor)
    }
}
