//! The choice of the model of a conversation, by its name or by a printed number.

use anstyle::Style;
use anyhow::{Result, bail};
use folio_proto::v1;

use super::super::card;
use super::super::view::Output;
use super::Session;
use crate::client::answer;
use crate::terminal::DIM;

/// Maximum number of models that are read: a page.
const MODELS_MAX: i32 = 1_000;
/// Maximum number of models that an error message lists.
pub(super) const MODELS_SHOWN: usize = 20;

impl Session {
    pub(super) async fn choose_model(&mut self, which: Option<String>) -> Result<()> {
        let request = v1::ListModelsRequest {
            r#use: v1::ModelUse::Chat.into(),
            page_size: MODELS_MAX,
            ..v1::ListModelsRequest::default()
        };
        let listed = answer(self.client.models().list_models(request)).await?;
        if let Some(which) = which {
            let known: Vec<&str> = listed.models.iter().map(|model| model.name.as_str()).collect();
            self.model = chosen_model(&which, &self.models, &known)?;
            let chosen = format!("(the following messages use {})", self.model);
            self.screen.line(DIM, &chosen);
            return Ok(());
        }
        let lines = (1..).zip(&listed.models).map(|(number, model)| {
            let chosen = if model.name == self.model { " (chosen)" } else { "" };
            let default = if model.name == listed.default_model { " (default)" } else { "" };
            Output::Line(Style::new(), format!("{number:>3}  {}{default}{chosen}", card::one_line(&model.name, 80)))
        });
        self.screen.show(lines.collect());
        self.models = listed.models.into_iter().map(|model| model.name).collect();
        Ok(())
    }
}

/// Returns the model that a name, or a number of the last printed list, selects.
pub(super) fn chosen_model(which: &str, printed: &[String], known: &[&str]) -> Result<String> {
    if known.contains(&which) {
        return Ok(which.to_owned());
    }
    let of_number = which.parse::<usize>().ok().and_then(|number| printed.get(number.checked_sub(1)?));
    if let Some(model) = of_number.filter(|model| known.contains(&model.as_str())) {
        return Ok(model.clone());
    }
    let more = if known.len() > MODELS_SHOWN { ", …" } else { "" };
    let shown: Vec<&str> = known.iter().take(MODELS_SHOWN).copied().collect();
    bail!("no model for chats is named {which:?}; the models are {}{more} (/model lists them)", shown.join(", "))
}
