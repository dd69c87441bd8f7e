//! Secrets of an environment. By the names of variables: masked in plans and in records. By their values, whatever the
//! name: masked in the output of processes.

use std::collections::{BTreeMap, BTreeSet};

/// What stands for a secret.
const MASK: &str = "…";
/// Words in the name of a variable that holds one.
const SECRET: [&str; 10] = [
    "TOKEN", "KEY", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "PWD", "CREDENTIAL", "CREDENTIALS",
];
/// Ends of such words.
const SECRET_END: [&str; 5] = ["PASSWORD", "PASSWD", "SECRET", "TOKEN", "APIKEY"];
/// What a header says before its key.
const SCHEMES: [&str; 2] = ["bearer", "basic"];
/// Last words of names that only say where one is.
const PLACE: [&str; 3] = ["PATH", "FILE", "DIR"];
/// Bytes of a value at least that is masked for its form: a shorter one would be masked everywhere.
const SHORTEST: usize = 8;
/// The same of one that is certainly a secret.
const SHORTEST_CERTAIN: usize = 6;
/// The same of a line of several.
const SHORTEST_LINE: usize = 4;
/// Letters of a word at most; a longer one may be a phrase without spaces.
const LONGEST_WORD: usize = 12;

/// Whether a variable of this name holds a secret.
fn is_secret(name: &str) -> bool {
    // Folders of every shell.
    if ["PWD", "OLDPWD"].contains(&name) {
        return false;
    }
    let words: Vec<String> = name.split('_').map(str::to_ascii_uppercase).collect();
    let is_one = |word: &String, of: &[&str]| of.contains(&word.as_str());
    let holds = |word: &String| is_one(word, &SECRET) || SECRET_END.iter().any(|end| word.ends_with(end));
    words.iter().any(holds) && !words.last().is_some_and(|word| is_one(word, &PLACE))
}

/// Whether a value is too short or too ordinary to be masked as a secret.
fn is_harmless(text: &str) -> bool {
    text.len() < SHORTEST || is_ordinary(text)
}

/// Whether a value is a word, a number, a path, or an address without a user.
fn is_ordinary(text: &str) -> bool {
    let is_path = |text: &str| {
        ["/", "./", "../", "~/"].iter().any(|start| text.starts_with(start))
            && !text.split('/').any(looks_random)
    };
    let is_number = |text: &str| {
        let digits = text.split(|c: char| ".:,-".contains(c));
        digits.into_iter().all(|run| run.len() < SHORTEST && run.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_word = |text: &str| {
        text.len() <= LONGEST_WORD
            && text.split('_').all(|part| {
                let rest = part.get(1..).unwrap_or_default();
                let lower = rest.bytes().all(|byte| byte.is_ascii_lowercase());
                let upper = part.bytes().all(|byte| byte.is_ascii_uppercase());
                part.bytes().all(|byte| byte.is_ascii_alphabetic()) && (lower || upper)
            })
    };
    let is_address = |text: &str| {
        let place = text.split_once("://").map(|(_, place)| place);
        place.is_some_and(|place| !place.contains(['@', '?', '#']) && !place.split('/').any(looks_random))
    };
    is_number(text)
        || is_word(text)
        || is_address(text)
        || text.split(':').all(|part| part.is_empty() || is_path(part))
}

/// Whether a part of a path is rather a part of a key: long, without separators, of both cases, with digits at several
/// places (the name of a class has them at one).
fn looks_random(part: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| part.bytes().any(|byte| kind(&byte));
    part.len() >= 16
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && part.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty()).count() > 1
        && !part.contains(['-', '_', '.'])
}

/// User and password of each URL in a text: from behind `://` to the last `@` before a space or a quote.
fn users(text: &str) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
    text.match_indices("://").filter_map(|(at, scheme)| {
        let start = at + scheme.len();
        let rest = &text[start..];
        let end = rest.find(|c: char| c.is_whitespace() || "\"'".contains(c)).unwrap_or(rest.len());
        // Of several URLs in one list each has its own.
        let end = rest[..end].find("://").unwrap_or(end);
        rest[..end].rfind('@').map(|at| start..start + at)
    })
}

/// A text without users and passwords in its URLs.
fn without_users(text: &str) -> String {
    let (mut shown, mut end) = (String::with_capacity(text.len()), 0);
    for user in users(text) {
        shown.push_str(&text[end..user.start]);
        shown.push_str(MASK);
        end = user.end;
    }
    shown + &text[end..]
}

/// A variable as plans and records show it, `NAME=VALUE`, without a secret.
///
/// ```
/// use paravt_supervise::variable;
/// assert_eq!(variable("HF_TOKEN", "hf_a1b2"), "HF_TOKEN=…");
/// assert_eq!(variable("TOKENIZERS_PARALLELISM", "false"), "TOKENIZERS_PARALLELISM=false");
/// ```
pub fn variable(name: &str, value: &str) -> String {
    if is_secret(name) && !value.is_empty() {
        return format!("{name}={MASK}");
    }
    format!("{name}={}", without_users(value))
}

/// The words of a command as plans show them, without secrets: values of flags and variables whose name says that they
/// are one, users in URLs, keys by their form; also within a word that is a script.
///
/// ```
/// use paravt_supervise::words;
/// let command = ["vllm", "serve", "owner/model", "--api-key", "a1b2c3", "--port=8000"];
/// assert_eq!(words(&command), ["vllm", "serve", "owner/model", "--api-key", "…", "--port=8000"]);
/// ```
pub fn words<S: AsRef<str>>(words: &[S]) -> Vec<String> {
    let mut follows_secret = false;
    let shown = words.iter().map(|word| {
        let word = word.as_ref();
        let trimmed = word.trim_matches(['\'', '"', '`', '(', ')', ';']);
        let name = |name: &str| name.trim_start_matches('-').replace('-', "_");
        if let Some((flag, value)) = trimmed.split_once('=').filter(|_| !word.contains(char::is_whitespace)) {
            follows_secret = false;
            if is_secret(&name(flag)) && !value.is_empty() {
                return format!("{flag}={MASK}");
            }
            let (flag, value) = word.split_once('=').unwrap_or((word, ""));
            return format!("{flag}={}", self::words(&[value]).concat());
        } else if trimmed.starts_with('-') {
            follows_secret = is_secret(&name(trimmed));
            return word.to_owned();
        } else if follows_secret {
            // A flag may have several values.
            return MASK.to_owned();
        } else if trimmed.ends_with(':') || SCHEMES.contains(&trimmed.to_ascii_lowercase().as_str()) {
            // A header: `Authorization: Bearer KEY`, `X-API-Key: KEY`.
            let is_header = SCHEMES.contains(&trimmed.to_ascii_lowercase().as_str());
            follows_secret = is_header || is_secret(&name(trimmed.trim_end_matches(':')));
            return word.to_owned();
        }
        if word.contains(char::is_whitespace) {
            let parts: Vec<&str> = word.split_inclusive(char::is_whitespace).collect();
            let inner: Vec<&str> = parts.iter().map(|part| part.trim_end()).collect();
            let ends = parts.iter().zip(&inner).map(|(part, inner)| &part[inner.len()..]);
            return self::words(&inner)
                .iter()
                .zip(ends)
                .map(|(inner, end)| format!("{inner}{end}"))
                .collect();
        }
        let text = without_users(word);
        let keys = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| looks_random(part));
        keys.fold(text.clone(), |text, key| text.replace(key, MASK))
    });
    shown.collect()
}

/// The secrets that a process sees.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    /// Those of this process and of further variables.
    pub(crate) fn seen_with(further: &BTreeMap<String, String>) -> Self {
        let own = std::env::vars_os()
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
            .filter(|(name, _)| !further.contains_key(name));
        Self::of(own.chain(further.iter().map(|(name, value)| (name.clone(), value.clone()))))
    }

    fn of(variables: impl Iterator<Item = (String, String)>) -> Self {
        let mut found = BTreeSet::new();
        for (name, value) in variables {
            let is_secret = is_secret(&name);
            // A log is read line by line: so is a key of several lines, in which a parser also finds parts.
            let lines: Vec<&str> = value.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            let least = match (lines.len() > 1, is_secret) {
                // The last line of a key may be short.
                (true, _) => SHORTEST_LINE,
                (false, true) => SHORTEST_CERTAIN,
                (false, false) => SHORTEST,
            };
            for line in lines {
                if line.len() >= least && (is_secret || !is_ordinary(line)) {
                    found.insert(line.to_owned());
                    // As JSON and most languages print it.
                    let quoted = serde_json::Value::from(line).to_string();
                    found.insert(quoted[1..quoted.len() - 1].to_owned());
                }
                let parts = line.split(|c: char| c.is_whitespace() || "\"',;:=&@?#{}[]()<>\\".contains(c));
                found.extend(parts.filter(|part| !is_harmless(part)).map(str::to_owned));
                let passwords =
                    users(line).map(|user| line[user].split_once(':').map_or("", |(_, password)| password));
                for password in passwords {
                    let decoded = percent_encoding::percent_decode_str(password).decode_utf8_lossy();
                    let both = [password, &decoded].map(str::to_owned);
                    found.extend(both.into_iter().filter(|password| password.len() >= SHORTEST_CERTAIN));
                }
            }
        }
        let mut found: Vec<String> = found.into_iter().collect();
        // The longer first: one may be part of another.
        found.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(found)
    }

    /// Bytes of the longest; 0 where there is none.
    pub(crate) fn longest(&self) -> usize {
        self.0.first().map_or(0, String::len)
    }

    /// A text without them. Of one of which `cut` bytes are missing at the end, also without the beginning of one there;
    /// its bytes are added to them.
    pub(crate) fn masked(&self, text: &str, cut: &mut usize) -> String {
        let mut text = without_users(text);
        for secret in &self.0 {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), MASK);
            }
        }
        if *cut > 0 {
            let beginning = |secret: &String| {
                (1..secret.len())
                    .rev()
                    .find(|&end| secret.get(..end).is_some_and(|start| text.ends_with(start)))
            };
            let mut kept = text.len() - self.0.iter().filter_map(beginning).max().unwrap_or(0);
            // A URL whose user may go on behind the cut.
            if let Some(at) = text.rfind("://").map(|at| at + 3)
                && !text[at..].contains(|c: char| c.is_whitespace() || "@/".contains(c))
            {
                kept = kept.min(at);
            }
            *cut += text.len() - kept;
            text.truncate(kept);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_variables_that_hold_secrets() {
        for name in [
            "HF_TOKEN", "OPENAI_API_KEY", "LLM_JUDGE_API_KEY", "wandb_api_key", "PGPASSWORD_SECRET",
            "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "DB_PWD", "APIKEY",
        ] {
            assert_eq!(variable(name, "abc"), format!("{name}=…"));
        }
        for name in [
            "TOKENIZERS_PARALLELISM", "HF_TOKEN_PATH", "PATH", "PYTHONHASHSEED", "SSL_KEY_FILE", "MONKEY",
            "PWD",
        ] {
            assert_eq!(variable(name, "abc"), format!("{name}=abc"));
        }
        assert_eq!(variable("HF_TOKEN", ""), "HF_TOKEN=");
        assert_eq!(variable("HTTPS_PROXY", "http://u:pw@h:1"), "HTTPS_PROXY=http://…@h:1");
    }

    #[test]
    fn secrets_in_the_words_of_a_command_are_masked() {
        for (command, shown) in [
            ("vllm serve {model} --api-key k1 k2 --port 8", "vllm serve {model} --api-key … … --port 8"),
            ("serve --hf-token=abc --tokenizer=x", "serve --hf-token=… --tokenizer=x"),
            ("env HF_TOKEN=abc PORT=8 serve", "env HF_TOKEN=… PORT=8 serve"),
            ("torchrun wrap=[\"Qwen3VLTextDecoderLayer\"]", "torchrun wrap=[\"Qwen3VLTextDecoderLayer\"]"),
            ("docker --env=HF_TOKEN=abc -e=A=b", "docker --env=HF_TOKEN=… -e=A=b"),
            ("serve --proxy http://u:pw@h:1", "serve --proxy http://…@h:1"),
            ("serve sk-aB3dE5gH7jK9mN1pQ3sT5", "serve sk-…"),
            (
                "serve --ssl-key-file /etc/key.pem --max-tokens 8",
                "serve --ssl-key-file /etc/key.pem --max-tokens 8",
            ),
            (
                "serve --revision 5f2ab34c5d6e7f8091a2b3c4d5e6f708192a3b4c",
                "serve --revision 5f2ab34c5d6e7f8091a2b3c4d5e6f708192a3b4c",
            ),
            (
                "serve Qwen/Qwen2.5-VL-7B-Instruct DeepSeek-R1-Distill-Qwen-32B",
                "serve Qwen/Qwen2.5-VL-7B-Instruct DeepSeek-R1-Distill-Qwen-32B",
            ),
        ] {
            assert_eq!(words(&command.split(' ').collect::<Vec<_>>()).join(" "), shown);
        }
        for (word, shown) in [
            ("export API_KEY=abc; exec serve --api-key 'x y'", "export API_KEY=… exec serve --api-key … …"),
            ("Authorization: Bearer abc", "Authorization: Bearer …"),
            ("X-API-Key: abc", "X-API-Key: …"),
            ("{\"image\": 8}", "{\"image\": 8}"),
        ] {
            assert_eq!(words(&["sh", "-c", word])[2], shown);
        }
    }

    fn secrets(variables: &[(&str, &str)]) -> Secrets {
        Secrets::of(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn a_secret_is_masked_wherever_it_stands() {
        let secrets = secrets(&[
            ("A_TOKEN", "longer-secret-2"),
            ("B_KEY", "longer-secret"),
            ("C_KEY", "short"),
            ("D", "/longer/value"),
        ]);
        let mut cut = 0;
        let text = secrets.masked("x longer-secret-2,longer-secret short /longer/value", &mut cut);
        assert_eq!((text.as_str(), cut), ("x …,… short /longer/value", 0));
        cut = 1;
        assert_eq!(secrets.masked("longer-secret x longer-sec", &mut cut), "… x ");
        assert_eq!(cut, 11);
        assert_eq!(secrets.longest(), 15);
        cut = 1;
        assert_eq!(secrets.masked("proxy http://me:pass", &mut cut), "proxy http://");
    }

    /// Values under names that say nothing.
    #[test]
    fn a_value_is_masked_for_its_form_whatever_its_name() {
        let pem = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF==\n9xQ=\n-----END KEY-----\n";
        let json = "{\n  \"type\": \"account\",\n  \"id\": \"8f3a9c1d2e4b\"\n}";
        for (value, printed) in [
            ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
            ("/aB3dE5gH7jK9mN1pQ3sT5", "key /aB3dE5gH7jK9mN1pQ3sT5"),
            ("correct-horse-battery-staple", "correct-horse-battery-staple"),
            ("correct horse battery staple", "correct horse battery staple"),
            ("hunter2hunter2", "'hunter2hunter2'"),
            ("p\"4ssword\"", "{\"pw\": \"p\\\"4ssword\\\"\"}"),
            ("4815162342108", "4815162342108"),
            ("Bearer 8f3a9c1d2e4b", "token 8f3a9c1d2e4b"),
            ("Server=db;Secret=8f3a9c1d2e4b;", "secret 8f3a9c1d2e4b"),
            ("http://me:hunter2@proxy:3128", "password hunter2"),
            ("http://me:hunt%40er2@proxy:3128", "password hunt@er2"),
            (pem, "kqhkiG9w0BAQEF=="),
            (pem, "9xQ="),
            (pem, "\"MIIEvQIBADANBg\\nkqhkiG9w0BAQEF==\""),
            (json, "  \"id\": \"8f3a9c1d2e4b\""),
            (json, "id 8f3a9c1d2e4b"),
        ] {
            let text = secrets(&[("GREETING", value)]).masked(printed, &mut 0);
            let rest: String = text.chars().filter(char::is_ascii_alphanumeric).collect();
            assert!(text.contains(MASK) && rest.len() < 9, "{value}: {text}");
        }
        for url in ["http://u:pw@h:1", "x http://u:p/w@h:1,https://a:b@h:1", "{'https': 'http://u:pw@h:1'}"] {
            let text = Secrets::default().masked(url, &mut 0);
            assert!(text.contains("://…@h:1") && !text.contains("u:p") && !text.contains("a:b"), "{text}");
        }
    }

    #[test]
    fn what_a_log_needs_is_left_as_it_is() {
        let ordinary = [
            ("PATH", "/usr/local/bin:/usr/bin:/home/me/.venv/bin"),
            ("HOME", "/home/alexander"),
            ("HF_HOME", "/data/hub/models--a--b/snapshots/5f2ab34c5d6e7f8091a2b3c4d5e6f708192a3b4c"),
            ("VLLM_ATTENTION_BACKEND", "FLASH_ATTN"),
            ("MASTER_ADDR", "10.130.20.112"),
            ("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7"),
            ("HF_ENDPOINT", "https://hub.example.org/mirror"),
            ("USER", "alexander"),
            ("DEBUG", "true"),
            ("EMPTY", ""),
        ];
        let text: String = ordinary.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        assert_eq!(secrets(&ordinary).masked(&text, &mut 0), text);
    }
}
