//! Lists of digests that publishers put beside their files, `SHA256SUMS` for example, and which digest in one is that of a URL's file.
//!
//! Every tool has its own form. A line in no known form is ignored: lists have comments.
//!
//! | form | written by |
//! | --- | --- |
//! | `HEX  NAME`, `HEX *NAME`, `HEX  -` | sha256sum and its kin, `openssl dgst -r` |
//! | `SHA256 (NAME) = HEX` | BSD, `sha256sum --tag` |
//! | `SHA2-256(NAME)= HEX` | `openssl dgst`, with `-c` also `AB:CD:...` |
//! | `NAME: HEX HEX ...`, `NAME: SHA256 = HEX HEX ...`, over several lines | `gpg --print-md`, `gpg --print-mds` |
//! | `HEX`, `sha256:HEX` | files with the digest of one file |
//!
//! The text may be UTF-16, as PowerShell writes it, and in a clear-signed message (RFC 9580 7), of which only the signed part counts: what
//! somebody has added around it has no signature. haul does not check the signature.

use std::borrow::Cow;

use haul_plan::{Checksum, DigestAlgorithm, decode_hex, is_digest_name};

/// The most hexadecimal digits of a digest.
const MAX_DIGITS: usize = 128;

/// The digests of a list.
#[derive(Debug, Default)]
pub struct ChecksumList {
    digests: Vec<ListedDigest>,
}

/// A digest of a list.
#[derive(Debug)]
struct ListedDigest {
    /// The line, from 1; the first of several.
    line: u64,
    /// The path of its file, with `/` between its parts. `None` for a digest of standard input, or without a name.
    path: Option<String>,
    checksum: Checksum,
}

/// Why a list has no checksum of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChecksumListError {
    /// The list is too long.
    #[error("the list is larger than {} MiB", ChecksumList::MAX_BYTES >> 20)]
    TooLarge,
    /// No digest that haul knows is that of the file.
    #[error("the list has no checksum of the file")]
    NotListed,
    /// Several digests fit equally, and differ.
    #[error("lines {} and {} have different {algorithm} digests for the file", .lines[0], .lines[1])]
    Ambiguous {
        /// Their algorithm.
        algorithm: DigestAlgorithm,
        /// Two of them.
        lines: [u64; 2],
    },
}

impl ChecksumList {
    /// The longest list: some 200,000 lines.
    pub const MAX_BYTES: usize = 16 << 20;

    /// Parses a list.
    ///
    /// # Errors
    /// It is larger than [`Self::MAX_BYTES`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ChecksumListError> {
        if bytes.len() > Self::MAX_BYTES {
            return Err(ChecksumListError::TooLarge);
        }
        let text = decode_text(bytes);
        let mut parser = ChecksumListParser::default();
        for (number, line) in signed_lines(&text) {
            parser.read_line(number, line.trim_end());
        }
        parser.finish_groups();
        Ok(Self {
            digests: parser.digests,
        })
    }

    /// The checksums of the file with this path, one for each algorithm. The longest path that the wanted one ends with decides; without such a
    /// path, one that ends in the same parts. Digests without a name count if the list has no names.
    ///
    /// # Errors
    /// The list has no digest, or different ones that fit equally well.
    pub fn find(&self, wanted: &[&str]) -> Result<Vec<Checksum>, ChecksumListError> {
        let fits = |digest: &ListedDigest| path_fit(digest.path.as_deref()?, wanted);
        let best = self.digests.iter().filter_map(fits).max();
        let is_nameless = self.digests.iter().all(|digest| digest.path.is_none());
        if best.is_none() && !is_nameless {
            return Err(ChecksumListError::NotListed);
        }
        let mut found: Vec<&ListedDigest> = Vec::new();
        for digest in self.digests.iter().filter(|digest| fits(digest) == best) {
            let algorithm = digest.checksum.algorithm;
            let known = found
                .iter()
                .find(|known| known.checksum.algorithm == algorithm);
            match known {
                None => found.push(digest),
                Some(known) if known.checksum == digest.checksum => {}
                Some(known) => {
                    let lines = [known.line, digest.line];
                    return Err(ChecksumListError::Ambiguous { algorithm, lines });
                }
            }
        }
        if found.is_empty() {
            return Err(ChecksumListError::NotListed);
        }
        Ok(found
            .into_iter()
            .map(|digest| digest.checksum.clone())
            .collect())
    }
}

/// How well a listed path is that of a wanted one: whether the wanted one ends with all of it, and how many of their last parts are the same.
/// `None` if their names differ.
fn path_fit(listed: &str, wanted: &[&str]) -> Option<(bool, usize)> {
    let parts = || {
        let parts = listed.split('/');
        parts.filter(|part| !part.is_empty() && *part != ".")
    };
    let same = parts()
        .rev()
        .zip(wanted.iter().rev())
        .take_while(|(listed, wanted)| listed == *wanted)
        .count();
    (same > 0).then(|| (same == parts().count(), same))
}

/// The text of a list, without a byte order mark. Characters that are damaged are replaced: they are in another line, or no name is found.
fn decode_text(bytes: &[u8]) -> Cow<'_, str> {
    let utf_16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
        let text =
            char::decode_utf16(units).map(|char| char.unwrap_or(char::REPLACEMENT_CHARACTER));
        Cow::Owned(text.collect())
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => utf_16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf_16(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest),
        _ => String::from_utf8_lossy(bytes),
    }
}

/// The lines of a list and their numbers; of a clear-signed one those that are signed.
fn signed_lines(text: &str) -> impl Iterator<Item = (u64, &str)> {
    let begins = |line: &str| line.trim_end() == "-----BEGIN PGP SIGNED MESSAGE-----";
    let is_clear_signed = text.lines().any(begins);
    let (mut is_header, mut is_signed) = (false, false);
    (1..).zip(text.lines()).filter_map(move |(number, line)| {
        if !is_clear_signed {
            return Some((number, line));
        }
        if begins(line) {
            (is_header, is_signed) = (true, false);
        } else if is_header {
            is_signed = line.trim().is_empty();
            is_header = !is_signed;
        } else if line.starts_with("-----") {
            is_signed = false;
        } else if is_signed {
            // A line of the text that begins with a dash has a dash and a blank before it.
            return Some((number, line.strip_prefix("- ").unwrap_or(line)));
        }
        None
    })
}

/// Reads a list line by line.
#[derive(Debug, Default)]
struct ChecksumListParser {
    digests: Vec<ListedDigest>,
    /// A digest in groups whose next line may continue it.
    groups: Option<DigestGroups>,
}

impl ChecksumListParser {
    fn read_line(&mut self, number: u64, line: &str) {
        if let Some(groups) = &mut self.groups
            && groups.continue_with(line)
        {
            return;
        }
        self.finish_groups();
        let found = digest_first(line).or_else(|| tagged_digest(line));
        match found {
            Some((path, checksum)) => self.add(number, path, checksum),
            None => self.groups = DigestGroups::begin(number, line),
        }
    }

    /// Ends a digest in groups.
    fn finish_groups(&mut self) {
        if let Some(groups) = self.groups.take() {
            let checksum = checksum_of(groups.algorithm.as_deref(), &groups.digits);
            self.add(groups.line, groups.path, checksum);
        }
    }

    /// Adds a digest, unless its algorithm is unknown or it is none.
    fn add(&mut self, line: u64, path: Option<String>, checksum: Option<Checksum>) {
        // What tools write of standard input.
        let path = path.filter(|path| !matches!(path.as_str(), "" | "-" | "stdin" | "/dev/stdin"));
        self.digests.extend(checksum.map(|checksum| ListedDigest {
            line,
            path,
            checksum,
        }));
    }
}

/// A path, and the checksum unless haul does not know its algorithm.
type DigestLine = (Option<String>, Option<Checksum>);

/// `HEX  NAME`, `HEX *NAME`, `HEX`, and with `algorithm:` before it.
fn digest_first(line: &str) -> Option<DigestLine> {
    let (is_escaped, line) = strip_escape_mark(line);
    let line = line.trim_start();
    let (digest, name) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let checksum: Checksum = digest.parse().ok()?;
    checksum.digest.as_ref()?;
    // A second blank for text mode, an asterisk for binary mode.
    let name = name.strip_prefix([' ', '*']).unwrap_or(name).trim_start();
    Some((Some(path_text(name, is_escaped)), Some(checksum)))
}

/// `SHA256 (NAME) = HEX` and `SHA2-256(NAME)= HEX`.
fn tagged_digest(line: &str) -> Option<DigestLine> {
    let (is_escaped, line) = strip_escape_mark(line);
    let (tag, digest) = line.rsplit_once(')')?;
    let (algorithm, name) = tag.split_once('(')?;
    let digits = digest
        .trim_start()
        .strip_prefix('=')?
        .trim()
        .replace(':', "");
    let is_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let algorithm = Some(algorithm.trim()).filter(|name| !name.is_empty());
    is_hex.then(|| {
        let checksum = checksum_of(algorithm, &digits);
        (Some(path_text(name, is_escaped)), checksum)
    })
}

/// The checksum of digits, whose length selects the algorithm if it has no name.
fn checksum_of(algorithm: Option<&str>, digits: &str) -> Option<Checksum> {
    let Some(name) = algorithm else {
        return Checksum::from_hex(digits);
    };
    let algorithm = DigestAlgorithm::from_name(name)?;
    let digest = decode_hex(digits).filter(|digest| digest.len() == algorithm.digest_len());
    Some(Checksum {
        algorithm,
        digest: Some(digest?),
    })
}

/// GNU tools put a backslash before a line whose name has escapes.
fn strip_escape_mark(line: &str) -> (bool, &str) {
    match line.strip_prefix('\\') {
        Some(line) => (true, line),
        None => (false, line),
    }
}

/// A name with `/` between its parts. Without escapes a backslash is Windows' separator.
fn path_text(name: &str, is_escaped: bool) -> String {
    if !is_escaped {
        return name.replace('\\', "/");
    }
    let mut text = String::with_capacity(name.len());
    let mut chars = name.chars();
    while let Some(char) = chars.next() {
        text.push(match char {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some(escaped) => escaped,
                None => '\\',
            },
            char => char,
        });
    }
    text
}

/// A digest in groups of digits, as GnuPG writes it.
#[derive(Debug)]
struct DigestGroups {
    line: u64,
    path: Option<String>,
    algorithm: Option<String>,
    digits: String,
}

impl DigestGroups {
    /// The digest that begins in a line: behind a name and a colon, in the line after that, or without a name.
    fn begin(line: u64, text: &str) -> Option<Self> {
        let (path, groups) = match text.rsplit_once(':') {
            Some((path, groups)) => (Some(path), groups),
            None => (None, text),
        };
        let mut begun = Self {
            line,
            path: path.map(|path| path_text(path.trim_start(), false)),
            algorithm: None,
            digits: String::new(),
        };
        if path.is_some_and(is_digest_name) {
            begun.algorithm = begun.path.take();
        }
        (groups.is_empty() && path.is_some() || begun.add_groups(groups)).then_some(begun)
    }

    /// Adds the groups of the next line, if it has nothing else. They are indented, unless they are the first.
    fn continue_with(&mut self, line: &str) -> bool {
        let may_continue = if self.digits.is_empty() {
            // A name that consists of such digits could follow a whole digest.
            digest_first(line).is_none()
        } else {
            line.starts_with([' ', '\t'])
        };
        may_continue && self.add_groups(line)
    }

    /// Adds groups, with the name of their algorithm before the first.
    fn add_groups(&mut self, text: &str) -> bool {
        let (algorithm, groups) = match text.split_once('=') {
            Some((name, groups)) if self.digits.is_empty() && is_digest_name(name) => {
                (Some(name.trim().to_owned()), groups)
            }
            _ => (None, text),
        };
        let digits = || groups.split_ascii_whitespace().flat_map(str::bytes);
        if digits().next().is_none() || !digits().all(|byte| byte.is_ascii_hexdigit()) {
            return false;
        }
        // One more than there may be shows that it is not a digest.
        let room = MAX_DIGITS + 1 - self.digits.len();
        self.digits.extend(digits().map(char::from).take(room));
        self.algorithm = self.algorithm.take().or(algorithm);
        true
    }
}

#[cfg(test)]
mod tests;
