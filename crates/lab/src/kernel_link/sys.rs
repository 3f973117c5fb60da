//! The system calls of a kernel link that have no safe wrapper: network namespaces, TUN devices,
//! settings of interfaces, and real-time priority.
#![expect(
    unsafe_code,
    reason = "ioctl(2) with `ifreq` is how interfaces are configured without a netlink library; unshare(2) and sched_setscheduler(2) have no safe wrapper"
)]

use std::fs::{File, OpenOptions};
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::fs::OpenOptionsExt as _;

use libc::__c_anonymous_ifr_ifru as RequestValue;
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Moves the calling thread into a new network namespace.
pub(super) fn unshare_network() -> io::Result<()> {
    // SAFETY: only a separate table of file descriptors is dangerous, and the flag does not ask for one.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Moves this process, which has one thread, into a new user namespace with a network namespace of its own.
pub(super) fn unshare_user_and_network() -> io::Result<()> {
    let flags = UnshareFlags::NEWUSER | UnshareFlags::NEWNET;
    // SAFETY: as above.
    Ok(unsafe { unshare_unsafe(flags) }?)
}

/// Lets the calling thread run before all threads without a real-time priority.
pub(super) fn request_realtime_priority() -> io::Result<()> {
    // SAFETY: the structure has only integers, for which zero is valid.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = 1;
    // SAFETY: 0 is the calling thread, and the kernel copies the structure before the call returns.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) })
}

/// Creates a TUN device in the network namespace of the calling thread. Each read or write of the file, which never blocks, is one IP
/// packet. The device vanishes when the file is closed.
pub(super) fn create_tun(name: &str) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    let ifru_flags = flags(libc::IFF_TUN | libc::IFF_NO_PI);
    interface_request(
        &file,
        libc::TUNSETIFF as _,
        name,
        RequestValue { ifru_flags },
    )?;
    Ok(file)
}

/// Gives an interface of the calling thread's namespace an address in a network of 256, an MTU and a queue length in packets.
pub(super) fn configure_interface(
    name: &str,
    address: Ipv4Addr,
    mtu: u16,
    queue_length: u16,
) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let request = |request, value| interface_request(&socket, request, name, value);
    let ifru_addr = socket_address(address);
    request(libc::SIOCSIFADDR, RequestValue { ifru_addr })?;
    let ifru_netmask = socket_address(Ipv4Addr::new(255, 255, 255, 0));
    request(libc::SIOCSIFNETMASK, RequestValue { ifru_netmask })?;
    let ifru_mtu = mtu.into();
    request(libc::SIOCSIFMTU, RequestValue { ifru_mtu })?;
    let ifru_metric = queue_length.into();
    // Root of a user namespace may not do this. Its devices keep their queue of 500 packets, and may lose some on a busy machine.
    match request(libc::SIOCSIFTXQLEN, RequestValue { ifru_metric }) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        outcome => outcome,
    }
}

/// Brings up an interface of the calling thread's namespace.
pub(super) fn bring_up(name: &str) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let ifru_flags = flags(libc::IFF_UP);
    interface_request(
        &socket,
        libc::SIOCSIFFLAGS,
        name,
        RequestValue { ifru_flags },
    )
}

fn socket_address(ip: Ipv4Addr) -> libc::sockaddr {
    let mut sa_data = [0; 14];
    // The port comes before the address.
    for (to, from) in sa_data[2..].iter_mut().zip(ip.octets()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    #[expect(clippy::cast_possible_truncation, reason = "two")]
    let sa_family = libc::AF_INET as libc::sa_family_t;
    libc::sockaddr { sa_family, sa_data }
}

fn flags(flags: libc::c_int) -> libc::c_short {
    libc::c_short::try_from(flags).unwrap_or(0)
}

fn interface_request(
    descriptor: impl AsFd,
    request: libc::c_ulong,
    name: &str,
    value: RequestValue,
) -> io::Result<()> {
    let mut interface = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: value,
    };
    // The last byte stays zero.
    let name_bytes = interface.ifr_name[..libc::IFNAMSIZ - 1].iter_mut();
    for (to, from) in name_bytes.zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    let descriptor = descriptor.as_fd().as_raw_fd();
    // SAFETY: the descriptor is borrowed and so open. All requests of this module read or write one `ifreq`, which lives until the call
    // returns, and use it by value: the kernel keeps no pointer to it.
    check(unsafe { libc::ioctl(descriptor, request as _, &raw mut interface) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
