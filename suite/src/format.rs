//! Versions of the files of a run directory, checked before anything else of a file is believed.
//!
//! A reader tolerates fields that it does not know. A version therefore rises only where an older
//! reader would misread the file: a field that changes its meaning, a new variant of an enum.

use serde::Deserialize;

/// A version that this build does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// The file comes from a newer build.
    #[error(
        "written by a newer version of paravt-bench (format {found}, this one reads up to {supported}); upgrade paravt-bench to read it"
    )]
    TooNew {
        found: u64,
        /// The newest version that this build reads.
        supported: u32,
    },
    /// A version that no build ever wrote.
    #[error("format {found} does not exist; the first one is 1")]
    Unknown { found: u64 },
}

/// Reads `version` of a JSON document and nothing else; `None` where there is none.
pub fn version_of(json: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u64,
    }
    serde_json::from_slice::<Versioned>(json).ok().map(|document| document.version)
}

/// Whether a build that reads up to `supported` reads version `found`.
pub fn check(found: u64, supported: u32) -> Result<(), VersionError> {
    match found {
        0 => Err(VersionError::Unknown { found }),
        found if found > u64::from(supported) => Err(VersionError::TooNew { found, supported }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_documents_of_any_other_shape() {
        assert_eq!(version_of(br#"{"a": [1, {"version": 3}], "version": 7, "b": null}"#), Some(7));
        assert_eq!(version_of(br#"{"a": 1}"#), None);
        assert_eq!(version_of(br#"{"version": 7"#), None);
        assert_eq!(version_of(br#"{"version": "7"}"#), None);
    }

    #[test]
    fn versions_from_one_to_the_supported_one_are_read() {
        assert_eq!(check(1, 2), Ok(()));
        assert_eq!(check(2, 2), Ok(()));
        assert_eq!(check(0, 2), Err(VersionError::Unknown { found: 0 }));
        let error = check(99, 2).unwrap_err().to_string();
        assert!(
            error.contains("newer version") && error.contains("format 99, this one reads up to 2"),
            "{error}"
        );
    }
}
