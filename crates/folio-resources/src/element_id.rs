//! Ids of the elements of a document's text. An id contains the document and the generation of the text. After the text is extracted
//! again, the id is refused, so that it never names another element.
//!
//! | element | id |
//! |---|---|
//! | section | `DOCUMENT.GENERATION.sNUMBER` |
//! | rest of a section | `DOCUMENT.GENERATION.sNUMBER@PAGE-BYTE` |
//! | image | `DOCUMENT.GENERATION.pPAGEiNUMBER` |

use std::fmt;
use std::str::FromStr;

use folio_types::{DocumentId, Error, Reason, Result, Timestamp};

use crate::Document;

/// A generation of the text of a document.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TextId {
    pub document: DocumentId,
    /// The time at which the text was stored, in microseconds.
    generation: u64,
}

impl TextId {
    /// Returns the current text of a document. None: the document has no text.
    pub fn of(document: &Document) -> Option<Self> {
        Some(Self { document: document.id.clone(), generation: micros(document.text_generation?) })
    }

    /// Returns the id of a section of the text. `number`: [`Section::number`](crate::Section::number).
    pub fn section(&self, number: u32) -> SectionId {
        SectionId { text: self.clone(), number, rest: None }
    }

    /// Checks that the text is the current one of its document.
    ///
    /// # Errors
    /// `VERSION_CONFLICT` if the text was extracted again.
    pub fn check_current(&self, document: &Document) -> Result<()> {
        if Self::of(document).as_ref() == Some(self) {
            return Ok(());
        }
        let message = "the text of the document was extracted again since the id was returned: read the structure of the document again";
        Err(Error::version_conflict(message))
    }
}

fn micros(at: Timestamp) -> u64 {
    at.as_microsecond().cast_unsigned()
}

/// The start of the rest of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SectionRest {
    /// The number of the page, from 1.
    pub page: u32,
    /// The position in the text of the page, in bytes.
    pub byte: u32,
}

/// A section of a text, or the rest of a section whose text was cut.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SectionId {
    pub text: TextId,
    /// The number of the section; see [`Section::number`](crate::Section::number).
    pub number: u32,
    /// None: the whole section.
    pub rest: Option<SectionRest>,
}

/// An image that is embedded in a document.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ImageId {
    pub text: TextId,
    /// The number of the page, from 1.
    pub page: u32,
    /// The number of the image on its page, from 1.
    pub number: u32,
}

impl fmt::Display for TextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:x}", self.document, self.generation)
    }
}

impl fmt::Display for SectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.s{}", self.text, self.number)?;
        self.rest.map_or(Ok(()), |SectionRest { page, byte }| write!(f, "@{page}-{byte}"))
    }
}

impl fmt::Display for ImageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.p{}i{}", self.text, self.page, self.number)
    }
}

impl FromStr for TextId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse_text(text).ok_or_else(|| malformed("a text id", text))
    }
}

impl FromStr for SectionId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parse = || {
            let (of, name) = text.rsplit_once('.')?;
            let name = name.strip_prefix('s')?;
            let (number, rest) = match name.split_once('@') {
                None => (name, None),
                Some((number, rest)) => {
                    let (page, byte) = rest.split_once('-')?;
                    (number, Some(SectionRest { page: decimal(page).filter(|page| *page > 0)?, byte: decimal(byte)? }))
                }
            };
            Some(Self { text: parse_text(of)?, number: decimal(number)?, rest })
        };
        parse().ok_or_else(|| malformed("a section id", text))
    }
}

impl FromStr for ImageId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parse = || {
            let (of, name) = text.rsplit_once('.')?;
            let (page, number) = name.strip_prefix('p')?.split_once('i')?;
            let [page, number] = [page, number].map(|part| decimal(part).filter(|part| *part > 0));
            Some(Self { text: parse_text(of)?, page: page?, number: number? })
        };
        parse().ok_or_else(|| malformed("an image id", text))
    }
}

fn parse_text(text: &str) -> Option<TextId> {
    let (document, generation) = text.split_once('.')?;
    let parsed = u64::from_str_radix(generation, 16).ok()?;
    (format!("{parsed:x}") == generation).then_some(())?;
    Some(TextId { document: document.parse().ok()?, generation: parsed })
}

/// Parses a decimal number without leading zeros, so that every id has one spelling.
fn decimal(text: &str) -> Option<u32> {
    let number = text.parse::<u32>().ok()?;
    (number.to_string() == text).then_some(number)
}

fn malformed(kind: &str, text: &str) -> Error {
    let excerpt: String = text.chars().take(80).collect();
    Error::invalid(Reason::InvalidId, format!("{excerpt:?} is not {kind}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::golden::{at, document};
    use crate::{Resource as _, TextState, text_record_of};

    fn ready(seconds: u64) -> Document {
        let at = at() + std::time::Duration::from_secs(seconds);
        document().with_text(&text_record_of(None, TextState::Ready, 1, false, at))
    }

    #[test]
    fn an_id_has_one_spelling() {
        let text = TextId::of(&ready(1)).unwrap();
        assert_eq!(TextId::of(&document()), None);
        let section = |rest| SectionId { text: text.clone(), number: 12, rest };
        for id in [section(None), section(Some(SectionRest { page: 3, byte: 0 }))] {
            assert_eq!(id.to_string().parse::<SectionId>(), Ok(id.clone()));
            assert!(id.to_string().parse::<ImageId>().is_err());
        }
        let image = ImageId { text: text.clone(), page: 3, number: 1 };
        assert_eq!(image.to_string().parse::<ImageId>(), Ok(image));
        for bad in ["", "x.s1", "s01", "s", "s1@", "s1@0-1", "s1@1-01", "s+1", "S1", "s99999999999"] {
            let error = format!("{text}.{bad}").parse::<SectionId>().unwrap_err();
            assert_eq!(error.reason, Reason::InvalidId, "{bad}");
        }
        for bad in ["p0i1", "p1i0", "p1", "i1", "p1i01"] {
            assert!(format!("{text}.{bad}").parse::<ImageId>().is_err(), "{bad}");
        }
        let upper = format!("{}.{}.s1", text.document, format!("{:x}", u64::MAX).to_uppercase());
        assert!(upper.parse::<SectionId>().is_err());
    }

    #[test]
    fn an_id_of_an_earlier_text_is_refused() {
        let text = TextId::of(&ready(1)).unwrap();
        text.check_current(&ready(1)).unwrap();
        for other in [ready(2), document()] {
            assert_eq!(text.check_current(&other).unwrap_err().reason, Reason::VersionConflict);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed(text in ".{0,60}") {
            let _ = text.parse::<SectionId>();
            let _ = text.parse::<ImageId>();
        }
    }
}
