//! Conditions of a script's rule.

use serde::Deserialize;

use crate::request::ChatRequest;

/// Conditions of a rule, all of which must hold.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Condition {
    /// The last user message.
    pub user: Option<TextMatch>,
    pub system: Option<TextMatch>,
    /// Number of the model call since the last user message, from 1.
    pub round: Option<u64>,
    /// Number of images of the last user message.
    pub images: Option<usize>,
    /// Presence or name of a requested JSON Schema.
    pub response_format: Option<FormatMatch>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected a text, or a map with contains or prefix")]
pub enum TextMatch {
    /// The text equals this one, ignoring surrounding whitespace.
    Exact(String),
    /// The text contains all of these.
    Contains(Contains),
    /// The text starts with this one.
    Prefix(Prefix),
}

/// One text or several.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contains {
    contains: Texts,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    All(Vec<String>),
}

/// The beginning of a text.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prefix {
    prefix: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected true, false or a format's name")]
pub enum FormatMatch {
    /// A format is requested (`true`) or not (`false`).
    Present(bool),
    /// A format with this name is requested.
    Named(String),
}

impl TextMatch {
    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exact(exact) => exact.trim() == text.trim(),
            Self::Prefix(Prefix { prefix }) => text.starts_with(prefix),
            Self::Contains(Contains { contains: Texts::One(part) }) => text.contains(part),
            Self::Contains(Contains { contains: Texts::All(parts) }) => parts.iter().all(|part| text.contains(part)),
        }
    }
}

impl Condition {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn matches(&self, request: &ChatRequest) -> bool {
        self.user.as_ref().is_none_or(|text| text.matches(request.user()))
            && self.system.as_ref().is_none_or(|text| text.matches(&request.system()))
            && self.round.is_none_or(|round| round == request.round() as u64)
            && self.images.is_none_or(|images| images == request.images().len())
            && match (&self.response_format, &request.response_format) {
                (None, _) => true,
                (Some(FormatMatch::Present(present)), format) => *present == format.is_some(),
                (Some(FormatMatch::Named(name)), format) => format.as_ref().is_some_and(|format| format.name == *name),
            }
    }
}
