//! Lock files: a line `name==version` for each package.

use paravt_files::write_atomic;
use pep440_rs::Version;

use crate::environments::release::Environment;
use crate::environments::{Error, Layout, io};

/// A package and its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pin {
    pub(crate) name: String,
    pub(crate) version: String,
}

impl Pin {
    /// The requirement.
    pub(crate) fn line(&self) -> String {
        format!("{}=={}", self.name, self.version)
    }

    /// Whether an installed version is this one, as `==` compares (PEP 440): a local part such as `+cu126` counts
    /// where the pin has one.
    pub(crate) fn allows(&self, installed: &str) -> bool {
        let (Ok(wanted), Ok(found)) = (self.version.parse::<Version>(), installed.parse::<Version>()) else {
            return self.version == installed;
        };
        wanted == found || (!wanted.is_local() && wanted == found.without_local())
    }
}

/// The name of a package with the separators and letters that compare equal (PEP 503) as one.
pub(crate) fn normalised(name: &str) -> String {
    let parts = name.split(['-', '_', '.']).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-").to_lowercase()
}

/// The pins of an environment's lock file, after its sum is compared; one that is ours is put in its place.
pub(crate) fn read(layout: &Layout, environment: &Environment) -> Result<Vec<Pin>, Error> {
    let path = environment.lock_file(layout);
    if let Some(text) = environment.own_lock() {
        write_atomic(&path, text.as_bytes()).map_err(io("write", &path))?;
    }
    let bytes = std::fs::read(&path).map_err(io("read", &path))?;
    let found = paravt_files::sha256(&bytes);
    if !found.eq_ignore_ascii_case(&environment.sha256) {
        let (file, expected) = (environment.lock.clone(), environment.sha256.clone());
        return Err(Error::OtherLock { file, found, expected });
    }
    parse(&environment.lock, &String::from_utf8_lossy(&bytes))
}

fn parse(file: &str, text: &str) -> Result<Vec<Pin>, Error> {
    let mut pins: Vec<Pin> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = |message: String| Error::Lock { file: file.to_owned(), line: number + 1, message };
        let line = line.split(" #").next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let pin = line.split_once("==").map(|(name, version)| (name.trim(), version.trim()));
        let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        let (name, version) = pin
            .filter(|(name, version)| !name.is_empty() && is_name(name) && version.parse::<Version>().is_ok())
            .ok_or_else(|| wrong(format!("`{line}` is not NAME==VERSION")))?;
        let name = normalised(name);
        if pins.iter().any(|pin| pin.name == name) {
            return Err(wrong(format!("{name} is pinned twice")));
        }
        pins.push(Pin { name, version: version.to_owned() });
    }
    Ok(pins)
}

/// Whether a package is one of some patterns: its name, or the beginning of it before a `*`.
pub(crate) fn is_one_of(name: &str, patterns: &[String]) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => normalised(pattern) == name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_read_by_line() {
        let pins =
            parse("x.lock", "# made by hand\nPyYAML==6.0.2  # comment\n\nflash_attn==2.8.3\n").unwrap();
        let lines: Vec<String> = pins.iter().map(Pin::line).collect();
        assert_eq!(lines, ["pyyaml==6.0.2", "flash-attn==2.8.3"]);
        for (text, word) in [
            ("a==1\nb>=2\n", "line 2: `b>=2`"),
            ("-e ./x\n", "`-e ./x`"),
            ("a==1\nA==2\n", "a is pinned twice"),
            ("a @ file:///x==1\n", "not NAME==VERSION"),
            ("a==one\n", "not NAME==VERSION"),
        ] {
            let error = parse("x.lock", text).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn versions_compare_as_packages_do() {
        let allows = |wanted: &str, found: &str| {
            Pin { name: "torch".to_owned(), version: wanted.to_owned() }.allows(found)
        };
        for (wanted, found) in
            [("2.9.1", "2.9.1+cu126"), ("1.0", "1.0.0"), ("1.0.0rc1", "1.0rc1"), ("2024.01.02", "2024.1.2")]
        {
            assert!(allows(wanted, found), "{wanted} {found}");
        }
        for (wanted, found) in [
            ("2.9.1+cu126", "2.9.1"),
            ("2.9.1+cu126", "2.9.1+cu128"),
            ("2.9.1", "2.9.10"),
            ("2.9.1", "2.9.1.post1"),
        ] {
            assert!(!allows(wanted, found), "{wanted} {found}");
        }
        assert!(is_one_of("nvidia-cudnn-cu12", &["torch".to_owned(), "nvidia-*".to_owned()]));
        assert!(!is_one_of("torchvision", &["torch".to_owned()]));
    }
}
