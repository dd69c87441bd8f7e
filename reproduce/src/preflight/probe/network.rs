//! Ports and addresses of this machine.

use std::net::{Ipv4Addr, TcpListener, ToSocketAddrs as _, UdpSocket};

use crate::preflight::machine::{Address, Port};

/// Whether a server on this machine can listen on a port.
pub(super) fn port(number: u16) -> Port {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, number)).err().map(|error| error.to_string());
    Port { number, taken }
}

/// The address of this machine; its name is looked up, which may take a while, only where that is asked for.
pub(super) fn address(look_up: bool) -> Address {
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let found = look_up.then(|| (hostname.as_str(), 0).to_socket_addrs().ok()).flatten();
    let resolved = found.into_iter().flatten().map(|one| one.ip()).collect();
    let outbound = if look_up { outbound() } else { None };
    Address { hostname, resolved, outbound }
}

/// The address that packets to elsewhere leave from. No packet is sent: the kernel chooses when the socket is
/// connected.
fn outbound() -> Option<std::net::IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // An address for documentation (RFC 5737).
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}
