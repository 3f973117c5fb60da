//! One direction of a kernel link: when each packet arrives, and which packets never do. No clock and no I/O.
//!
//! A packet first waits for the transmitter, which sends one packet at a time at the rate of the link. Then it travels for the delay. The
//! driver calls [`PacketQueue::push`] for each packet that it reads and [`PacketQueue::pop`] until nothing is due, and calls again at
//! [`PacketQueue::next_event`]. Loss is drawn before the queue, so a lost packet takes no time of the transmitter.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::content::mix;

/// The largest number of packets in one direction: a second of 1 Gbit/s.
const MAX_PACKETS: usize = 1 << 17;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkDirectionOptions {
    /// The time from the end of a packet's transmission to its arrival.
    pub delay: Duration,
    /// The rate of the transmitter, IP headers included. `None`: a transmission takes no time.
    pub bits_per_second: Option<u64>,
    /// A packet that would wait longer than this for the transmitter is dropped.
    pub queue_time: Duration,
    /// The share of packets that are lost by chance, from 0 to 1.
    pub loss: f64,
    /// The share of packets that skip the delay and overtake those before them, from 0 to 1.
    pub reordering: f64,
    /// Longer IP packets are dropped without an ICMP message: a black hole for path MTU discovery.
    pub max_packet: usize,
    /// Whether the link is down. Then all packets are dropped, also those on their way that arrive meanwhile.
    pub is_down: bool,
}

impl Default for LinkDirectionOptions {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            bits_per_second: None,
            // A common size of a router's queue: the round trip of a far link.
            queue_time: Duration::from_millis(100),
            loss: 0.0,
            reordering: 0.0,
            max_packet: usize::MAX,
            is_down: false,
        }
    }
}

/// What became of the packets of one direction. Packets still on their way are not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// Packets given to the receiving kernel.
    pub delivered: u64,
    /// Packets dropped because the queue was too long.
    pub queue_full: u64,
    /// Packets lost by chance.
    pub lost: u64,
    /// Packets dropped because they were longer than `max_packet`.
    pub too_large: u64,
    /// Packets dropped while the link was down.
    pub while_down: u64,
}

/// A packet that waits for the transmitter.
#[derive(Debug)]
struct WaitingPacket {
    bytes: Box<[u8]>,
    delay: Duration,
}

/// The packets in one direction.
#[derive(Debug)]
pub(super) struct PacketQueue {
    options: LinkDirectionOptions,
    counts: PacketCounts,
    waiting: VecDeque<WaitingPacket>,
    waiting_bytes: usize,
    /// When the transmitter has sent the packets that it has begun to send.
    free_at: Instant,
    /// Transmitted packets by the time of their arrival. A number keeps the order of packets that arrive at the same time.
    travelling: BTreeMap<(Instant, u64), Box<[u8]>>,
    transmitted: u64,
    seed: u64,
    /// How many random numbers were drawn.
    drawn: u64,
}

impl PacketQueue {
    pub(super) fn new(options: LinkDirectionOptions, seed: u64, now: Instant) -> Self {
        Self {
            options,
            counts: PacketCounts::default(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            free_at: now,
            travelling: BTreeMap::new(),
            transmitted: 0,
            seed,
            drawn: 0,
        }
    }

    pub(super) fn counts(&self) -> PacketCounts {
        self.counts
    }

    /// Changes the options. Packets that were transmitted keep the time of their arrival; those that now wait too long are dropped.
    pub(super) fn change(&mut self, now: Instant, change: impl FnOnce(&mut LinkDirectionOptions)) {
        self.transmit(now);
        change(&mut self.options);
        while self.waiting_time(now) > self.options.queue_time
            && let Some(packet) = self.waiting.pop_back()
        {
            self.waiting_bytes -= packet.bytes.len();
            self.counts.queue_full += 1;
        }
    }

    /// Takes a packet from the sending kernel.
    pub(super) fn push(&mut self, now: Instant, bytes: &[u8]) {
        self.transmit(now);
        let options = self.options;
        let dropped = if options.is_down {
            Some(&mut self.counts.while_down)
        } else if bytes.len() > options.max_packet {
            Some(&mut self.counts.too_large)
        } else if self.draw(options.loss) {
            Some(&mut self.counts.lost)
        } else if self.waiting_time(now) > options.queue_time
            || self.waiting.len() + self.travelling.len() == MAX_PACKETS
        {
            Some(&mut self.counts.queue_full)
        } else {
            None
        };
        if let Some(count) = dropped {
            *count += 1;
            return;
        }
        let delay = if self.draw(options.reordering) {
            Duration::ZERO
        } else {
            options.delay
        };
        self.free_at = self.free_at.max(now);
        self.waiting_bytes += bytes.len();
        self.waiting.push_back(WaitingPacket {
            bytes: bytes.into(),
            delay,
        });
        self.transmit(now);
    }

    /// The next packet that has arrived.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Box<[u8]>> {
        self.transmit(now);
        while let Some(next) = self.travelling.first_entry()
            && next.key().0 <= now
        {
            let bytes = next.remove();
            if !self.options.is_down {
                self.counts.delivered += 1;
                return Some(bytes);
            }
            self.counts.while_down += 1;
        }
        None
    }

    /// When to call `pop` again, unless a packet is pushed before. `None`: there are no packets.
    pub(super) fn next_event(&self) -> Option<Instant> {
        let arrival = self.travelling.first_key_value().map(|(key, _)| key.0);
        let transmission = (!self.waiting.is_empty()).then_some(self.free_at);
        arrival.into_iter().chain(transmission).min()
    }

    /// Transmits waiting packets whose turn has come.
    fn transmit(&mut self, now: Instant) {
        while self.free_at <= now
            && let Some(packet) = self.waiting.pop_front()
        {
            self.waiting_bytes -= packet.bytes.len();
            self.free_at += self.transmission_time(packet.bytes.len());
            let key = (self.free_at + packet.delay, self.transmitted);
            self.travelling.insert(key, packet.bytes);
            self.transmitted += 1;
        }
    }

    /// How long a packet that comes now waits for the transmitter.
    fn waiting_time(&self, now: Instant) -> Duration {
        self.free_at.saturating_duration_since(now) + self.transmission_time(self.waiting_bytes)
    }

    fn transmission_time(&self, bytes: usize) -> Duration {
        let seconds = |rate: u64| bytes as f64 * 8.0 / rate.max(1) as f64;
        let rate = self.options.bits_per_second;
        rate.map_or(Duration::ZERO, |rate| {
            Duration::from_secs_f64(seconds(rate))
        })
    }

    /// Whether an event of this probability happens.
    fn draw(&mut self, probability: f64) -> bool {
        if probability <= 0.0 {
            return false;
        }
        self.drawn += 1;
        let fraction = mix(self.seed, self.drawn) as f64 / u64::MAX as f64;
        fraction < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A packet of 1000 bytes takes 1 ms.
    fn rated() -> LinkDirectionOptions {
        LinkDirectionOptions {
            delay: 10 * MS,
            bits_per_second: Some(8_000_000),
            queue_time: 3 * MS,
            ..LinkDirectionOptions::default()
        }
    }

    fn queue(options: LinkDirectionOptions) -> (PacketQueue, Instant) {
        let now = tokio::time::Instant::now().into_std();
        (PacketQueue::new(options, 1, now), now)
    }

    /// Runs the queue until it is empty: the time of each arrival, and the first byte of its packet.
    fn arrivals(queue: &mut PacketQueue, begin: Instant) -> Vec<(Duration, u8)> {
        let mut arrivals = Vec::new();
        while let Some(now) = queue.next_event() {
            while let Some(packet) = queue.pop(now) {
                arrivals.push((now - begin, packet[0]));
            }
        }
        arrivals
    }

    #[test]
    fn packets_arrive_one_transmission_apart_and_a_full_queue_drops_its_tail() {
        let (mut queue, now) = queue(rated());
        for number in 0..6 {
            queue.push(now, &[number; 1000]);
        }
        let expected: Vec<_> = (0..4).map(|n| ((11 + u32::from(n)) * MS, n)).collect();
        assert_eq!(arrivals(&mut queue, now), expected);
        let counts = queue.counts();
        assert_eq!((counts.delivered, counts.queue_full), (4, 2));
    }

    #[test]
    fn a_slower_rate_holds_for_waiting_packets_and_drops_those_that_would_wait_too_long() {
        let (mut queue, now) = queue(rated());
        for number in 0..4 {
            queue.push(now, &[number; 1000]);
        }
        queue.change(now, |options| options.bits_per_second = Some(4_000_000));
        // The first was transmitted at the old rate. The second needs 2 ms of the 3 ms that a packet may wait.
        let expected = [(11 * MS, 0), (13 * MS, 1)];
        assert_eq!(arrivals(&mut queue, now), expected);
        assert_eq!(queue.counts().queue_full, 2);
    }

    #[test]
    fn a_link_that_is_down_drops_what_comes_and_what_arrives() {
        let (mut queue, now) = queue(rated());
        queue.push(now, &[0; 1000]);
        queue.change(now, |options| options.is_down = true);
        assert_eq!(queue.pop(now + 15 * MS), None);
        queue.push(now + 15 * MS, &[1; 1000]);
        queue.change(now + 20 * MS, |options| options.is_down = false);
        queue.push(now + 20 * MS, &[2; 1000]);
        assert_eq!(arrivals(&mut queue, now), [(31 * MS, 2)]);
        assert_eq!(queue.counts().while_down, 2);
    }

    #[test]
    fn chance_follows_the_share_and_the_seed_and_reordered_packets_overtake() {
        let run = |seed| {
            let options = LinkDirectionOptions {
                loss: 0.2,
                reordering: 0.1,
                bits_per_second: None,
                ..rated()
            };
            let (_, now) = queue(options);
            let mut queue = PacketQueue::new(options, seed, now);
            for number in 0..1000_u32 {
                queue.push(now, &[u8::try_from(number % 250).unwrap()]);
            }
            (arrivals(&mut queue, now), queue.counts())
        };
        let (packets, counts) = run(1);
        assert!((150..250).contains(&counts.lost), "{counts:?}");
        assert_eq!(counts.delivered + counts.lost, 1000);
        let early = packets.iter().take_while(|(time, _)| time.is_zero());
        assert!((50..120).contains(&early.count()), "{packets:?}");
        assert_eq!(run(1).0, packets);
        assert_ne!(run(2).0, packets);
    }
}
