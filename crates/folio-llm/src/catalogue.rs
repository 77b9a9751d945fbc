//! The models that an organization may call: lists, default models, fallbacks.

use folio_types::models::ModelKind;
use folio_types::{Error, Reason, Result};

use crate::model::ModelInfo;

/// Maximum length of a name in an error, in characters.
const SHOWN_CHARS: usize = 80;
/// Maximum length of the list of allowed names in an error, in bytes. The error is sent in a header.
const LISTED_BYTES: usize = 2_000;

/// Snapshot of the models of an organization.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalogue {
    /// Chat models.
    models: Vec<ModelInfo>,
    /// Embedding and rerank models, sorted by name.
    retrieval: Vec<ModelInfo>,
    default_model: String,
    fallbacks: Vec<String>,
    embedding_model: String,
    rerank_model: String,
    image_model: String,
}

impl Catalogue {
    /// Creates a catalogue from the enabled models in any order, the name of the default model, and the names of the
    /// fallbacks, best first. It has no default embedding and rerank model.
    pub fn new(models: Vec<ModelInfo>, default_model: String, fallbacks: Vec<String>) -> Self {
        let (mut models, mut retrieval): (Vec<_>, Vec<_>) =
            models.into_iter().partition(|model| model.options.kind == ModelKind::Chat);
        models.sort_by(|a, b| a.name.cmp(&b.name));
        models.sort_by_key(|model| model.name != default_model);
        retrieval.sort_by(|a, b| a.name.cmp(&b.name));
        Self { models, retrieval, default_model, fallbacks, ..Self::default() }
    }

    /// Sets the default embedding model and the rerank model. Empty: none.
    #[must_use]
    pub fn with_retrieval_models(self, embedding_model: String, rerank_model: String) -> Self {
        Self { embedding_model, rerank_model, ..self }
    }

    /// Sets the model that describes images. Empty: none.
    #[must_use]
    pub fn with_image_model(self, image_model: String) -> Self {
        Self { image_model, ..self }
    }

    /// Returns every enabled chat model: the default first, the others sorted by name.
    pub fn list(&self) -> &[ModelInfo] {
        &self.models
    }

    /// Returns every enabled embedding and rerank model, sorted by name.
    pub fn retrieval_models(&self) -> &[ModelInfo] {
        &self.retrieval
    }

    pub fn default_model(&self) -> &str {
        &self.default_model
    }

    /// Returns a chat model.
    pub fn get(&self, name: &str) -> Option<&ModelInfo> {
        self.models.iter().find(|model| model.name == name)
    }

    /// Returns the embedding model that the organization has chosen. None: searches are lexical only.
    pub fn embedding_model(&self) -> Option<&ModelInfo> {
        self.retrieval_model(&self.embedding_model, ModelKind::Embedding)
    }

    /// Returns the rerank model that the organization has chosen. None: results are not reranked.
    pub fn rerank_model(&self) -> Option<&ModelInfo> {
        self.retrieval_model(&self.rerank_model, ModelKind::Rerank)
    }

    /// Returns the model for embeddings (None: the chosen one). The error `MODEL_NOT_AVAILABLE` lists the embedding models.
    pub fn for_embeddings(&self, name: Option<&str>) -> Result<&ModelInfo> {
        self.require_retrieval(name.unwrap_or(&self.embedding_model), "embeddings", ModelKind::Embedding)
    }

    /// Returns the model for reranking (None: the chosen one). The error `MODEL_NOT_AVAILABLE` lists the rerank models.
    pub fn for_reranking(&self, name: Option<&str>) -> Result<&ModelInfo> {
        self.require_retrieval(name.unwrap_or(&self.rerank_model), "reranking", ModelKind::Rerank)
    }

    /// Returns the model that describes the organization's images. None: no image is described.
    pub fn image_model(&self) -> Option<&ModelInfo> {
        self.get(&self.image_model).filter(|model| model.options.vision)
    }

    /// Returns the model for descriptions of images (None: the chosen one). The error `MODEL_NOT_AVAILABLE` lists the chat models
    /// with vision.
    pub fn for_images(&self, name: Option<&str>) -> Result<&ModelInfo> {
        self.require(Some(name.unwrap_or(&self.image_model)), "descriptions of images", |model| model.options.vision)
    }

    /// Fails unless a model accepts images in messages. The error `MODEL_NOT_AVAILABLE` lists the models for chats that do.
    pub fn require_vision(&self, model: &ModelInfo) -> Result<()> {
        if model.options.vision {
            return Ok(());
        }
        let able = self.models.iter().filter(|model| model.options.chat && model.options.vision);
        Err(not_available(&model.name, "messages with images", able))
    }

    /// Returns the model for a chat (None: the default). The error `MODEL_NOT_AVAILABLE` lists the models that chats
    /// may use.
    pub fn for_chat(&self, name: Option<&str>) -> Result<&ModelInfo> {
        self.require(name, "chats", |model| model.options.chat)
    }

    /// Returns the model for a prompt (None: the default). The error `MODEL_NOT_AVAILABLE` lists the models that
    /// prompts may use.
    pub fn for_prompts(&self, name: Option<&str>) -> Result<&ModelInfo> {
        self.require(name, "prompts", |model| model.options.prompts)
    }

    /// Returns the models to try for a call to `model`: itself, then its fallbacks for which `can` returns true.
    pub fn candidates(&self, model: &ModelInfo, can: impl Fn(&ModelInfo) -> bool) -> Vec<ModelInfo> {
        let mut candidates = vec![model.clone()];
        for name in &self.fallbacks {
            let Some(other) = self.get(name) else { continue };
            if can(other) && candidates.iter().all(|listed| listed.name != other.name) {
                candidates.push(other.clone());
            }
        }
        candidates
    }

    fn require(&self, name: Option<&str>, purpose: &str, fits: impl Fn(&ModelInfo) -> bool) -> Result<&ModelInfo> {
        let name = name.unwrap_or(&self.default_model);
        let found = self.get(name).filter(|model| fits(model));
        found.ok_or_else(|| not_available(name, purpose, self.models.iter().filter(|model| fits(model))))
    }

    fn retrieval_model(&self, name: &str, kind: ModelKind) -> Option<&ModelInfo> {
        self.retrieval.iter().find(|model| model.name == name && model.options.kind == kind)
    }

    fn require_retrieval(&self, name: &str, purpose: &str, kind: ModelKind) -> Result<&ModelInfo> {
        let allowed = || self.retrieval.iter().filter(|model| model.options.kind == kind);
        self.retrieval_model(name, kind).ok_or_else(|| not_available(name, purpose, allowed()))
    }
}

/// Returns the error `MODEL_NOT_AVAILABLE` with the names of the allowed models.
fn not_available<'a>(name: &str, purpose: &str, allowed: impl Iterator<Item = &'a ModelInfo>) -> Error {
    let shown: String = name.chars().take(SHOWN_CHARS).collect();
    let allowed = listed(allowed.map(|model| model.name.as_str()));
    let message = format!(
        "model {shown:?} is not available for {purpose}; allowed: {}",
        if allowed.is_empty() { "none" } else { &allowed }
    );
    Error::precondition(Reason::ModelNotAvailable, message).detail("allowed", allowed)
}

/// Joins names, as many as fit into [`LISTED_BYTES`].
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut listed = String::new();
    for name in names {
        let more = if listed.is_empty() { "" } else { ", " };
        if listed.len() + more.len() + name.len() > LISTED_BYTES {
            listed.push_str(", …");
            break;
        }
        listed.push_str(more);
        listed.push_str(name);
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ModelOptions;

    fn catalogue() -> Catalogue {
        let model = |name: &str, chat, prompts| ModelInfo {
            name: name.to_owned(),
            options: ModelOptions { chat, prompts, ..ModelOptions::default() },
            ..ModelInfo::default()
        };
        let models = vec![model("talks", true, false), model("both", true, true), model("reads", false, true)];
        Catalogue::new(models, "reads".to_owned(), ["both", "gone", "talks", "both"].map(str::to_owned).to_vec())
    }

    #[test]
    fn a_model_that_is_not_offered_is_refused_with_the_list() {
        let catalogue = catalogue();
        assert_eq!(catalogue.list()[0].name, "reads", "the default first");
        assert_eq!(catalogue.for_chat(Some("both")).unwrap().name, "both");
        assert_eq!(catalogue.for_prompts(None).unwrap().name, "reads");
        for name in [Some("other"), Some("reads"), None] {
            let error = catalogue.for_chat(name).unwrap_err();
            assert_eq!(error.reason, Reason::ModelNotAvailable);
            assert_eq!(error.details["allowed"], "both, talks");
            assert!(error.message.ends_with("allowed: both, talks"), "{error}");
        }
        let none = Catalogue::default().for_chat(None).unwrap_err();
        assert!(none.message.ends_with("allowed: none"), "{none}");
    }

    #[test]
    fn the_list_of_a_refusal_is_bounded() {
        let model = |n| ModelInfo { name: format!("model-{n:0100}"), ..ModelInfo::default() };
        let catalogue = Catalogue::new((0..100).map(model).collect(), String::new(), Vec::new());
        let error = catalogue.for_chat(Some(&"x".repeat(10_000))).unwrap_err();
        assert!(error.message.len() < 2_300 && error.message.ends_with('…'), "{}", error.message.len());
    }

    #[test]
    fn fallbacks_are_available_and_have_the_required_capabilities() {
        let catalogue = catalogue();
        let names = |models: Vec<ModelInfo>| models.into_iter().map(|model| model.name).collect::<Vec<_>>();
        let reads = catalogue.get("reads").unwrap();
        assert_eq!(names(catalogue.candidates(reads, |_| true)), ["reads", "both", "talks"]);
        assert_eq!(names(catalogue.candidates(reads, |model| model.options.prompts)), ["reads", "both"]);
        let both = catalogue.get("both").unwrap();
        assert_eq!(names(catalogue.candidates(both, |_| true)), ["both", "talks"]);
    }

    #[test]
    fn only_chat_models_with_vision_receive_images() {
        let model = |name: &str, kind, vision, chat| ModelInfo {
            name: name.to_owned(),
            options: ModelOptions { kind, vision, chat, ..ModelOptions::default() },
            ..ModelInfo::default()
        };
        let models = vec![
            model("sees", ModelKind::Chat, true, true),
            model("describes", ModelKind::Chat, true, false),
            model("blind", ModelKind::Chat, false, true),
            model("vectors", ModelKind::Embedding, true, true),
        ];
        let catalogue = Catalogue::new(models, "blind".to_owned(), Vec::new());
        assert!(catalogue.image_model().is_none(), "no model was chosen");
        assert_eq!(catalogue.for_images(None).unwrap_err().details["allowed"], "describes, sees");
        let catalogue = catalogue.with_image_model("describes".to_owned());
        assert_eq!(catalogue.image_model().unwrap().name, "describes");
        assert_eq!(catalogue.for_images(None).unwrap().name, "describes");
        for name in ["blind", "vectors", "other"] {
            assert_eq!(catalogue.for_images(Some(name)).unwrap_err().reason, Reason::ModelNotAvailable, "{name}");
        }
        assert!(catalogue.clone().with_image_model("blind".to_owned()).image_model().is_none());
        assert!(catalogue.require_vision(catalogue.get("sees").unwrap()).is_ok());
        let refused = catalogue.require_vision(catalogue.get("blind").unwrap()).unwrap_err();
        assert_eq!(refused.details["allowed"], "sees");
    }

    #[test]
    fn models_for_retrieval_are_separate_from_chat_models() {
        let model = |name: &str, kind| ModelInfo {
            name: name.to_owned(),
            options: ModelOptions { kind, ..ModelOptions::default() },
            ..ModelInfo::default()
        };
        let models = vec![
            model("vectors", ModelKind::Embedding),
            model("talks", ModelKind::Chat),
            model("rates", ModelKind::Rerank),
            model("short-vectors", ModelKind::Embedding),
        ];
        let catalogue = Catalogue::new(models, "talks".to_owned(), vec!["vectors".to_owned()]);
        assert_eq!((catalogue.list().len(), catalogue.retrieval_models().len()), (1, 3));
        assert!(catalogue.get("vectors").is_none(), "an embedding model answers no messages");
        assert!(catalogue.embedding_model().is_none() && catalogue.rerank_model().is_none());
        let refused = catalogue.for_embeddings(None).unwrap_err();
        assert_eq!(refused.details["allowed"], "short-vectors, vectors");
        let catalogue = catalogue.with_retrieval_models("vectors".to_owned(), "rates".to_owned());
        assert_eq!(catalogue.for_embeddings(None).unwrap().name, "vectors");
        assert_eq!(catalogue.for_embeddings(Some("short-vectors")).unwrap().name, "short-vectors");
        assert_eq!(catalogue.for_reranking(None).unwrap().name, "rates");
        for name in ["rates", "talks", "other"] {
            let refused = catalogue.for_embeddings(Some(name)).unwrap_err();
            assert_eq!(refused.reason, Reason::ModelNotAvailable, "{name}");
        }
        assert_eq!(
            catalogue.candidates(catalogue.get("talks").unwrap(), |_| true).len(),
            1,
            "no fallback of another kind"
        );
        let wrong = catalogue.with_retrieval_models("rates".to_owned(), "vectors".to_owned());
        assert!(wrong.embedding_model().is_none() && wrong.rerank_model().is_none());
    }
}
