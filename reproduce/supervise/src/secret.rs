//! Variables that hold secrets, recognised by their names: masked in plans, in records and in the output of processes.

use std::collections::BTreeMap;

/// What stands for a secret.
const MASK: &str = "…";
/// Words in the name of a variable that holds one.
const SECRET: [&str; 7] = ["TOKEN", "KEY", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDENTIALS"];
/// Last words of names that only say where one is.
const PLACE: [&str; 3] = ["PATH", "FILE", "DIR"];
/// Bytes of a secret at least: a shorter value would be masked everywhere.
const SHORTEST: usize = 8;

/// Whether a variable of this name holds a secret.
fn is_secret(name: &str) -> bool {
    let words: Vec<String> = name.split('_').map(str::to_ascii_uppercase).collect();
    let is_one = |word: &String, of: &[&str]| of.contains(&word.as_str());
    words.iter().any(|word| is_one(word, &SECRET)) && !words.last().is_some_and(|word| is_one(word, &PLACE))
}

/// A variable as plans and records show it, `NAME=VALUE`, without a secret.
///
/// ```
/// use paravt_supervise::variable;
/// assert_eq!(variable("HF_TOKEN", "hf_a1b2"), "HF_TOKEN=…");
/// assert_eq!(variable("TOKENIZERS_PARALLELISM", "false"), "TOKENIZERS_PARALLELISM=false");
/// ```
pub fn variable(name: &str, value: &str) -> String {
    format!("{name}={}", if is_secret(name) && !value.is_empty() { MASK } else { value })
}

/// The secrets that a process sees.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    /// Those of this process and of further variables.
    pub(crate) fn seen_with(further: &BTreeMap<String, String>) -> Self {
        let own = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let all = own.chain(further.iter().map(|(name, value)| (name.clone(), value.clone())));
        let mut found: Vec<String> = all
            .filter(|(name, value)| is_secret(name) && value.trim().len() >= SHORTEST)
            .map(|(_, value)| value.trim().to_owned())
            .collect();
        // The longer first: one may be part of another.
        found.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        found.dedup();
        Self(found)
    }

    /// Bytes of the longest; 0 where there is none.
    pub(crate) fn longest(&self) -> usize {
        self.0.first().map_or(0, String::len)
    }

    /// A text without them; of one that was `cut`, also without the beginning of one at its end.
    pub(crate) fn masked(&self, text: String, cut: bool) -> String {
        let mut text = self.replaced(text);
        let beginnings =
            self.0.iter().flat_map(|secret| (1..secret.len()).rev().filter_map(|end| secret.get(..end)));
        if let Some(beginning) = beginnings.filter(|_| cut).find(|beginning| text.ends_with(beginning)) {
            text.truncate(text.len() - beginning.len());
        }
        text
    }

    fn replaced(&self, text: String) -> String {
        self.0.iter().fold(text, |text, secret| {
            if text.contains(secret.as_str()) { text.replace(secret.as_str(), MASK) } else { text }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_variables_that_hold_secrets() {
        for name in [
            "HF_TOKEN",
            "OPENAI_API_KEY",
            "LLM_JUDGE_API_KEY",
            "wandb_api_key",
            "PGPASSWORD_SECRET",
            "AWS_SECRET_ACCESS_KEY",
        ] {
            assert_eq!(variable(name, "abc"), format!("{name}=…"));
        }
        for name in
            ["TOKENIZERS_PARALLELISM", "HF_TOKEN_PATH", "PATH", "PYTHONHASHSEED", "SSL_KEY_FILE", "MONKEY"]
        {
            assert_eq!(variable(name, "abc"), format!("{name}=abc"));
        }
        assert_eq!(variable("HF_TOKEN", ""), "HF_TOKEN=");
    }

    #[test]
    fn a_secret_is_masked_wherever_it_stands() {
        let variables = [
            ("A_TOKEN", "longer-secret-2"),
            ("B_KEY", "longer-secret"),
            ("C_KEY", "short"),
            ("D", "longer-value"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let secrets = Secrets::seen_with(&variables);
        let text = secrets.masked("x longer-secret-2,longer-secret short longer-value".to_owned(), false);
        assert_eq!(text, "x …,… short longer-value");
        assert_eq!(secrets.masked("longer-secret x longer-sec".to_owned(), true), "… x ");
        assert!(secrets.longest() >= 15);
    }
}
