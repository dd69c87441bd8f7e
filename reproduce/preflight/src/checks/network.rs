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
    let Some(ephemeral) = machine.ephemeral else { return };
    let overlaps = |first: u16, last: u16| first <= ephemeral.last && last >= ephemeral.first;
    let each = needs.ports.each.iter().any(|&number| overlaps(number, number));
    if each || needs.ports.any.iter().any(|range| overlaps(range.first, range.last)) {
        let found = format!("outgoing connections take ports {} to {}", ephemeral.first, ephemeral.last);
        let remedy =
            "a port may be taken between choice and use; sysctl net.ipv4.ip_local_port_range moves them";
        findings.warn(found, "other ports than those of the servers", remedy);
    }
}

pub(super) fn address(needs: &Needs, machine: &Machine, findings: &mut Findings<'_>) {
    let address = &machine.address;
    let own = address.resolved.iter().find(|ip| !ip.is_loopback()).copied().or(address.outbound);
    if needs.own_address {
        match own {
            Some(own) => findings.ok(format!("{} is {own}", address.hostname)),
            None => findings.refuse(
                format!("{} is a loopback address, and there is no route to elsewhere", address.hostname),
                "an address that other processes of this machine reach",
                "give the machine's name an address in /etc/hosts",
            ),
        }
    }
    // This program asks its own servers without a proxy; the programs of a training follow the environment.
    if !address.has_proxy || !needs.own_address {
        return;
    }
    let mut wanted = vec!["127.0.0.1".to_owned()];
    wanted.extend(own.map(|own| own.to_string()));
    let is_excepted = |name: &String| address.no_proxy.iter().any(|entry| entry == name || entry == "*");
    let missing: Vec<String> = wanted.into_iter().filter(|name| !is_excepted(name)).collect();
    if !missing.is_empty() {
        let missing = missing.join(",");
        let found = format!("a proxy for HTTP is set, and no_proxy lacks {missing}");
        findings.refuse(
            found,
            "requests to the own servers pass no proxy",
            format!("export no_proxy=$no_proxy,{missing}"),
        );
    }
}
