//! What has a name, and how names are compared: the same in every adapter.

/// What has a name, a list and a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Document,
    Schema,
    Prompt,
    Tag,
    Extraction,
    Thread,
}

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Schema => "schema",
            Self::Prompt => "prompt",
            Self::Tag => "tag",
            Self::Extraction => "extraction",
            Self::Thread => "thread",
        }
    }
}

/// A name as names are compared and searched: without regard to case (nor to the two forms of the small sigma).
pub(crate) fn folded(name: &str) -> String {
    name.to_lowercase().replace('ς', "σ")
}

/// A piece of a name, without regard to case.
#[derive(Debug, Clone)]
pub(crate) struct Search(Option<String>);

impl Search {
    pub(crate) fn new(piece: Option<&String>) -> Self {
        Self(piece.filter(|piece| !piece.is_empty()).map(|piece| folded(piece)))
    }

    /// The piece as names are compared.
    pub(crate) fn piece(&self) -> Option<&str> {
        self.0.as_deref()
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn finds(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|piece| folded(name).contains(piece))
    }
}
