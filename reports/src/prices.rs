//! Prices of tokens and of GPU hours: a file that the user writes, since none of them is ours to know.

use std::collections::BTreeMap;
use std::path::Path;

use paravt_suite::fields::{self, FieldsError};
use serde::Deserialize;

/// A file of prices.
///
/// ```
/// let prices: paravt_reports::Prices = toml::from_str(
///     "currency = \"EUR\"\n[models.\"Qwen/Qwen3-VL-8B-Instruct\"]\nprompt = 0.2\ncompletion = 0.8",
/// )?;
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Currency of all prices, as it is shown.
    pub currency: String,
    /// Price of one hour of one GPU.
    #[serde(default)]
    pub gpu_hour: Option<f64>,
    /// Prices of tokens by the model's name in the run.
    #[serde(default)]
    pub models: BTreeMap<String, TokenPrices>,
}

/// Prices of a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenPrices {
    /// Tokens of the conversations sent, visual tokens included.
    pub prompt: f64,
    /// Generated tokens.
    pub completion: f64,
}

/// What a run cost.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Price {
    pub currency: String,
    /// Tokens of every finished call, where the model has a price. A call that failed is not in it.
    pub tokens: Option<f64>,
    /// Hours of all GPUs, where the run says how many it had.
    pub gpus: Option<f64>,
}

impl Prices {
    /// Reads a file of prices.
    ///
    /// # Errors
    /// It cannot be read, a field is wrong, or a price is not a positive number.
    pub fn read(path: &Path) -> Result<Self, FieldsError> {
        let prices: Self = fields::read(path)?;
        let tokens = prices.models.iter().flat_map(|(model, price)| {
            [
                (format!("models.{model}.prompt"), price.prompt),
                (format!("models.{model}.completion"), price.completion),
            ]
        });
        let all = prices.gpu_hour.map(|price| ("gpu_hour".to_owned(), price)).into_iter().chain(tokens);
        match all.into_iter().find(|(_, price)| !(price.is_finite() && *price >= 0.0)) {
            Some((field, price)) => Err(FieldsError::Format {
                path: path.to_owned(),
                message: format!("{field}: expected a price of 0 or more, found {price}"),
                nearest: None,
            }),
            None => Ok(prices),
        }
    }

    /// What so many tokens of prompts and of replies cost, by model.
    pub fn of_tokens(&self, [prompt, completion]: [u64; 2]) -> impl Iterator<Item = (&str, f64)> {
        let cost = move |price: &TokenPrices| {
            (prompt as f64 * price.prompt + completion as f64 * price.completion) / 1e6
        };
        self.models.iter().map(move |(model, price)| (model.as_str(), cost(price)))
    }

    /// What a run cost that sent and generated these tokens and ran for these hours of its GPUs.
    pub(crate) fn price(&self, model: &str, [prompt, completion]: [u64; 2], gpu_hours: Option<f64>) -> Price {
        let tokens = self.of_tokens([prompt, completion]).find(|(priced, _)| *priced == model);
        Price {
            currency: self.currency.clone(),
            tokens: tokens.map(|(_, cost)| cost),
            gpus: self.gpu_hour.and_then(|price| Some(price * gpu_hours?)),
        }
    }
}
