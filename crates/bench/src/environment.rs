//! Where a run took place: the machine, the kernel, and what haul it was.

use std::fs;

use crate::results::BenchEnvironment;

/// Describes this machine and this program. `command` is the command line as the user typed it, without secrets.
#[must_use]
pub fn bench_environment(command: String) -> BenchEnvironment {
    let system = rustix::system::uname();
    let kernel = [system.sysname(), system.release(), system.machine()];
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = field("/proc/meminfo", "MemTotal")
        .and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    BenchEnvironment {
        haul: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("HAUL_COMMIT").unwrap_or_default().to_owned(),
        command,
        kernel: kernel.map(|part| part.to_string_lossy()).join(" "),
        cpu: field("/proc/cpuinfo", "model name").unwrap_or_default(),
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        memory: memory.unwrap_or_default().saturating_mul(1024),
    }
}

/// The first value of a field in a file of `/proc`.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(field, _)| field.trim() == name)?;
    Some(value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_a_kernel_a_processor_and_memory() {
        let found = bench_environment("haul bench all".to_owned());
        assert!(found.cpus > 0 && !found.kernel.is_empty());
        if cfg!(target_os = "linux") {
            assert!(found.memory > 1 << 20 && found.kernel.starts_with("Linux "));
        }
    }
}
