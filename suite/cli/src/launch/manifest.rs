//! What a run says about itself.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use paravt_suite::backend::BackendInfo;
use paravt_suite::data::sha256_file;
use paravt_suite::run::{Host, Manifest, RUN_VERSION};

use super::select::Selected;
use super::{Common, Launch};

/// Version and commit of this binary.
pub const BINARY: &str =
    concat!("paravt-bench ", env!("CARGO_PKG_VERSION"), " ", env!("PARAVT_BENCH_COMMIT"));

/// Seconds since 1970.
pub fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map(|time| time.as_secs_f64()).unwrap_or_default()
}

/// The manifest of a run that starts now.
pub fn build(
    launch: &Launch<'_>,
    selected: &Selected,
    backend: BackendInfo,
    common: &Common<'_>,
) -> anyhow::Result<Manifest> {
    let mut data = BTreeMap::new();
    for file in &selected.files {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        data.insert(name, sha256_file(file)?);
    }
    Ok(Manifest {
        version: RUN_VERSION,
        binary: BINARY.to_owned(),
        command: std::env::args().map(|argument| without_credentials(&argument)).collect(),
        task: launch.task.spec().clone(),
        plan: launch.plan.clone(),
        protocol_hash: launch.protocol.hash(),
        protocol: launch.protocol.name.clone(),
        protocol_source: launch.protocol.source.clone(),
        data,
        data_revision: selected.revision.clone(),
        backend,
        label: launch.label.clone(),
        paper_row: launch.paper_row.clone(),
        selection: selected.selection.clone(),
        host: Host {
            platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            gpus: common.gpus,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            ffmpeg: paravt_media::ffmpeg_version(),
        },
        started_at: unix_seconds(),
        ended_at: None,
    })
}

/// `https://user:secret@host` without what is before the `@`.
fn without_credentials(argument: &str) -> String {
    let Some((scheme, rest)) = argument.split_once("://") else { return argument.to_owned() };
    let authority_end = rest.find('/').unwrap_or(rest.len());
    match rest[..authority_end].rfind('@') {
        Some(at) => format!("{scheme}://…{}", &rest[at..]),
        None => argument.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::without_credentials;

    #[test]
    fn credentials_in_urls_do_not_reach_the_manifest() {
        assert_eq!(without_credentials("http://me:key@host:1/v1"), "http://…@host:1/v1");
        assert_eq!(without_credentials("--base-url=https://key@host"), "--base-url=https://…@host");
        assert_eq!(without_credentials("http://host/a@b"), "http://host/a@b");
        assert_eq!(without_credentials("a@b"), "a@b");
    }
}
