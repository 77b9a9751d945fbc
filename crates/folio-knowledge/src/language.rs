//! Detection of the language of a text, without I/O.

use whatlang::{Info, Lang, detect};

/// Number of characters that a passage must exceed for its own language to be detected. Any other passage has the language
/// of its document.
const PASSAGE_CHARS_MIN: usize = 100;
/// Maximum number of bytes of a document from which its language is detected.
const DOCUMENT_BYTES: usize = 64 * 1024;

/// Detects the languages of the passages of a document.
#[derive(Debug)]
pub(crate) struct Languages {
    /// The code of the language of the document. None: no language was detected reliably.
    document: Option<String>,
}

impl Languages {
    /// Detects the language of a document by its first passages.
    pub(crate) fn of<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut sample = String::new();
        for text in texts {
            if sample.len() >= DOCUMENT_BYTES {
                break;
            }
            sample.push_str(text);
            sample.push('\n');
        }
        sample.truncate(sample.floor_char_boundary(DOCUMENT_BYTES));
        Self { document: reliable(&sample) }
    }

    /// Returns the code of the language of a passage, or that of its document if the passage is short or its own language is not
    /// detected reliably. None: unknown.
    pub(crate) fn of_passage(&self, text: &str) -> Option<String> {
        let own = if text.chars().nth(PASSAGE_CHARS_MIN).is_some() { reliable(text) } else { None };
        own.or_else(|| self.document.clone())
    }
}

fn reliable(text: &str) -> Option<String> {
    detect(text).filter(Info::is_reliable).map(|info| code(info.lang()).to_owned())
}

/// Returns the code of a language: ISO 639-1, or ISO 639-3 of a language without one.
fn code(language: Lang) -> &'static str {
    match language {
        Lang::Afr => "af",
        Lang::Amh => "am",
        Lang::Ara => "ar",
        Lang::Aze => "az",
        Lang::Bel => "be",
        Lang::Ben => "bn",
        Lang::Bul => "bg",
        Lang::Cat => "ca",
        Lang::Ces => "cs",
        Lang::Cmn => "zh",
        Lang::Cym => "cy",
        Lang::Dan => "da",
        Lang::Deu => "de",
        Lang::Ell => "el",
        Lang::Eng => "en",
        Lang::Epo => "eo",
        Lang::Est => "et",
        Lang::Fin => "fi",
        Lang::Fra => "fr",
        Lang::Guj => "gu",
        Lang::Heb => "he",
        Lang::Hin => "hi",
        Lang::Hrv => "hr",
        Lang::Hun => "hu",
        Lang::Hye => "hy",
        Lang::Ind => "id",
        Lang::Ita => "it",
        Lang::Jpn => "ja",
        Lang::Kat => "ka",
        Lang::Kor => "ko",
        Lang::Lit => "lt",
        Lang::Lav => "lv",
        Lang::Mkd => "mk",
        Lang::Nld => "nl",
        Lang::Nob => "nb",
        Lang::Pes => "fa",
        Lang::Pol => "pl",
        Lang::Por => "pt",
        Lang::Ron => "ro",
        Lang::Rus => "ru",
        Lang::Slk => "sk",
        Lang::Slv => "sl",
        Lang::Spa => "es",
        Lang::Srp => "sr",
        Lang::Swe => "sv",
        Lang::Tam => "ta",
        Lang::Tha => "th",
        Lang::Tgl => "tl",
        Lang::Tur => "tr",
        Lang::Ukr => "uk",
        Lang::Urd => "ur",
        Lang::Vie => "vi",
        other => other.code(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GERMAN: &str = "Die Rechnung ist innerhalb von vierzehn Tagen ohne Abzug auf das unten genannte Konto zu \
                          überweisen. Bitte geben Sie dabei stets die Nummer der Rechnung an.";
    const ENGLISH: &str = "The invoice is payable within fourteen days without any deduction to the account that is named \
                           below. Please always state the number of the invoice with your payment.";

    #[test]
    fn a_long_passage_has_its_own_language_and_a_short_one_that_of_the_document() {
        let languages = Languages::of([GERMAN, GERMAN].into_iter());
        assert_eq!(languages.of_passage("Total: 7").as_deref(), Some("de"));
        assert_eq!(languages.of_passage(ENGLISH).as_deref(), Some("en"));
        assert_eq!(Languages::of(["17 4 2024"].into_iter()).of_passage("17"), None);
        assert_eq!(Languages::of(std::iter::empty()).of_passage(""), None);
    }

    #[test]
    fn codes_have_the_form_that_the_index_accepts() {
        for language in Lang::all() {
            let code = code(*language);
            assert!((2..=3).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_lowercase()), "{code}");
        }
    }
}
