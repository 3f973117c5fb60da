//! Each target over its kept inputs and some thousand mutations of them, always the same: what libFuzzer does for hours, in seconds.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it is"
)]

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use haul_fuzz::{FuzzTarget, TARGETS};

/// Mutations of the inputs of each target.
const MUTATIONS: u64 = 2000;

/// The longest mutation, in bytes.
const MAX_LENGTH: usize = 16 << 10;

/// Far more than any run takes on a busy machine.
const MAX_TIME: Duration = Duration::from_secs(20);

/// Pieces of text that mean something to many parsers.
const TOKENS: [&[u8]; 32] = [
    b"\"",
    b"\\",
    b",",
    b";",
    b"=",
    b":",
    b"/",
    b"..",
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b"%00",
    b"%2F",
    b"%",
    b"<",
    b">",
    b"&#0;",
    b"{",
    b"}",
    b"[",
    b"]",
    b"-",
    b"*",
    b"\xff",
    b"\xc3\xa4",
    b"\xe2\x80\xae",
    b"\xef\xbb\xbf",
    b"--",
    b"'",
];

/// Numbers at the edge of a type, or beyond.
const NUMBERS: [&[u8]; 12] = [
    b"0",
    b"-1",
    b"1",
    b"255",
    b"65536",
    b"4294967295",
    b"9223372036854775807",
    b"9223372036854775808",
    b"18446744073709551615",
    b"18446744073709551616",
    b"99999999999999999999999999",
    b"ffffffffffffffff",
];

/// A generator of numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, or 0.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % (end.max(1) as u64)).unwrap()
    }

    fn choose<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// A range of `bytes`, mostly a short one.
    fn span(&mut self, bytes: &[u8]) -> std::ops::Range<usize> {
        let start = self.below(bytes.len() + 1);
        let longest = bytes.len() - start;
        let longest = if self.below(4) == 0 {
            longest
        } else {
            longest.min(16)
        };
        start..start + self.below(longest + 1)
    }

    /// One of the inputs after one to four changes.
    fn mutation(&mut self, inputs: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = self.choose(inputs).clone();
        for _ in 0..=self.below(4) {
            self.change(&mut bytes, inputs);
        }
        bytes.truncate(MAX_LENGTH);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, inputs: &[Vec<u8>]) {
        let at = self.below(bytes.len());
        match self.below(10) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
            1 if !bytes.is_empty() => bytes[at] = self.next().to_le_bytes()[0],
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(self.span(bytes))),
            4 => {
                let copied = bytes[self.span(bytes)].to_vec();
                drop(bytes.splice(at..at, copied));
            }
            5 if self.below(8) == 0 => {
                let copied = bytes[self.span(bytes)].repeat(1 << self.below(12));
                drop(bytes.splice(at..at, copied));
            }
            6 => {
                let other = self.choose(inputs);
                let copied = other[self.span(other)].to_vec();
                let replaced = self.span(bytes);
                drop(bytes.splice(replaced, copied));
            }
            7 => self.replace_number(bytes),
            _ => drop(bytes.splice(at..at, self.choose(&TOKENS).iter().copied())),
        }
    }

    /// Replaces the digits behind some place.
    fn replace_number(&mut self, bytes: &mut Vec<u8>) {
        let from = self.below(bytes.len());
        let Some(start) = bytes[from..].iter().position(u8::is_ascii_digit) else {
            return;
        };
        let start = from + start;
        let length = bytes[start..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        drop(bytes.splice(start..start + length, self.choose(&NUMBERS).iter().copied()));
    }
}

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The kept inputs of a target, in the order of their names.
fn inputs(name: &str) -> Vec<Vec<u8>> {
    let files = fs::read_dir(directory("corpus").join(name)).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Runs a target; the error says for which input it fails.
fn check(name: &str, target: FuzzTarget, input: &[u8]) -> Result<(), String> {
    let started = tokio::time::Instant::now();
    let is_panic = catch_unwind(|| target(input)).is_err();
    let taken = started.elapsed();
    if is_panic || taken > MAX_TIME {
        Err(format!(
            "{name} fails, or takes long ({taken:?}): b\"{}\"",
            input.escape_ascii()
        ))
    } else {
        Ok(())
    }
}

/// Runs a target over all its inputs, up to the first failure.
fn check_all(name: &str, target: FuzzTarget) -> Result<(), String> {
    let inputs = inputs(name);
    check(name, target, b"")?;
    for input in &inputs {
        check(name, target, input)?;
    }
    for seed in 0..MUTATIONS {
        let mutation = Random(seed << 32).mutation(&inputs);
        check(name, target, &mutation)?;
    }
    Ok(())
}

#[test]
fn targets_take_kept_inputs_and_their_mutations() {
    let left = Mutex::new(TARGETS.iter());
    let failures = Mutex::new(Vec::new());
    let work = || {
        loop {
            let next = left.lock().unwrap().next();
            let Some((name, target)) = next else { return };
            let result = check_all(name, *target);
            failures.lock().unwrap().extend(result.err());
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn each_target_has_a_program_and_kept_inputs() {
    let names: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names.len(), TARGETS.len());
    let stems = |path| -> BTreeSet<String> {
        let entries = fs::read_dir(directory(path)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(stems("fuzz_targets"), names);
    assert_eq!(stems("corpus"), names);
    let manifest = fs::read_to_string(directory("Cargo.toml")).unwrap();
    for name in &names {
        assert!(
            manifest.contains(&format!(
                "{{ name = \"{name}\", path = \"fuzz_targets/{name}.rs\""
            )),
            "{name}"
        );
        assert!(!inputs(name).is_empty(), "{name}");
    }
}
