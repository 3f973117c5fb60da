//! CPU time and memory of processes, as Linux's /proc tells them. Other systems have no readings.
//!
//! The split into user and system time is counted in clock ticks, which a short measurement has few of. The scheduler knows the time of each
//! thread to the nanosecond (`schedstat`), without the split. So the ticks give the proportions, and the scheduler the sum.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::lab::LAB_THREAD_NAME;
use crate::Measurement;
use crate::measurement::{CpuTime, ThreadCounts};

/// The sum of ticks may differ by this from the precise time: a tick of 10 ms for each of both parts at each end. A larger difference is the
/// time of threads that have ended, which only the ticks have.
const TICK_ERROR: Duration = Duration::from_millis(40);

/// The usage of a process at a moment.
#[derive(Debug, Clone, Default)]
struct ProcessUsage {
    /// Of all threads, also of those that have ended.
    ticks: CpuTicks,
    /// The threads that there are, by their numbers.
    threads: BTreeMap<u32, ThreadUsage>,
}

#[derive(Debug, Clone, Default)]
struct ThreadUsage {
    name: String,
    ticks: CpuTicks,
    /// The precise time.
    cpu: Duration,
}

/// CPU time that was counted in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct CpuTicks {
    user: Duration,
    system: Duration,
}

/// Measures processes, and our own, from its start to its end.
#[derive(Debug)]
pub struct UsageMeter {
    client: Option<ProcessUsage>,
    /// Our own CPU time, to the nanosecond.
    client_cpu: Duration,
    servers: Vec<(u32, Option<ProcessUsage>)>,
}

impl UsageMeter {
    /// Begins to measure our own process, and servers: none, for a server that is elsewhere.
    #[must_use]
    pub fn start(server_pids: &[u32]) -> Self {
        let own = std::process::id();
        for pid in server_pids.iter().chain([&own]) {
            // Where that is not permitted, a peak is that of the process's life.
            let _ = std::fs::write(proc_path(*pid, "clear_refs"), "5");
        }
        let servers = server_pids
            .iter()
            .map(|pid| (*pid, ProcessUsage::read(*pid)));
        Self {
            servers: servers.collect(),
            client: ProcessUsage::read(own),
            client_cpu: own_cpu(),
        }
    }

    /// Notes the usage since the start, over the wall time of the measurement: CPU time of our own process without the threads of lab servers, its
    /// memory with them, and the sums of the servers. What is unknown stays `None`: on another system than Linux, or of a process that has ended.
    pub fn finish(self, measurement: &mut Measurement) {
        let wall = Duration::try_from_secs_f64(measurement.wall_s).unwrap_or_default();
        let own_pid = std::process::id();
        let own_cpu = own_cpu().saturating_sub(self.client_cpu);
        let client = ProcessUsage::read(own_pid).zip(self.client);
        measurement.client_cpu = client.map(|(end, start)| end.client_cpu_since(&start, own_cpu));
        measurement.client_memory = peak_memory(own_pid);
        let servers: Option<Vec<_>> = self
            .servers
            .iter()
            .map(|(pid, start)| {
                let end = ProcessUsage::read(*pid)?;
                Some((end, start.as_ref()?, peak_memory(*pid)))
            })
            // All of them, or nothing would be known of the sum.
            .collect();
        let Some(servers) = servers.filter(|servers| !servers.is_empty()) else {
            return;
        };
        let (mut cpu, mut counts) = (CpuTime::default(), ThreadCounts::default());
        for (end, start, _) in &servers {
            let (used, threads) = (end.cpu_since(start), end.threads_since(start, wall));
            cpu.user_s += used.user_s;
            cpu.system_s += used.system_s;
            counts.busy += threads.busy;
            counts.idle += threads.idle;
        }
        measurement.server_cpu = Some(cpu);
        measurement.server_threads = Some(counts);
        measurement.server_memory = servers.iter().map(|(.., memory)| *memory).sum();
    }
}

impl ProcessUsage {
    /// Reads it. `None` without such a process, or without /proc.
    fn read(pid: u32) -> Option<Self> {
        let mut usage = Self {
            ticks: CpuTicks::read(proc_path(pid, "stat"))?,
            threads: BTreeMap::new(),
        };
        for entry in std::fs::read_dir(proc_path(pid, "task")).ok()? {
            let entry = entry.ok()?;
            // A thread may end meanwhile.
            if let Some(number) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
                && let Some(thread) = ThreadUsage::read(&entry.path())
            {
                usage.threads.insert(number, thread);
            }
        }
        Some(usage)
    }

    /// CPU time since an earlier reading.
    fn cpu_since(&self, start: &Self) -> CpuTime {
        let ticks = self.ticks.since(start.ticks);
        let precise: Duration = self.threads_with(start).map(|(_, cpu, _)| cpu).sum();
        let has_ended_threads = ticks.total() > precise + TICK_ERROR;
        ticks.scaled_to(if has_ended_threads {
            ticks.total()
        } else {
            precise
        })
    }

    /// CPU time of our own process, which was `total` with the threads of lab servers.
    fn client_cpu_since(&self, start: &Self, total: Duration) -> CpuTime {
        let lab = self
            .threads_with(start)
            .filter(|(thread, ..)| thread.name.starts_with(LAB_THREAD_NAME));
        let (mut ticks, mut total) = (self.ticks.since(start.ticks), total);
        for (_, cpu, thread_ticks) in lab {
            ticks = ticks.since(thread_ticks);
            total = total.saturating_sub(cpu);
        }
        ticks.scaled_to(total)
    }

    fn threads_since(&self, start: &Self, wall: Duration) -> ThreadCounts {
        let mut counts = ThreadCounts::default();
        for (_, cpu, _) in self.threads_with(start) {
            if cpu * 2 >= wall {
                counts.busy += 1
            } else {
                counts.idle += 1
            }
        }
        counts
    }

    /// The threads that there are, and what each has used since an earlier reading.
    fn threads_with(
        &self,
        start: &Self,
    ) -> impl Iterator<Item = (&ThreadUsage, Duration, CpuTicks)> {
        self.threads.iter().map(|(number, thread)| {
            let earlier = start.threads.get(number).cloned().unwrap_or_default();
            let cpu = thread.cpu.saturating_sub(earlier.cpu);
            (thread, cpu, thread.ticks.since(earlier.ticks))
        })
    }
}

impl ThreadUsage {
    fn read(directory: &std::path::Path) -> Option<Self> {
        let ticks = CpuTicks::read(directory.join("stat"))?;
        let precise = std::fs::read_to_string(directory.join("schedstat"))
            .ok()
            .and_then(|text| text.split_whitespace().next()?.parse().ok());
        Some(Self {
            name: std::fs::read_to_string(directory.join("comm")).ok()?,
            ticks,
            // A kernel may be built without.
            cpu: precise.map_or_else(|| ticks.total(), Duration::from_nanos),
        })
    }
}

impl CpuTicks {
    /// Reads fields 14 and 15 of a file `stat` (proc(5)). The name before them may hold anything.
    fn read(path: PathBuf) -> Option<Self> {
        let text = std::fs::read_to_string(path).ok()?;
        let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
        let mut next = || {
            let ticks: u64 = fields.next()?.parse().ok()?;
            let per_second = rustix::param::clock_ticks_per_second().max(1);
            Some(Duration::from_millis(
                ticks.saturating_mul(1000) / per_second,
            ))
        };
        Some(Self {
            user: next()?,
            system: next()?,
        })
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }

    fn total(self) -> Duration {
        self.user + self.system
    }

    /// The same proportions of another sum. What is less than a tick counts as user time.
    fn scaled_to(self, total: Duration) -> CpuTime {
        let share = match self.total().as_secs_f64() {
            0.0 => 0.0,
            ticks => self.system.as_secs_f64() / ticks,
        };
        // As durations, whose difference is never below zero.
        let system = total.mul_f64(share).min(total);
        CpuTime {
            user_s: (total - system).as_secs_f64(),
            system_s: system.as_secs_f64(),
        }
    }
}

/// CPU time of our own process, with that of threads that have ended.
fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// The peak of resident memory in bytes.
fn peak_memory(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(proc_path(pid, "status")).ok()?;
    let (_, rest) = status.split_once("VmHWM:")?;
    let kib: u64 = rest.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

fn proc_path(pid: u32, file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{file}"))
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::servers::LabServers;

    /// Uses CPU time until this thread has had so much.
    fn burn(time: Duration) {
        let cpu = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
        let end = cpu() + time;
        while cpu() < end {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn a_busy_thread_is_told_from_an_idle_one() {
        let is_done = AtomicBool::new(false);
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            scope.spawn(move || receiver.recv());
            let own = ProcessUsage::read(std::process::id()).unwrap();
            // Other tests use the processors, too. So the time is that of a thread, and not the clock's.
            let busy_time =
                |end: &ProcessUsage| end.threads_with(&own).map(|(_, cpu, _)| cpu).max().unwrap();
            let end = loop {
                let end = ProcessUsage::read(std::process::id()).unwrap();
                if busy_time(&end) > Duration::from_millis(100) {
                    break end;
                }
                std::thread::yield_now();
            };
            is_done.store(true, Ordering::Relaxed);
            sender.send(()).unwrap();
            let counts = end.threads_since(&own, busy_time(&end));
            assert!(counts.busy >= 1 && counts.idle >= 1, "{counts:?}");
        });
    }

    #[test]
    fn the_client_is_our_process_without_the_threads_of_lab_servers() {
        let lab = LabServers::new().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let start = ProcessUsage::read(std::process::id()).unwrap();
        let lab_burns = async { burn(Duration::from_millis(300)) };
        runtime.block_on(lab.start(lab_burns)).unwrap();
        // A thread that ends is not forgotten.
        let thread = std::thread::spawn(|| burn(Duration::from_millis(200)));
        thread.join().unwrap();
        let end = ProcessUsage::read(std::process::id()).unwrap();
        let total = Duration::from_secs(10);
        let client = end.client_cpu_since(&start, total);
        // `total` is any time here, since other tests run in this process. Only the time of the lab's threads is missing.
        assert!((9.0..9.72).contains(&client.total_s()), "{client:?}");
        assert!(client.user_s > 0.0);
        let with_ended_threads = end.cpu_since(&start);
        assert!(
            with_ended_threads.total_s() > 0.45,
            "{with_ended_threads:?}"
        );
    }

    #[tokio::test]
    async fn the_cpu_time_and_memory_of_a_child_are_measured() {
        let loop_forever = "while :; do :; done";
        let mut command = tokio::process::Command::new("/bin/sh");
        let child = command
            .args(["-c", loop_forever])
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let pid = child.id().unwrap();
        let meter = UsageMeter::start(&[pid]);
        let began = ProcessUsage::read(pid).unwrap();
        let has_worked = async {
            loop {
                let used = ProcessUsage::read(pid).unwrap().cpu_since(&began);
                if used.total_s() > 0.2 {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        haul_lab::within(Duration::from_secs(60), has_worked).await;
        let mut reading = Measurement {
            wall_s: 0.2,
            ..Measurement::default()
        };
        meter.finish(&mut reading);
        let cpu = reading.server_cpu.unwrap();
        assert!(cpu.total_s() > 0.2 && cpu.user_s > cpu.system_s, "{cpu:?}");
        assert_eq!(
            reading.server_threads,
            Some(ThreadCounts { busy: 1, idle: 0 })
        );
        assert!(reading.server_memory.unwrap() > 100 << 10);
        assert!(reading.client_memory.unwrap() > 1 << 20);
        assert!(reading.client_cpu.unwrap().total_s() > 0.0);
    }

    #[test]
    fn an_unknown_process_has_no_reading() {
        let (mut reading, mut without_servers) = (Measurement::default(), Measurement::default());
        UsageMeter::start(&[u32::MAX]).finish(&mut reading);
        assert_eq!((reading.server_cpu, reading.server_memory), (None, None));
        UsageMeter::start(&[]).finish(&mut without_servers);
        assert_eq!(without_servers.server_threads, None);
        assert!(without_servers.client_memory.is_some());
    }

    #[test]
    fn ticks_give_the_proportions() {
        let millis = Duration::from_millis;
        let ticks = CpuTicks {
            user: millis(30),
            system: millis(10),
        };
        let cpu = ticks.scaled_to(millis(60));
        assert!((cpu.user_s - 0.045).abs() < 1e-9 && (cpu.system_s - 0.015).abs() < 1e-9);
        let only_system = CpuTicks {
            user: Duration::ZERO,
            ..ticks
        };
        for nanos in 0..1000 {
            let cpu = only_system.scaled_to(Duration::from_nanos(nanos));
            assert!(cpu.user_s >= 0.0, "{cpu:?}");
        }
        let without_ticks = CpuTicks::default().scaled_to(millis(3));
        assert_eq!((without_ticks.user_s, without_ticks.system_s), (0.003, 0.0));
    }
}
