//! When a rule answers.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::request::{ChatRequest, Role};

/// What must hold for a rule to answer. All that is given must.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Condition {
    /// The last message, whoever wrote it.
    pub last_message: Option<TextMatch>,
    /// The last user message.
    pub user: Option<TextMatch>,
    /// The system message.
    pub system: Option<TextMatch>,
    /// The last message is this tool's result.
    pub tool_result: Option<ToolMatch>,
    /// Which model call since the last user message it is, from 1.
    pub round: Option<u64>,
    /// Which chat request to this endpoint it is, from 1.
    pub request: Option<u64>,
    /// The model that is asked for.
    pub model: Option<TextMatch>,
    /// Whether a JSON schema is asked for, and which.
    pub response_format: Option<FormatMatch>,
    /// A tool that must be on offer.
    pub offers: Option<String>,
}

/// A text that must match. A plain string is an exact match (surrounding whitespace aside).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextMatch {
    /// Equals.
    pub exact: Option<String>,
    /// Holds all of these.
    pub contains: Vec<String>,
    /// Begins with.
    pub prefix: Option<String>,
}

/// A tool's result that must match. A plain string is the tool's name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolMatch {
    /// The tool; where absent any.
    pub tool: Option<String>,
    /// What the result must hold.
    pub contains: Vec<String>,
}

/// What must hold of the response format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FormatMatch {
    /// There is one (`true`) or none (`false`).
    Asked(bool),
    /// There is one of that name.
    Named(String),
}

impl TextMatch {
    /// Matches this text only.
    pub fn exact(text: impl Into<String>) -> Self {
        Self { exact: Some(text.into()), ..Self::default() }
    }

    /// Matches what holds this text.
    pub fn contains(text: impl Into<String>) -> Self {
        Self { contains: vec![text.into()], ..Self::default() }
    }

    /// Whether the text matches.
    pub fn holds(&self, text: &str) -> bool {
        self.exact.as_deref().is_none_or(|exact| exact.trim() == text.trim())
            && self.prefix.as_deref().is_none_or(|prefix| text.starts_with(prefix))
            && self.contains.iter().all(|part| text.contains(part))
    }
}

impl Condition {
    /// Whether nothing is asked at all.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it holds for the request, the `number`th of the endpoint.
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
                (Some(FormatMatch::Asked(asked)), format) => *asked == format.is_some(),
                (Some(FormatMatch::Named(name)), format) => format.as_ref().is_some_and(|format| format.name == *name),
            }
    }
}

/// One text or several.
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
                Ok(FormatMatch::Asked(asked))
            }
            fn visit_str<E: Error>(self, name: &str) -> Result<FormatMatch, E> {
                Ok(FormatMatch::Named(name.to_owned()))
            }
        }
        deserializer.deserialize_any(FormatVisitor)
    }
}
