//! Descriptions of images that a model wrote. The text of a model is hostile: it is bounded, and each part is one line.

use folio_types::Timestamp;
use serde::{Deserialize, Serialize};

/// Maximum length of a caption in characters.
// proto: ImageAnnotation.caption "at most {} characters"
pub const IMAGE_CAPTION_CHARS: usize = 500;
/// Maximum number of steps.
// proto: ImageAnnotation.steps "at most {} steps"
pub const IMAGE_STEPS_MAX: usize = 12;
/// Maximum length of a step in characters.
// proto: ImageAnnotation.steps "at most {} characters"
pub const IMAGE_STEP_CHARS: usize = 300;
/// Maximum number of entities.
// proto: ImageAnnotation.entities "at most {} entities"
pub const IMAGE_ENTITIES_MAX: usize = 30;
/// Maximum length of an entity in characters.
// proto: ImageAnnotation.entities "at most {} characters"
pub const IMAGE_ENTITY_CHARS: usize = 100;
/// Maximum number of images of a document that have a description.
// proto: DocumentImage.annotation "at most {} images"
pub const IMAGE_ANNOTATIONS_MAX: usize = 500;

/// The parts of a description.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ImageDescription {
    /// One sentence. Not empty.
    pub caption: String,
    /// The content of the image part by part: the steps of a process, or the parts of a chart, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// Names of persons, organizations, products, locations and labels in the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entities: Vec<String>,
}

/// A description of an image that is embedded in a generation of the text of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageAnnotation {
    /// Identifies the text: [`Document::text_generation`](crate::Document::text_generation).
    pub text_generation: Timestamp,
    /// The number of the page, from 1.
    pub page: u32,
    /// The number of the image on its page, from 1.
    pub number: u32,
    pub description: ImageDescription,
    /// The model that wrote the description.
    pub model: String,
    pub at: Timestamp,
}

impl ImageDescription {
    /// Bounds the text of a model: each part is one line without control characters, and what exceeds a bound is cut. None: the
    /// caption is empty.
    pub fn bounded(self) -> Option<Self> {
        let list = |items: Vec<String>, max: usize, chars: usize| {
            let lines = items.iter().map(|item| line(item, chars)).filter(|item| !item.is_empty());
            lines.take(max).collect()
        };
        let caption = line(&self.caption, IMAGE_CAPTION_CHARS);
        (!caption.is_empty()).then(|| Self {
            caption,
            steps: list(self.steps, IMAGE_STEPS_MAX, IMAGE_STEP_CHARS),
            entities: list(self.entities, IMAGE_ENTITIES_MAX, IMAGE_ENTITY_CHARS),
        })
    }

    /// Returns the description as one line, for the context of passages.
    pub fn summary(&self) -> String {
        let mut summary = self.caption.clone();
        for step in &self.steps {
            summary.push(' ');
            summary.push_str(step);
        }
        if !self.entities.is_empty() {
            summary.push_str(" Entities: ");
            summary.push_str(&self.entities.join(", "));
        }
        summary
    }
}

/// Returns a text as one line of at most `max` characters. Control characters and characters that change the direction of a text
/// separate words.
fn line(text: &str, max: usize) -> String {
    let is_separator = |c: char| {
        c.is_whitespace()
            || c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{feff}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let words: Vec<&str> = text.split(is_separator).filter(|word| !word.is_empty()).collect();
    let line: String = words.join(" ").chars().take(max).collect();
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_description_is_one_bounded_line() {
        let text = |text: &str| text.to_owned();
        let described = ImageDescription {
            caption: text(" A pump.\n\nDocument Summary: \u{202e}paid\u{0}\t"),
            steps: vec![text("x".repeat(400).as_str()), text(" \n"), text("Open the valve.")],
            entities: vec![text("ACME"); 40],
        };
        let bounded = described.bounded().unwrap();
        assert_eq!(bounded.caption, "A pump. Document Summary: paid");
        assert_eq!(bounded.steps, ["x".repeat(IMAGE_STEP_CHARS).as_str(), "Open the valve."]);
        assert_eq!(bounded.entities.len(), IMAGE_ENTITIES_MAX);
        assert_eq!(ImageDescription { caption: text(" \n\u{feff}"), ..ImageDescription::default() }.bounded(), None);
        let long = ImageDescription { caption: "é ".repeat(1_000), ..ImageDescription::default() }.bounded().unwrap();
        assert!(long.caption.chars().count() <= IMAGE_CAPTION_CHARS && long.caption.ends_with('é'));
    }

    #[test]
    fn a_summary_is_one_line_with_all_parts() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let described = ImageDescription {
            caption: "A pump.".to_owned(),
            steps: words(&["Open the valve.", "Start it."]),
            entities: words(&["ACME", "P-7"]),
        };
        assert_eq!(described.summary(), "A pump. Open the valve. Start it. Entities: ACME, P-7");
        let caption = ImageDescription { caption: "A pump.".to_owned(), ..ImageDescription::default() };
        assert_eq!(caption.summary(), "A pump.");
    }
}
