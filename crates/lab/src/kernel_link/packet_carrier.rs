//! The thread that carries the packets of a kernel link between two TUN devices.
//!
//! It sleeps until a packet can be read or is due. Without packets it does not run at all.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::thread::{nanosleep, set_current_timer_slack};

use super::packet_queue::PacketQueue;
use super::sys;

/// Packets that are read before the thread looks for due ones: about 0.1 ms of work.
const MAX_READS: usize = 64;

/// The largest IP packet.
const MAX_PACKET_BYTES: usize = 1 << 16;

/// The name of the thread. `haul bench` does not count threads whose names begin so as the client's.
const THREAD_NAME: &str = "haul-lab-link";

/// The pause before each sleep. Packets that come meanwhile are carried together, one or two at 500 Mbit/s: this saves a quarter of the CPU
/// time.
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000,
};

/// The two directions, and what wakes the thread.
#[derive(Debug)]
struct SharedPackets {
    /// To the server, and to the client.
    queues: [Mutex<PacketQueue>; 2],
    /// Of the client, and of the server.
    devices: [File; 2],
    wake: OwnedFd,
    is_stopping: AtomicBool,
}

/// The running thread; dropping this stops it.
#[derive(Debug)]
pub(super) struct PacketCarrier {
    shared: Arc<SharedPackets>,
    /// `None` once it was stopped.
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl PacketCarrier {
    /// Carries packets from the first device to the second through the first queue, and back through the second queue.
    pub(super) fn start(devices: [File; 2], queues: [PacketQueue; 2]) -> io::Result<Self> {
        let shared = Arc::new(SharedPackets {
            queues: queues.map(Mutex::new),
            devices,
            wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            is_stopping: AtomicBool::new(false),
        });
        let carried = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name(THREAD_NAME.into());
        Ok(Self {
            thread: Some(thread.spawn(move || carried.carry())?),
            shared,
        })
    }

    pub(super) fn queue(&self, number: usize) -> MutexGuard<'_, PacketQueue> {
        self.shared.queue(number)
    }

    /// Has the thread look at the queues again.
    pub(super) fn wake(&self) {
        // It fails only if the counter is full, and then the thread wakes up anyway.
        let _ = rustix::io::write(&self.shared.wake, &1_u64.to_ne_bytes());
    }
}

impl Drop for PacketCarrier {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        self.wake();
        let ended = self.thread.take().map(JoinHandle::join);
        if !matches!(ended, None | Some(Ok(Ok(())))) && !std::thread::panicking() {
            panic!("the thread of a kernel link failed: {ended:?}");
        }
    }
}

impl SharedPackets {
    fn queue(&self, number: usize) -> MutexGuard<'_, PacketQueue> {
        let queue = self.queues[number].lock();
        queue.unwrap_or_else(PoisonError::into_inner)
    }

    fn carry(&self) -> io::Result<()> {
        // By default the kernel wakes a thread up to 50 µs late, to save wake-ups.
        set_current_timer_slack(NonZeroU64::new(1))?;
        // On a busy machine packets are otherwise late by milliseconds. Only root may do this.
        let _ = sys::request_realtime_priority();
        let mut buffer = vec![0; MAX_PACKET_BYTES];
        while !self.is_stopping.load(Ordering::Acquire) {
            let to_server = self.carry_direction(0, &mut buffer)?;
            let to_client = self.carry_direction(1, &mut buffer)?;
            self.wait(to_server.into_iter().chain(to_client).min())?;
        }
        Ok(())
    }

    /// Reads and writes packets of one direction. Returns when the next one is due.
    fn carry_direction(&self, number: usize, buffer: &mut [u8]) -> io::Result<Option<Instant>> {
        let mut queue = self.queue(number);
        let (mut from, mut to) = (&self.devices[number], &self.devices[1 - number]);
        for _ in 0..MAX_READS {
            match from.read(buffer) {
                Ok(length) => queue.push(now(), &buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        while let Some(packet) = queue.pop(now()) {
            // A device that was taken down refuses packets: they are lost.
            let _ = to.write(&packet);
        }
        Ok(queue.next_event())
    }

    /// Pauses, then sleeps until there is a packet to read, the thread is woken, or it is time for the next event.
    fn wait(&self, next_event: Option<Instant>) -> io::Result<()> {
        let _ = nanosleep(&PAUSE);
        let sleep = next_event.map(|at| at.saturating_duration_since(now()));
        // Longer than 292 billion years is for ever.
        let timeout = sleep.and_then(|sleep| Timespec::try_from(sleep).ok());
        let [client, server] = &self.devices;
        let mut descriptors = [
            PollFd::new(client, PollFlags::IN),
            PollFd::new(server, PollFlags::IN),
            PollFd::new(&self.wake, PollFlags::IN),
        ];
        match poll(&mut descriptors, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if descriptors[2].revents().contains(PollFlags::IN) {
            // Resets the counter.
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        }
        Ok(())
    }
}

pub(super) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
