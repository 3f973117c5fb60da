//! Generated files for batches: any number of files, each a function of its path, with faults in given shares.
//!
//! Nothing is stored. Length and content of a file follow from the seed, its path and its version. Which request for it fails, and how,
//! follows from the seed, the path and the request's number. So a batch meets the same faults in every run, in any order and over any
//! number of connections, and a test knows the outcome of each file beforehand.
//!
//! *Transient* faults are drawn for each of the first requests for a file; later requests succeed, so that retries get the file.
//! *Permanent* faults are drawn once for a file, and every request for it fails.

mod fault;

use std::ops::Range;

use crate::content::{ResourceContent, mix};
use crate::origin::{OriginResource, RecordedRequest, RequestMatcher};
pub use fault::FileFault;

/// The default for how many requests for a file may have transient faults: fewer than any budget of retries.
const MAX_TRANSIENT_FAULTS: usize = 3;

/// Independent streams of random numbers.
#[derive(Debug, Clone, Copy)]
enum RandomStream {
    Length = 1,
    Content,
    Tag,
    PermanentFault,
    TransientFault,
    Changing,
}

/// Generated files. Built by the methods, then passed to [`OriginBuilder::generated_files`](crate::OriginBuilder::generated_files). A test
/// keeps a clone to look up what was served.
#[derive(Debug, Clone)]
pub struct GeneratedFiles {
    /// Different seeds give different files.
    seed: u64,
    /// The lengths of files in bytes.
    lengths: Range<u64>,
    /// The share of files that always fail, by fault.
    permanent_faults: Vec<(FileFault, f64)>,
    /// The share of the first requests that fail, by fault.
    transient_faults: Vec<(FileFault, f64)>,
    /// How many requests for a file may have transient faults.
    max_transient_faults: usize,
    /// The share of files that change after their first request.
    changing_share: f64,
}

impl GeneratedFiles {
    /// Files of lengths in a range, without faults.
    #[must_use]
    pub fn new(seed: u64, lengths: Range<u64>) -> Self {
        Self {
            seed,
            lengths,
            permanent_faults: Vec::new(),
            transient_faults: Vec::new(),
            max_transient_faults: MAX_TRANSIENT_FAULTS,
            changing_share: 0.0,
        }
    }

    /// Every request for this share of the files has the fault. Shares of several faults add up: no file has two.
    #[must_use]
    pub fn with_permanent_fault(mut self, fault: FileFault, share: f64) -> Self {
        self.permanent_faults.push((fault, share));
        self
    }

    /// This share of the first requests for each file has the fault. Shares of several faults add up: no request has two.
    #[must_use]
    pub fn with_transient_fault(mut self, fault: FileFault, share: f64) -> Self {
        self.transient_faults.push((fault, share));
        self
    }

    /// Limits transient faults to the first `requests` for a file.
    #[must_use]
    pub fn max_transient_faults(mut self, requests: usize) -> Self {
        self.max_transient_faults = requests;
        self
    }

    /// From the second request on, this share of the files has another version, with another tag, length and content.
    #[must_use]
    pub fn with_changing_files(mut self, share: f64) -> Self {
        self.changing_share = share;
        self
    }

    /// The content of a file in a version: 0, or 1 for files that change.
    #[must_use]
    pub fn content(&self, path: &str, version: u64) -> ResourceContent {
        let span = (self.lengths.end - self.lengths.start).max(1);
        let length =
            self.lengths.start + self.random_number(path, RandomStream::Length, version) % span;
        ResourceContent::random(
            self.random_number(path, RandomStream::Content, version),
            length,
        )
    }

    /// The version of a file that its n-th request gets.
    #[must_use]
    pub fn version(&self, path: &str, request: usize) -> u64 {
        let changes = self.random_share(path, RandomStream::Changing, 0) < self.changing_share;
        u64::from(changes && request > 0)
    }

    /// The fault of every request for a file.
    #[must_use]
    pub fn permanent_fault(&self, path: &str) -> Option<FileFault> {
        fault_at(
            &self.permanent_faults,
            self.random_share(path, RandomStream::PermanentFault, 0),
        )
    }

    /// The fault of the n-th request for a file.
    #[must_use]
    pub fn fault_for(&self, path: &str, request: usize) -> Option<FileFault> {
        let transient = || {
            let drawn = self.random_share(path, RandomStream::TransientFault, request as u64);
            fault_at(&self.transient_faults, drawn).filter(|_| request < self.max_transient_faults)
        };
        self.permanent_fault(path).or_else(transient)
    }

    pub(crate) fn resource(&self, request: &RecordedRequest) -> OriginResource {
        let path = request.path();
        let version = self.version(path, request.number_for_path);
        let tag = self.random_number(path, RandomStream::Tag, version);
        let resource =
            OriginResource::new(self.content(path, version)).etag(&format!("\"{tag:x}\""));
        match self.fault_for(path, request.number_for_path) {
            Some(fault) => resource.rule(RequestMatcher::always(), move |request, response| {
                fault.apply(request, response);
            }),
            None => resource,
        }
    }

    /// A random number that depends on nothing else than the seed and these arguments.
    fn random_number(&self, path: &str, stream: RandomStream, index: u64) -> u64 {
        // FNV-1a spreads names; `mix` spreads its weak low bits.
        let name = path.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        mix(mix(self.seed, name), (stream as u64) << 32 | index)
    }

    /// The same as a number from 0 to 1.
    fn random_share(&self, path: &str, stream: RandomStream, index: u64) -> f64 {
        (self.random_number(path, stream, index) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The fault that a random number selects by the shares.
fn fault_at(shares: &[(FileFault, f64)], drawn: f64) -> Option<FileFault> {
    let mut end = 0.0;
    shares.iter().find_map(|(fault, share)| {
        end += share;
        (drawn < end).then_some(*fault)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths() -> Vec<String> {
        (0..20_000).map(|n| format!("/{n}")).collect()
    }

    /// How many of 10,000 paths satisfy `is`.
    fn share(is: impl Fn(&str) -> bool) -> usize {
        paths().iter().filter(|path| is(path)).count() / 2
    }

    #[test]
    fn shares_are_kept_and_seeds_give_different_files() {
        let files = |seed| {
            GeneratedFiles::new(seed, 1..1000)
                .with_permanent_fault(FileFault::Status404, 0.01)
                .with_transient_fault(FileFault::Reset, 0.02)
                .with_transient_fault(FileFault::Stall, 0.03)
                .with_changing_files(0.1)
        };
        let one = files(1);
        let near = |found: usize, wanted: usize| found.abs_diff(wanted) < wanted / 4;
        let missing = share(|path| one.fault_for(path, 0) == Some(FileFault::Status404));
        assert!(near(missing, 100), "{missing}");
        for request in 0..MAX_TRANSIENT_FAULTS {
            let reset = share(|path| one.fault_for(path, request) == Some(FileFault::Reset));
            let stalled = share(|path| one.fault_for(path, request) == Some(FileFault::Stall));
            assert!(near(reset, 200) && near(stalled, 300), "{reset} {stalled}");
        }
        assert!(near(share(|path| one.version(path, 1) == 1), 1000));
        let other = files(2);
        assert!(share(|path| one.fault_for(path, 0) == other.fault_for(path, 0)) < 9_900);
        assert_ne!(
            one.content("/1", 0).to_vec(),
            other.content("/1", 0).to_vec()
        );
    }

    #[test]
    fn transient_faults_end_and_permanent_ones_do_not() {
        let files = GeneratedFiles::new(1, 1..2)
            .with_permanent_fault(FileFault::Status404, 0.5)
            .with_transient_fault(FileFault::Reset, 1.0)
            .max_transient_faults(2);
        for path in paths() {
            let faults: Vec<_> = (0..4).map(|n| files.fault_for(&path, n)).collect();
            let (missing, reset) = (Some(FileFault::Status404), Some(FileFault::Reset));
            match files.permanent_fault(&path) {
                None => assert_eq!(faults, [reset, reset, None, None]),
                Some(_) => assert_eq!(faults, [missing; 4]),
            }
        }
    }

    #[test]
    fn files_have_all_lengths_and_versions_differ() {
        let files = GeneratedFiles::new(1, 1..17).with_changing_files(1.0);
        let lengths: std::collections::BTreeSet<u64> = paths()
            .iter()
            .map(|path| files.content(path, 0).length())
            .collect();
        assert!(lengths.into_iter().eq(1..17));
        assert_eq!((files.version("/1", 0), files.version("/1", 1)), (0, 1));
        assert_ne!(
            files.content("/1", 0).to_vec(),
            files.content("/1", 1).to_vec()
        );
    }
}
