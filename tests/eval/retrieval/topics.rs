//! The topics of the generated documents: facts, each with two questions, and the texts that documents of a kind have in common.

use serde::Deserialize;

/// The topics of a language. The files in the folder `topics` contain them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Topics {
    /// Code of the language.
    pub(super) code: String,
    #[serde(rename = "kind")]
    pub(super) kinds: Vec<DocumentKind>,
    #[serde(rename = "document")]
    pub(super) documents: Vec<Topic>,
}

/// The texts of all documents of a kind, such as contracts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DocumentKind {
    pub(super) name: String,
    pub(super) general: String,
    pub(super) closing: String,
    pub(super) code_title: String,
    /// A sentence with `{code}` and `{meaning}`.
    pub(super) code_line: String,
    pub(super) meanings: Vec<String>,
}

/// The content of a document.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Topic {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) title: String,
    pub(super) facts: Vec<Fact>,
}

/// A fact with two questions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fact {
    /// The title of its section.
    pub(super) title: String,
    /// The sentence. `{n}` is replaced by a number of the set.
    pub(super) sentence: String,
    /// A question with words of the sentence.
    pub(super) words: String,
    /// A question without words of the sentence.
    pub(super) paraphrase: String,
}

const FILES: [&str; 3] =
    [include_str!("topics/en.toml"), include_str!("topics/de.toml"), include_str!("topics/fr.toml")];

impl Topics {
    /// Returns the topics of each language.
    ///
    /// # Panics
    /// A file of the folder is malformed.
    pub(super) fn all() -> Vec<Self> {
        FILES.iter().map(|file| toml::from_str(file).expect("a file of topics is valid")).collect()
    }

    /// Returns the texts of a kind.
    ///
    /// # Panics
    /// The file has no such kind.
    pub(super) fn kind(&self, name: &str) -> &DocumentKind {
        let kind = self.kinds.iter().find(|kind| kind.name == name);
        kind.unwrap_or_else(|| panic!("the topics in {} have no kind {name:?}", self.code))
    }
}
