//! A long link with the kernel's own TCP at both ends.
//!
//! [`SlowLink`](crate::SlowLink) relays between two local connections, whose kernels see no delay, no loss and no queue, so there is no slow
//! start. Here each end is a network namespace with a TUN device, and a thread (`packet_carrier`) carries IP packets between the two devices.
//! `packet_queue` decides when a packet arrives and which packets are lost, for each direction. `namespace` brings threads and child
//! processes into a namespace. `sys` has the system calls.
//!
//! A link needs Linux, `/dev/net/tun`, and the right to create network namespaces. Root has it, also in a user namespace with a network
//! namespace of its own: [`enter_user_namespace`], or `unshare --user --map-root-user --net`. [`KernelLink::start_or_skip`] is for tests,
//! which must not fail elsewhere.
//!
//! The link carries IPv4 only. As on any link, a kernel remembers the slow start of earlier connections to the same address, unless
//! `net.ipv4.tcp_no_metrics_save` is set in its namespace.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use haul_lab::{Origin, kernel_link::{KernelLink, KernelLinkOptions, LinkDirectionOptions}};
//!
//! let far = LinkDirectionOptions {
//!     delay: std::time::Duration::from_millis(50),
//!     bits_per_second: Some(200_000_000),
//!     ..LinkDirectionOptions::default()
//! };
//! let link = KernelLink::start(&KernelLinkOptions::symmetric(far))?;
//! let server = link.server().runtime()?;
//! let origin = server.block_on(Origin::builder().listen_on(KernelLink::SERVER_IP.into()).start());
//! let client = link.client().runtime()?;
//! client.block_on(async { /* download origin.url("/f.bin") */ });
//! link.to_client().change(|direction| direction.is_down = true);
//! # Ok(())
//! # }
//! ```

mod namespace;
mod packet_carrier;
mod packet_queue;
mod sys;

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::net::Ipv4Addr;
use std::process::Command;

pub use namespace::{NamespaceRuntime, NetworkNamespace, enter_user_namespace};
use packet_carrier::{PacketCarrier, now};
use packet_queue::PacketQueue;
pub use packet_queue::{LinkDirectionOptions, PacketCounts};

/// The name of the interface at both ends.
const INTERFACE: &str = "link0";

/// Packets between a kernel and the thread of the link: a quarter of a second at 500 Mbit/s.
const DEVICE_QUEUE_PACKETS: u16 = 10_000;

/// Set in the child process that runs a test in a user namespace.
const IN_USER_NAMESPACE: &str = "HAUL_LAB_IN_USER_NAMESPACE";

/// The status of a test program whose tests failed.
const TESTS_FAILED: i32 = 101;

/// A link. Its directions can change while it runs.
#[derive(Debug, Clone)]
pub struct KernelLinkOptions {
    pub to_server: LinkDirectionOptions,
    pub to_client: LinkDirectionOptions,
    /// The MTU of the interfaces, which both kernels know.
    pub mtu: u16,
    /// The congestion control of both kernels, such as `cubic`. `None`: the system's default. If the system does not allow it in
    /// namespaces yet, it is added to `net.ipv4.tcp_allowed_congestion_control`, and stays there.
    pub congestion_control: Option<String>,
    /// Different seeds lose and reorder different packets.
    pub seed: u64,
}

impl KernelLinkOptions {
    /// A link with the same properties in both directions, and the MTU of Ethernet.
    #[must_use]
    pub fn symmetric(direction: LinkDirectionOptions) -> Self {
        Self {
            to_server: direction,
            to_client: direction,
            mtu: 1500,
            congestion_control: None,
            seed: 1,
        }
    }
}

/// Why a link did not start.
#[derive(Debug, thiserror::Error)]
pub enum KernelLinkError {
    /// There is no `/dev/net/tun`, or this process may not create namespaces and devices.
    #[error("this process cannot have network namespaces with TUN devices")]
    Unavailable(#[source] io::Error),
    /// Anything else.
    #[error("the link cannot be set up")]
    Io(#[source] io::Error),
}

impl From<io::Error> for KernelLinkError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::NotFound => Self::Unavailable(error),
            _ => Self::Io(error),
        }
    }
}

/// A running link between a client's and a server's network namespace. Dropping it ends it; packets on their way are then lost.
#[derive(Debug)]
pub struct KernelLink {
    // The carrier is dropped first: its devices are in the namespaces.
    carrier: PacketCarrier,
    client: NetworkNamespace,
    server: NetworkNamespace,
}

impl KernelLink {
    /// The client's address, from the network for benchmarks (RFC 2544).
    pub const CLIENT_IP: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

    /// The server's address.
    pub const SERVER_IP: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

    /// Starts a link between two new namespaces.
    ///
    /// # Errors
    /// `Unavailable` if this system or process cannot have any link.
    pub fn start(options: &KernelLinkOptions) -> Result<Self, KernelLinkError> {
        Self::start_between(
            NetworkNamespace::create()?,
            NetworkNamespace::create()?,
            options,
        )
    }

    /// Starts a link between two namespaces that have no link yet.
    ///
    /// # Errors
    /// As those of [`Self::start`].
    pub fn start_between(
        client: NetworkNamespace,
        server: NetworkNamespace,
        options: &KernelLinkOptions,
    ) -> Result<Self, KernelLinkError> {
        let devices = [
            client.run(|| set_up_end(Self::CLIENT_IP, options))?,
            server.run(|| set_up_end(Self::SERVER_IP, options))?,
        ];
        if let Some(name) = &options.congestion_control {
            set_congestion_control([&client, &server], name).map_err(|error| {
                KernelLinkError::Io(io::Error::other(format!(
                    "congestion control {name}: {error}"
                )))
            })?;
        }
        // One seed for both directions would lose the same packets in each.
        let queues = [
            PacketQueue::new(options.to_server, options.seed, now()),
            PacketQueue::new(options.to_client, !options.seed, now()),
        ];
        Ok(Self {
            carrier: PacketCarrier::start(devices, queues)?,
            client,
            server,
        })
    }

    /// Starts a link for a test, whose name is that of the calling thread. On `None` the test should return: this process cannot have a link,
    /// as a line on standard error says, or the test has passed in a child process, which is root of a user namespace.
    ///
    /// # Panics
    /// When the link does not start for another reason, or the test has failed in the child process.
    #[must_use]
    pub fn start_or_skip(options: &KernelLinkOptions) -> Option<Self> {
        let source = match Self::start(options) {
            Ok(link) => return Some(link),
            Err(KernelLinkError::Unavailable(source)) => source,
            Err(error) => panic!("no link: {error:?}"),
        };
        let thread = std::thread::current();
        let test = thread.name().unwrap_or_default();
        if !run_in_user_namespace(test) {
            // Not `eprintln`, which a test that passes does not show.
            let _ = writeln!(
                io::stderr(),
                "{test} skipped: no TUN or namespaces: {source}"
            );
        }
        None
    }

    #[must_use]
    pub fn client(&self) -> &NetworkNamespace {
        &self.client
    }

    #[must_use]
    pub fn server(&self) -> &NetworkNamespace {
        &self.server
    }

    #[must_use]
    pub fn to_server(&self) -> KernelLinkDirection<'_> {
        KernelLinkDirection {
            carrier: &self.carrier,
            number: 0,
        }
    }

    #[must_use]
    pub fn to_client(&self) -> KernelLinkDirection<'_> {
        KernelLinkDirection {
            carrier: &self.carrier,
            number: 1,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct KernelLinkDirection<'a> {
    carrier: &'a PacketCarrier,
    number: usize,
}

impl KernelLinkDirection<'_> {
    /// Changes the options at once. Waiting packets follow a new rate, and the last of them are dropped if they would wait for too long.
    /// Transmitted packets keep the time of their arrival.
    pub fn change(self, change: impl FnOnce(&mut LinkDirectionOptions)) {
        self.carrier.queue(self.number).change(now(), change);
        self.carrier.wake();
    }

    /// What became of its packets so far.
    #[must_use]
    pub fn counts(self) -> PacketCounts {
        self.carrier.queue(self.number).counts()
    }
}

/// Creates the device of one end, in the namespace of the calling thread, and brings up its network.
fn set_up_end(address: Ipv4Addr, options: &KernelLinkOptions) -> io::Result<File> {
    let device = sys::create_tun(INTERFACE)?;
    // Router solicitations would be counted with the packets of a test. A kernel without IPv6 has no such file, and sends none.
    let disable_ipv6 = format!("/proc/sys/net/ipv6/conf/{INTERFACE}/disable_ipv6");
    let _ = std::fs::write(disable_ipv6, "1");
    sys::configure_interface(INTERFACE, address, options.mtu, DEVICE_QUEUE_PACKETS)?;
    sys::bring_up(INTERFACE)?;
    sys::bring_up("lo")?;
    Ok(device)
}

/// Chooses the congestion control of connections that begin in the namespaces.
fn set_congestion_control(namespaces: [&NetworkNamespace; 2], name: &str) -> io::Result<()> {
    let set = || std::fs::write("/proc/sys/net/ipv4/tcp_congestion_control", name);
    for namespace in namespaces {
        match namespace.run(set) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                // The initial namespace may use all algorithms; others only those in its list.
                let list = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
                let allowed = std::fs::read_to_string(list)?;
                std::fs::write(list, format!("{} {name}", allowed.trim_end()))?;
                namespace.run(set)?;
            }
            outcome => outcome?,
        }
    }
    Ok(())
}

/// Runs a test of this program again, as root of a user namespace, and says whether it has run there.
///
/// # Panics
/// When the test has failed there.
fn run_in_user_namespace(test: &str) -> bool {
    let (Ok(program), None) = (std::env::current_exe(), std::env::var_os(IN_USER_NAMESPACE)) else {
        return false;
    };
    // A process with several threads, such as this one, cannot enter a user namespace.
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net"])
        .arg(program)
        .args(["--exact", test, "--nocapture"])
        .env(IN_USER_NAMESPACE, "yes")
        .output();
    let Ok(output) = output else {
        return false;
    };
    let messages = String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), Some(TESTS_FAILED), "{messages}");
    let _ = write!(io::stderr(), "{messages}");
    // Without a test of this name, such as the main thread's, nothing has run.
    String::from_utf8_lossy(&output.stdout).contains("1 passed")
}
