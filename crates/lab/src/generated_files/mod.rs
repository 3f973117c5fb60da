//! A shelf of files for batches: as many as anybody asks for, each a function of its path, with faults in given shares.
//!
//! Nothing is stored. Length and content of a file follow from the seed, its path and its version; which request for it fails,
//! and how, from the seed, the path and the request's number. So the same batch meets the same faults in every run, in whatever
//! order and over however many connections it asks, and a test can say beforehand what must come of each file.
//!
//! Faults are of two kinds. *Passing* ones are drawn for each of the first requests for a file, after which all goes well: whoever
//! retries gets the file. *Lasting* ones are drawn once for a file and befall every request for it: nobody gets it.

mod fault;

use std::ops::Range;

use crate::content::{ResourceContent, mix};
use crate::origin::{OriginResource, RecordedRequest, RequestMatcher};
pub use fault::FileFault;

/// Requests for a file that may fail by passing faults, unless told otherwise: fewer than any budget of retries.
const MAX_TRANSIENT_FAULTS: usize = 3;

/// What draws are told apart by.
#[derive(Debug, Clone, Copy)]
enum RandomStream {
    Length = 1,
    Content,
    Tag,
    PermanentFault,
    TransientFault,
    Changing,
}

/// Many files. Built by its methods, then given to [`OriginBuilder::generated_files`](crate::OriginBuilder::generated_files); a clone tells a test
/// what was served.
#[derive(Debug, Clone)]
pub struct GeneratedFiles {
    /// Tells shelves apart.
    seed: u64,
    /// How long files are, in bytes.
    lengths: Range<u64>,
    /// Shares of files that fail always.
    permanent_faults: Vec<(FileFault, f64)>,
    /// Shares of requests that fail.
    transient_faults: Vec<(FileFault, f64)>,
    /// How many requests for a file may.
    max_transient_faults: usize,
    /// Share of files that change after the first request for them.
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

    /// Befalls every request for this share of the files. Shares of several faults add up: no file has two.
    #[must_use]
    pub fn with_permanent_fault(mut self, fault: FileFault, share: f64) -> Self {
        self.permanent_faults.push((fault, share));
        self
    }

    /// Befalls this share of the first requests for each file. Shares of several faults add up: no request has two.
    #[must_use]
    pub fn with_transient_fault(mut self, fault: FileFault, share: f64) -> Self {
        self.transient_faults.push((fault, share));
        self
    }

    /// Passing faults befall no more than the first so many requests for a file.
    #[must_use]
    pub fn max_transient_faults(mut self, requests: usize) -> Self {
        self.max_transient_faults = requests;
        self
    }

    /// This share of the files is of another version, with another tag, length and content, from the second request on.
    #[must_use]
    pub fn with_changing_files(mut self, share: f64) -> Self {
        self.changing_share = share;
        self
    }

    /// The content of a file in one of its versions: 0, and 1 for those that change.
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

    /// The version of a file that its n-th request meets.
    #[must_use]
    pub fn version(&self, path: &str, request: usize) -> u64 {
        let changes = self.random_share(path, RandomStream::Changing, 0) < self.changing_share;
        u64::from(changes && request > 0)
    }

    /// The fault that befalls every request for a file.
    #[must_use]
    pub fn permanent_fault(&self, path: &str) -> Option<FileFault> {
        fault_at(
            &self.permanent_faults,
            self.random_share(path, RandomStream::PermanentFault, 0),
        )
    }

    /// The fault that befalls the n-th request for a file.
    #[must_use]
    pub fn fault_for(&self, path: &str, request: usize) -> Option<FileFault> {
        let passing = || {
            let drawn = self.random_share(path, RandomStream::TransientFault, request as u64);
            fault_at(&self.transient_faults, drawn).filter(|_| request < self.max_transient_faults)
        };
        self.permanent_fault(path).or_else(passing)
    }

    /// What a request is answered from.
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

    /// A number that follows from all of these and tells nothing of the others.
    fn random_number(&self, path: &str, about: RandomStream, index: u64) -> u64 {
        // FNV-1a spreads names; what follows spreads its weak low bits.
        let name = path.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        mix(mix(self.seed, name), (about as u64) << 32 | index)
    }

    /// The same, in 0..1.
    fn random_share(&self, path: &str, about: RandomStream, index: u64) -> f64 {
        (self.random_number(path, about, index) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Where a draw falls among shares that lie side by side.
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

    /// How many of 10,000 are so.
    fn share(is: impl Fn(&str) -> bool) -> usize {
        paths().iter().filter(|path| is(path)).count() / 2
    }

    #[test]
    fn shares_are_what_was_asked_for_and_seeds_tell_shelves_apart() {
        let shelf = |seed| {
            GeneratedFiles::new(seed, 1..1000)
                .with_permanent_fault(FileFault::Status404, 0.01)
                .with_transient_fault(FileFault::Reset, 0.02)
                .with_transient_fault(FileFault::Stall, 0.03)
                .with_changing_files(0.1)
        };
        let one = shelf(1);
        let near = |found: usize, wanted: usize| found.abs_diff(wanted) < wanted / 4;
        let missing = share(|path| one.fault_for(path, 0) == Some(FileFault::Status404));
        assert!(near(missing, 100), "{missing}");
        for request in 0..MAX_TRANSIENT_FAULTS {
            let reset = share(|path| one.fault_for(path, request) == Some(FileFault::Reset));
            let stalled = share(|path| one.fault_for(path, request) == Some(FileFault::Stall));
            assert!(near(reset, 200) && near(stalled, 300), "{reset} {stalled}");
        }
        assert!(near(share(|path| one.version(path, 1) == 1), 1000));
        let other = shelf(2);
        assert!(share(|path| one.fault_for(path, 0) == other.fault_for(path, 0)) < 9_900);
        assert_ne!(
            one.content("/1", 0).to_vec(),
            other.content("/1", 0).to_vec()
        );
    }

    #[test]
    fn passing_faults_pass_and_lasting_ones_last() {
        let shelf = GeneratedFiles::new(1, 1..2)
            .with_permanent_fault(FileFault::Status404, 0.5)
            .with_transient_fault(FileFault::Reset, 1.0)
            .max_transient_faults(2);
        for path in paths() {
            let faults: Vec<_> = (0..4).map(|n| shelf.fault_for(&path, n)).collect();
            let (missing, reset) = (Some(FileFault::Status404), Some(FileFault::Reset));
            match shelf.permanent_fault(&path) {
                None => assert_eq!(faults, [reset, reset, None, None]),
                Some(_) => assert_eq!(faults, [missing; 4]),
            }
        }
    }

    #[test]
    fn files_are_of_all_lengths_and_no_two_versions_are_alike() {
        let shelf = GeneratedFiles::new(1, 1..17).with_changing_files(1.0);
        let lengths: std::collections::BTreeSet<u64> = paths()
            .iter()
            .map(|path| shelf.content(path, 0).length())
            .collect();
        assert!(lengths.into_iter().eq(1..17));
        assert_eq!((shelf.version("/1", 0), shelf.version("/1", 1)), (0, 1));
        assert_ne!(
            shelf.content("/1", 0).to_vec(),
            shelf.content("/1", 1).to_vec()
        );
    }
}
