//! Repositories of the hub and the data that comes from them.

use super::Findings;
use crate::preflight::machine::{Machine, RepoState};
use crate::preflight::needs::Needs;

pub(super) fn hub(needs: &Needs, machine: &Machine, findings: &mut Findings<'_>) {
    if !needs.hub {
        return;
    }
    let of = |wanted: fn(&RepoState) -> bool| -> Vec<&str> {
        let all = machine.repositories.iter().filter(|repository| wanted(&repository.state));
        all.map(|repository| repository.id.as_str()).collect()
    };
    for repository in &machine.repositories {
        let id = &repository.id;
        match &repository.state {
            RepoState::Refused(reason) => {
                let remedy = match machine.has_token {
                    true => "accept the terms on the repository's page with the account of the token",
                    false => {
                        "accept the terms on the repository's page, then set HF_TOKEN or run `hf auth login`"
                    }
                };
                // Most reasons begin with the id.
                let reason = reason.strip_prefix(&format!("{id}: ")).unwrap_or(reason);
                findings.refuse(
                    format!("{id}: {reason}"),
                    "a repository that this account may download",
                    remedy,
                );
            }
            RepoState::NotFound(reason) => {
                let reason = reason.strip_prefix(&format!("{id}: ")).unwrap_or(reason);
                findings.refuse(
                    format!("{id}: {reason}"),
                    "a repository that the hub has",
                    "correct the name; a private repository needs HF_TOKEN of an account that may read it",
                );
            }
            RepoState::Unreachable(reason) => {
                let remedy = "see to the network or the proxy, set HF_ENDPOINT to a mirror, or bring the files here \
                              and name their folder with --data or --hf-home";
                findings.refuse(format!("{id}: {reason}"), "an answer of the hub, or the files here", remedy);
            }
            RepoState::Local | RepoState::Open => {}
        }
    }
    let (local, open) = (of(|state| *state == RepoState::Local), of(|state| *state == RepoState::Open));
    if !local.is_empty() {
        findings.ok(format!("here: {}", local.join(", ")));
    }
    if !open.is_empty() {
        findings.ok(format!("open to this account: {}", open.join(", ")));
    }
}

pub(super) fn data(_needs: &Needs, machine: &Machine, findings: &mut Findings<'_>) {
    let (mut here, mut fetched) = (Vec::new(), Vec::new());
    for set in &machine.datasets {
        match &set.missing {
            None => here.push(set.name.as_str()),
            Some(_) if set.is_fetched => fetched.push(set.name.as_str()),
            Some(missing) => {
                let remedy = format!("paravt-bench data fetch {}", set.name);
                findings.refuse(format!("{}: {missing}", set.name), "all rows and their files", remedy);
            }
        }
    }
    if !here.is_empty() {
        findings.ok(format!("here: {}", here.join(", ")));
    }
    if !fetched.is_empty() {
        findings.ok(format!("the recipe fetches {}", fetched.join(", ")));
    }
}
