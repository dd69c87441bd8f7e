//! Ports and addresses.

use super::Findings;
use crate::preflight::machine::{Machine, Port};
use crate::preflight::needs::Needs;

pub(super) fn ports(needs: &Needs, machine: &Machine, findings: &mut Findings<'_>) {
    let mut free = Vec::new();
    for Port { number, taken } in machine.ports.iter().filter(|port| needs.ports.contains(&port.number)) {
        match taken {
            None => free.push(number.to_string()),
            Some(why) => {
                let remedy =
                    "stop the program that listens there, or choose another port with `port` in [serve]";
                findings.refuse(format!("port {number}: {why}"), "a free port for each server", remedy);
            }
        }
    }
    if !free.is_empty() {
        findings.ok(format!("{} free", free.join(", ")));
    }
}

pub(super) fn address(needs: &Needs, machine: &Machine, findings: &mut Findings<'_>) {
    if !needs.own_address {
        return;
    }
    let address = &machine.address;
    match address.resolved.iter().find(|ip| !ip.is_loopback()).copied().or(address.outbound) {
        Some(own) => findings.ok(format!("{} is {own}", address.hostname)),
        None => findings.refuse(
            format!(
                "{} resolves to a loopback address, and this machine has no default route",
                address.hostname
            ),
            "an address that other processes of this machine reach",
            "give the machine's name an address in /etc/hosts",
        ),
    }
}
