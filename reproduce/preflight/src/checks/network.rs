//! Ports and addresses.

use super::Findings;
use crate::machine::Machine;
use crate::needs::Needs;

pub(super) fn ports(needs: &Needs, machine: &Machine, findings: &mut Findings<'_>) {
    let state = |number: u16| machine.ports.iter().find(|port| port.number == number);
    let mut free = Vec::new();
    for &number in &needs.ports.each {
        match state(number).map(|port| &port.taken) {
            Some(None) => free.push(number.to_string()),
            Some(Some(why)) => {
                let remedy =
                    "stop the program that listens there, or choose another port with `port` in [serve]";
                findings.refuse(format!("port {number}: {why}"), "a free port for each server", remedy);
            }
            None => findings.unknown(&format!("port {number} was not tried"), "a free port"),
        }
    }
    if !free.is_empty() {
        findings.ok(format!("{} free", free.join(", ")));
    }
    for range in &needs.ports.any {
        let tried = machine.ports.iter().filter(|port| (range.first..=range.last).contains(&port.number));
        let free = tried.filter(|port| port.taken.is_none()).count();
        let words = format!("{} to {}", range.first, range.last);
        if free >= usize::from(range.count) {
            findings.ok(format!("{free} free ones among {words}"));
        } else {
            let needed = format!("{} free ones among {words}", range.count);
            findings.refuse(
                format!("{free} free ones"),
                needed,
                "stop programs that listen there: ss -ltnp lists them",
            );
        }
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
