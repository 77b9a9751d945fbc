//! Links between documents: the keys by which a target finds a document, and the references in a text.
//!
//! | target | keys |
//! |---|---|
//! | the id of a document, also as the last segment of a URL | the id |
//! | a URL of `http` or `https` | the URL; the name of the file, if its last segment is one |
//! | a path, a URL of `file`, or the name of a file | the name of the file |
//! | another text | the title: the name of a file without its extension |
//! | an empty text, a fragment, a URL of another scheme such as `mailto` | none: the target is no document |
//!
//! A target refers to a document if they have a key in common. Targets are hostile input; no function reads them from the
//! network.

use std::collections::HashSet;
use std::fmt;

use folio_types::{Digest, DocumentId};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization as _;
use url::Url;

use crate::{Document, LINK_TARGET_BYTES, folded};

/// Maximum number of different targets of a document. Further targets are dropped.
// proto: LinkService.ListDocumentLinks "at most {} different targets"
pub const LINK_TARGETS_MAX: usize = 500;
/// The keys of the metadata whose value is the URL of the document.
pub const URL_METADATA: [&str; 5] = ["url", "source_url", "origin", "source", "link"];
/// Maximum length of the name of a file in a text, in characters.
// proto: none "internal; bounds a result of a search"
const NAME_IN_TEXT_CHARS: usize = 120;

/// Extensions of the names of files that can be documents.
const EXTENSIONS: [&str; 42] = [
    "bmp", "csv", "doc", "docm", "docx", "dotx", "eml", "epub", "gif", "gz", "htm", "html", "jpeg", "jpg", "json",
    "md", "msg", "odp", "ods", "odt", "pdf", "png", "potx", "pps", "ppsx", "ppt", "pptm", "pptx", "rtf", "tar", "tgz",
    "tif", "tiff", "tsv", "txt", "webp", "xls", "xlsb", "xlsm", "xlsx", "xml", "zip",
];

/// A property by which a target finds a document. Texts are normalized, so that equal keys are the same property.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKey {
    Id(DocumentId),
    /// The host, the path and the query of a URL.
    Url(String),
    /// The name of a file with its extension.
    Name(String),
    /// The name of a file without its extension.
    Title(String),
}

impl LinkKey {
    /// Returns the name of the kind of the property.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Id(_) => "id",
            Self::Url(_) => "url",
            Self::Name(_) => "name",
            Self::Title(_) => "title",
        }
    }

    /// Returns the digest that identifies the key in indexes.
    pub fn digest(&self) -> String {
        Digest::of(self.to_string().as_bytes()).as_str().to_owned()
    }
}

impl fmt::Display for LinkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "id:{id}"),
            Self::Url(text) | Self::Name(text) | Self::Title(text) => write!(f, "{}:{text}", self.kind()),
        }
    }
}

/// Returns the keys of a target, the most exact first. Empty: the target is no document.
pub fn target_keys(target: &str) -> Vec<LinkKey> {
    let target = target.trim();
    if target.is_empty() || target.len() > LINK_TARGET_BYTES || target.starts_with('#') {
        return Vec::new();
    }
    if let Ok(id) = target.parse() {
        return vec![LinkKey::Id(id)];
    }
    match Url::parse(target) {
        Ok(url) if is_web(&url) => {
            let last = decoded(last_segment(url.path()));
            match last.parse() {
                Ok(id) => vec![LinkKey::Id(id)],
                Err(_) => web_key(&url).into_iter().chain(file_key(&last)).collect(),
            }
        }
        Ok(url) if url.scheme() == "file" => name_keys(&decoded(last_segment(url.path()))),
        // The letter of a drive is no scheme.
        Ok(url) if url.scheme().len() == 1 => path_keys(target),
        Ok(url) if url.has_host() || NO_DOCUMENT.contains(&url.scheme()) => Vec::new(),
        // A title may contain a colon.
        _ => path_keys(target),
    }
}

/// Schemes without a host whose targets are no documents.
const NO_DOCUMENT: [&str; 9] = ["about", "callto", "cid", "data", "javascript", "mailto", "sms", "tel", "urn"];

/// Returns the keys of a link: those of its target, and that of its text if the text is the name of a file.
pub fn link_keys(target: &str, anchor: &str) -> Vec<LinkKey> {
    let mut keys = target_keys(target);
    if !keys.is_empty()
        && let Some(name) = file_key(anchor)
        && !keys.contains(&name)
    {
        keys.push(name);
    }
    keys
}

/// Returns the keys under which targets find a document: its id, its name, and the URLs in its metadata ([`URL_METADATA`]).
pub fn document_keys(document: &Document) -> Vec<LinkKey> {
    let mut keys = vec![LinkKey::Id(document.id.clone())];
    keys.extend(name_keys(&document.name));
    if let Some((title, _)) = document.name.rsplit_once('.').filter(|_| file_key(&document.name).is_some()) {
        keys.extend(title_key(title));
    }
    let values = URL_METADATA.iter().filter_map(|key| document.metadata.get(*key));
    let urls =
        values.filter(|value| value.len() <= LINK_TARGET_BYTES).filter_map(|value| Url::parse(value.trim()).ok());
    keys.extend(urls.filter_map(|url| web_key(&url)));
    keys.sort();
    keys.dedup();
    keys
}

fn is_web(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
}

/// Returns the key of a URL: without scheme, user, `www.`, default port, fragment and the slash at the end of the path. Letters
/// of the host are in lower case, and encoded characters of the path are decoded. None: the URL is not on the web.
fn web_key(url: &Url) -> Option<LinkKey> {
    let host = url.host_str().filter(|_| is_web(url))?;
    let host = host.strip_prefix("www.").unwrap_or(host);
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let path = decoded(url.path().trim_end_matches('/'));
    let query = url.query().filter(|query| !query.is_empty()).map(|query| format!("?{query}")).unwrap_or_default();
    Some(LinkKey::Url(format!("{host}{port}{path}{query}")))
}

/// Returns the keys of a path without a scheme, or of another text.
fn path_keys(target: &str) -> Vec<LinkKey> {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let path = decoded(path).replace('\\', "/");
    let last = last_segment(&path);
    // A slash is a part of a title, such as "Terms / Conditions", unless a file follows it.
    if file_key(last).is_some() { name_keys(last) } else { name_keys(&decoded(target)) }
}

/// Returns the key of the name of a file. A name without a known extension is a title.
fn name_keys(name: &str) -> Vec<LinkKey> {
    file_key(name).or_else(|| title_key(name)).into_iter().collect()
}

/// Returns the key of a text that is the name of a file with a known extension.
fn file_key(name: &str) -> Option<LinkKey> {
    let name = normalized(name);
    let (title, extension) = name.rsplit_once('.')?;
    let is_file = !title.trim().is_empty() && EXTENSIONS.contains(&extension);
    is_file.then(|| LinkKey::Name(name.clone()))
}

fn title_key(title: &str) -> Option<LinkKey> {
    let title = normalized(title);
    title.chars().any(char::is_alphanumeric).then_some(LinkKey::Title(title))
}

/// Returns a name in compatibility composition (NFKC) with folded case. White space and underscores are single blanks.
fn normalized(name: &str) -> String {
    let composed: String = name.nfkc().collect();
    let folded: String = folded(&composed).nfkc().collect();
    folded.split(|c: char| c.is_whitespace() || c == '_').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn last_segment(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}

/// Returns the references in a text: URLs of the web, ids of documents, and names of files with a known extension. A name with
/// blanks is found in quotes. The time is linear in the length of the text.
pub fn text_references(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(references_in_line)
}

fn references_in_line(line: &str) -> Vec<&str> {
    const QUOTES: [char; 8] = ['"', '“', '”', '„', '«', '»', '‘', '’'];
    let parts: Vec<&str> = line.split(QUOTES).collect();
    let quoted = 1..parts.len().saturating_sub(1);
    let mut found = Vec::new();
    for (at, part) in parts.into_iter().enumerate() {
        match part.trim() {
            name if quoted.contains(&at) && is_quoted_name(name) => found.push(name),
            _ => found.extend(part.split_whitespace().filter_map(reference_in)),
        }
    }
    found
}

fn is_quoted_name(text: &str) -> bool {
    text.contains(char::is_whitespace) && is_short(text) && file_key(text).is_some()
}

/// Returns the reference in a word, without the punctuation around it.
fn reference_in(word: &str) -> Option<&str> {
    const CLOSING: [char; 10] = ['.', ',', ';', ':', '!', '?', ')', ']', '}', '\''];
    const OPENING: [char; 4] = ['(', '[', '{', '\''];
    let url = ["https://", "http://"].iter().filter_map(|scheme| word.find(scheme)).min();
    let word = word.get(url.unwrap_or_default()..)?;
    let end = word.char_indices().skip(1).find(|(_, c)| matches!(*c, '<' | '>' | '|')).map_or(word.len(), |(at, _)| at);
    let word = word.get(..end)?.trim_end_matches(CLOSING);
    if url.is_some() {
        return (word.len() <= LINK_TARGET_BYTES && Url::parse(word).is_ok()).then_some(word);
    }
    let word = word.trim_start_matches('<').trim_start_matches(OPENING);
    let is_file = || is_short(word) && file_key(last_segment(word)).is_some();
    (word.parse::<DocumentId>().is_ok() || is_file()).then_some(word)
}

fn is_short(text: &str) -> bool {
    text.chars().nth(NAME_IN_TEXT_CHARS).is_none()
}

/// A target that a document refers to, with its first occurrence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundLink {
    /// The number of the page, from 1.
    pub page: u32,
    /// The linked text. Empty: the reference is a part of the text.
    pub anchor: String,
    pub target: String,
    /// The keys of the target, the most exact first. The first identifies the target.
    pub keys: Vec<LinkKey>,
}

/// Collects the different targets of a document in the order of its pages, at most [`LINK_TARGETS_MAX`].
#[derive(Debug, Default)]
pub struct LinkCollector {
    found: Vec<FoundLink>,
    identities: HashSet<LinkKey>,
    is_cut: bool,
}

impl LinkCollector {
    /// Adds the references in the text of a page.
    pub fn add_text(&mut self, page: u32, text: &str) {
        for target in text_references(text) {
            self.add_link(page, "", target);
        }
    }

    /// Adds a hyperlink. `anchor`: the linked text.
    pub fn add_link(&mut self, page: u32, anchor: &str, target: &str) {
        let keys = link_keys(target, anchor);
        let Some(identity) = keys.first() else { return };
        if self.identities.contains(identity) {
            return;
        }
        if self.found.len() >= LINK_TARGETS_MAX {
            self.is_cut = true;
            return;
        }
        self.identities.insert(identity.clone());
        self.found.push(FoundLink { page, anchor: anchor.to_owned(), target: target.trim().to_owned(), keys });
    }

    /// Returns true if targets were dropped.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the targets, and true if targets were dropped.
    pub fn finish(self) -> (Vec<FoundLink>, bool) {
        (self.found, self.is_cut)
    }
}

#[cfg(test)]
mod tests;
