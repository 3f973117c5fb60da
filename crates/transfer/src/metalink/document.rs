//! From XML elements to a [`Metalink`]: the same names mean the same in both versions, only their places
//! differ.

use std::path::PathBuf;

use haul_plan::{Checksum, DigestAlgorithm};
use url::Url;

use super::error::{MetalinkError, MetalinkProblem};
use super::xml::{XmlElement, XmlReader};
use super::{MAX_FILES, MAX_URLS, Metalink, MetalinkFile, MetalinkMirror};
use crate::filename;
use crate::get::PieceDigests;

/// The namespace of version 4 (RFC 5854 3).
const VERSION_4: &str = "urn:ietf:params:xml:ns:metalink";

/// The namespace of version 3.
const VERSION_3: &str = "http://www.metalinker.org/";

/// The same, as some people write it.
const VERSION_3_HTTPS: &str = "https://www.metalinker.org/";

/// The lowest priority, and that of a URL without one (RFC 5854 4.2.16.2).
const LOWEST_PRIORITY: u32 = 999_999;

/// The most components of a name; the last ones are kept.
const MAX_COMPONENTS: usize = 16;

/// The longest location that is kept.
const MAX_LOCATION_BYTES: usize = 16;

/// Algorithms for pieces, strongest first. CRCs are not among them: they detect accidents, and mirrors may
/// lie.
const PIECE_ALGORITHMS: [DigestAlgorithm; 4] = [
    DigestAlgorithm::Sha512,
    DigestAlgorithm::Sha256,
    DigestAlgorithm::Sha1,
    DigestAlgorithm::Md5,
];

/// Parses a whole document.
pub(super) fn parse_document(text: &str) -> Result<Metalink, MetalinkError> {
    let mut xml = XmlReader::open(text, "metalink")?;
    let mut metalink = Metalink::default();
    match xml.namespace() {
        VERSION_4 => xml.children(|xml, element| add_file(xml, &element, &mut metalink))?,
        VERSION_3 | VERSION_3_HTTPS => xml.children(|xml, element| match element.name() {
            "files" => xml.children(|xml, element| add_file(xml, &element, &mut metalink)),
            _ => xml.skip(),
        })?,
        _ => return Err(xml.error(MetalinkProblem::NotMetalink)),
    }
    Ok(metalink)
}

/// Adds a file or its error; skips any other element.
fn add_file(
    xml: &mut XmlReader<'_>,
    element: &XmlElement<'_>,
    metalink: &mut Metalink,
) -> Result<(), MetalinkError> {
    if element.name() != "file" {
        return xml.skip();
    }
    if metalink.files.len() >= MAX_FILES {
        return Err(xml.error(MetalinkProblem::TooManyFiles));
    }
    let (depth, line) = (xml.depth(), xml.line());
    let name = element.attribute("name").unwrap_or_default();
    let mut builder = MetalinkFileBuilder::default();
    let read = xml.children(|xml, element| builder.child(xml, &element));
    let file = match read {
        Ok(()) => builder
            .finish(&name, line)
            .map_err(|problem| MetalinkError { line, problem }),
        Err(error) if error.problem.affects_one_file() => {
            xml.skip_to_end_of(depth)?;
            Err(error)
        }
        Err(error) => return Err(error),
    };
    metalink.files.push(file);
    Ok(())
}

/// A file in parsing.
#[derive(Debug, Default)]
struct MetalinkFileBuilder {
    size: Option<u64>,
    checksums: Vec<Checksum>,
    pieces: Option<PieceDigests>,
    mirrors: Vec<MetalinkMirror>,
    /// URLs of any kind: those that are not kept count, too.
    urls: usize,
}

impl MetalinkFileBuilder {
    /// Reads a child of a file, or in version 3 of the elements that group them.
    fn child(
        &mut self,
        xml: &mut XmlReader<'_>,
        element: &XmlElement<'_>,
    ) -> Result<(), MetalinkError> {
        match element.name() {
            "size" => self.size(xml),
            "hash" => self.hash(xml, element),
            "pieces" => self.pieces(xml, element),
            "url" => self.url(xml, element),
            "verification" | "resources" => {
                xml.children(|xml, element| match element.name() {
                    // Only these: the groups have no meaning within each other.
                    "hash" => self.hash(xml, &element),
                    "pieces" => self.pieces(xml, &element),
                    "url" => self.url(xml, &element),
                    _ => xml.skip(),
                })
            }
            _ => xml.skip(),
        }
    }

    fn size(&mut self, xml: &mut XmlReader<'_>) -> Result<(), MetalinkError> {
        let text = xml.text()?;
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let size = text.parse().ok().filter(|_| digits);
        self.size = Some(size.ok_or_else(|| xml.error(MetalinkProblem::InvalidSize))?);
        Ok(())
    }

    /// Reads a digest of the whole file. The file could not be compared with one of an unknown algorithm.
    fn hash(
        &mut self,
        xml: &mut XmlReader<'_>,
        element: &XmlElement<'_>,
    ) -> Result<(), MetalinkError> {
        let name = element.attribute("type").unwrap_or_default();
        let algorithm = DigestAlgorithm::from_name(&name)
            .ok_or_else(|| xml.error(MetalinkProblem::unknown_digest(&name)))?;
        let digest = digest(xml, algorithm)?;
        if self.checksums.iter().all(|c| c.algorithm != algorithm) {
            self.checksums.push(Checksum {
                algorithm,
                digest: Some(digest),
            });
        }
        Ok(())
    }

    fn pieces(
        &mut self,
        xml: &mut XmlReader<'_>,
        element: &XmlElement<'_>,
    ) -> Result<(), MetalinkError> {
        let Some(algorithm) = piece_algorithm(element) else {
            return xml.skip();
        };
        let length: u64 = element
            .attribute("length")
            .unwrap_or_default()
            .trim()
            .parse()
            .map_err(|_| xml.error(MetalinkProblem::InvalidSize))?;
        let mut digests = Vec::new();
        xml.children(|xml, element| {
            if element.name() != "hash" {
                return xml.skip();
            }
            // Version 3 numbers the pieces. All writers number them in order; another order is an error.
            let number = element.attribute("piece");
            if number.is_some_and(|number| number.trim().parse() != Ok(digests.len())) {
                return Err(xml.error(MetalinkProblem::PiecesOutOfOrder));
            }
            digests.push(digest(xml, algorithm)?);
            Ok(())
        })?;
        let pieces = PieceDigests::new(algorithm, length, digests)
            .map_err(|error| xml.error(error.into()))?;
        let rank = |pieces: &PieceDigests| {
            PIECE_ALGORITHMS
                .iter()
                .position(|a| *a == pieces.algorithm())
        };
        if self
            .pieces
            .as_ref()
            .is_none_or(|known| rank(&pieces) < rank(known))
        {
            self.pieces = Some(pieces);
        }
        Ok(())
    }

    /// Reads a URL, and skips one that cannot be used: others may be usable.
    fn url(
        &mut self,
        xml: &mut XmlReader<'_>,
        element: &XmlElement<'_>,
    ) -> Result<(), MetalinkError> {
        self.urls += 1;
        if self.urls > MAX_URLS {
            return Err(xml.error(MetalinkProblem::TooManyUrls));
        }
        let text = xml.text()?;
        let http = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        if let Some(url) = Url::parse(&text).ok().filter(http) {
            self.mirrors.push(MetalinkMirror {
                url,
                priority: priority(element),
                location: element.attribute("location").filter(|location| {
                    !location.is_empty() && location.len() <= MAX_LOCATION_BYTES
                }),
            });
        }
        Ok(())
    }

    fn finish(mut self, name: &str, line: u64) -> Result<MetalinkFile, MetalinkProblem> {
        if let (Some(size), Some(pieces)) = (self.size, &self.pieces)
            && !pieces.matches_length(size)
        {
            return Err(MetalinkProblem::PieceCountMismatch);
        }
        self.mirrors.sort_by_key(|mirror| mirror.priority);
        Ok(MetalinkFile {
            line,
            path: safe_path(name).ok_or(MetalinkProblem::UnusableName)?,
            size: self.size,
            checksums: self.checksums,
            pieces: self.pieces,
            mirrors: self.mirrors,
        })
    }
}

/// Leaves out `..` and the like, so that the path stays beneath its directory.
fn safe_path(name: &str) -> Option<PathBuf> {
    let parts: Vec<String> = name
        .split(['/', '\\'])
        .filter(|part| !matches!(*part, "" | "." | ".."))
        .filter_map(filename::sanitize)
        .collect();
    let last = parts.len().saturating_sub(MAX_COMPONENTS);
    (!parts.is_empty()).then(|| parts[last..].iter().collect())
}

/// Version 4 counts from 1, the best; version 3 up to 100, the best.
fn priority(element: &XmlElement<'_>) -> u32 {
    let number = |name| element.attribute(name)?.trim().parse::<u32>().ok();
    let preference = || Some(101 - number("preference")?.min(100));
    number("priority")
        .or_else(preference)
        .map_or(LOWEST_PRIORITY, |priority| {
            priority.clamp(1, LOWEST_PRIORITY)
        })
}

fn piece_algorithm(element: &XmlElement<'_>) -> Option<DigestAlgorithm> {
    let algorithm = DigestAlgorithm::from_name(&element.attribute("type")?)?;
    PIECE_ALGORITHMS.contains(&algorithm).then_some(algorithm)
}

/// Parses the text of an element as a digest.
fn digest(xml: &mut XmlReader<'_>, algorithm: DigestAlgorithm) -> Result<Vec<u8>, MetalinkError> {
    let text = xml.text()?;
    let checksum = format!("{algorithm}:{text}").parse::<Checksum>();
    let digest = checksum.ok().and_then(|checksum| checksum.digest);
    digest.ok_or_else(|| xml.error(MetalinkProblem::InvalidDigest(algorithm)))
}
