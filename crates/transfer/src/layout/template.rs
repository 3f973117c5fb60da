//! Paths from a user's template: `{host}/{index:06}.{ext}`.
//!
//! Slashes of the template and of `{dir}` separate directories; nothing else of a URL does. Then each
//! component is made safe as names from a URL are, the user's own text with it: a leading dot becomes an
//! underscore.

use std::fmt::Write;
use std::path::PathBuf;
use std::str::FromStr;

use haul_plan::hex;

use super::{PathLayoutInput, path_digest, url_path};
use crate::filename;

/// The widest number: a wider one is a mistake.
const MAX_WIDTH: usize = 20;

/// The longest template, in bytes.
const MAX_TEMPLATE_BYTES: usize = 1024;

/// A path with fields for what differs between URLs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathTemplate(Vec<TemplateToken>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplateToken {
    /// Literal text, unescaped.
    Text(String),
    /// A field, and for numbers the least number of digits.
    Field(TemplateField, usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TemplateField {
    Index,
    Line,
    Host,
    Dir,
    Name,
    Stem,
    Ext,
    Hash,
}

/// The fields by name.
const FIELDS: [(&str, TemplateField); 8] = [
    ("index", TemplateField::Index),
    ("line", TemplateField::Line),
    ("host", TemplateField::Host),
    ("dir", TemplateField::Dir),
    ("name", TemplateField::Name),
    ("stem", TemplateField::Stem),
    ("ext", TemplateField::Ext),
    ("hash", TemplateField::Hash),
];

/// Why a text is not a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}, at character {position}")]
pub struct PathTemplateError {
    /// The first character of the mistake, counted from one.
    pub position: usize,
    /// The mistake.
    pub problem: PathTemplateProblem,
}

/// A mistake in a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathTemplateProblem {
    /// An opening brace without a closing one.
    #[error("'{{' without '}}' (a brace itself is written '{{{{')")]
    UnclosedBrace,
    /// A closing brace without an opening one.
    #[error("'}}' without '{{' (a brace itself is written '}}}}')")]
    UnmatchedBrace,
    /// An unknown field.
    #[error(
        "{{{0}}} is not one of {{index}}, {{line}}, {{host}}, {{dir}}, {{name}}, {{stem}}, {{ext}}, {{hash}}"
    )]
    UnknownField(String),
    /// A width that is not a number, is too large, or is not for a number.
    #[error("a width is for {{index}} and {{line}}, as {{index:06}}, and at most {MAX_WIDTH}")]
    InvalidWidth,
    /// The template begins with a slash, has `..` or a NUL.
    #[error("the path would lead out of the directory")]
    OutsideDirectory,
    /// The template ends in a slash.
    #[error("the path would name a directory")]
    Directory,
    /// No text.
    #[error("the path would be empty")]
    Empty,
    /// More than 1024 bytes.
    #[error("a template has at most {MAX_TEMPLATE_BYTES} bytes")]
    TooLong,
}

impl FromStr for PathTemplate {
    type Err = PathTemplateError;

    fn from_str(text: &str) -> Result<Self, PathTemplateError> {
        let fail = |offset: usize, problem| PathTemplateError {
            position: text[..offset].chars().count() + 1,
            problem,
        };
        check_path(text).map_err(|(offset, problem)| fail(offset, problem))?;
        let (mut pieces, mut fixed, mut offset) = (Vec::new(), String::new(), 0);
        while let Some(c) = text[offset..].chars().next() {
            let rest = &text[offset..];
            if rest.starts_with("{{") || rest.starts_with("}}") {
                fixed.push(c);
                offset += 2;
            } else if c == '{' {
                let end = rest
                    .find('}')
                    .ok_or_else(|| fail(offset, PathTemplateProblem::UnclosedBrace))?;
                let field = parse_field(&rest[1..end]).map_err(|problem| fail(offset, problem))?;
                if !fixed.is_empty() {
                    pieces.push(TemplateToken::Text(std::mem::take(&mut fixed)));
                }
                pieces.push(field);
                offset += end + 1;
            } else if c == '}' {
                return Err(fail(offset, PathTemplateProblem::UnmatchedBrace));
            } else {
                fixed.push(c);
                offset += c.len_utf8();
            }
        }
        if !fixed.is_empty() {
            pieces.push(TemplateToken::Text(fixed));
        }
        Ok(Self(pieces))
    }
}

/// Checks that the literal text can be a path; the error has an offset in bytes. Components with fields are
/// made safe later.
fn check_path(text: &str) -> Result<(), (usize, PathTemplateProblem)> {
    if text.is_empty() {
        return Err((0, PathTemplateProblem::Empty));
    }
    if text.len() > MAX_TEMPLATE_BYTES {
        return Err((0, PathTemplateProblem::TooLong));
    }
    if text.starts_with('/') {
        return Err((0, PathTemplateProblem::OutsideDirectory));
    }
    if let Some(offset) = text.find('\0') {
        return Err((offset, PathTemplateProblem::OutsideDirectory));
    }
    let mut offset = 0;
    for part in text.split('/') {
        if part == ".." {
            return Err((offset, PathTemplateProblem::OutsideDirectory));
        }
        offset += part.len() + 1;
    }
    if text.ends_with('/') {
        return Err((text.len() - 1, PathTemplateProblem::Directory));
    }
    Ok(())
}

/// Parses the text between braces.
fn parse_field(text: &str) -> Result<TemplateToken, PathTemplateProblem> {
    let (name, width) = text
        .split_once(':')
        .map_or((text, None), |(name, width)| (name, Some(width)));
    let known = FIELDS.iter().find(|(known, _)| *known == name);
    let Some((_, field)) = known else {
        return Err(PathTemplateProblem::UnknownField(
            name.chars().take(40).collect(),
        ));
    };
    let Some(width) = width else {
        return Ok(TemplateToken::Field(*field, 0));
    };
    let is_number = matches!(field, TemplateField::Index | TemplateField::Line);
    let digits = width.bytes().all(|byte| byte.is_ascii_digit());
    let width = width
        .parse()
        .ok()
        .filter(|width| is_number && digits && *width <= MAX_WIDTH);
    Ok(TemplateToken::Field(
        *field,
        width.ok_or(PathTemplateProblem::InvalidWidth)?,
    ))
}

impl PathTemplate {
    /// The path for a URL.
    pub(super) fn path(&self, input: PathLayoutInput<'_>) -> PathBuf {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                TemplateToken::Text(fixed) => text.push_str(fixed),
                TemplateToken::Field(field, width) => field.write(*width, input, &mut text),
            }
        }
        let (directories, name) = text.rsplit_once('/').unwrap_or(("", &text));
        let mut path: PathBuf = directories
            .split('/')
            .filter_map(filename::sanitize)
            .collect();
        path.push(filename::sanitize(name).unwrap_or_else(|| filename::DEFAULT_NAME.to_owned()));
        path
    }
}

impl TemplateField {
    /// Appends the field's value. Only a directory has slashes.
    fn write(self, width: usize, input: PathLayoutInput<'_>, text: &mut String) {
        let url = input.url;
        let name = || filename::from_url(url);
        match self {
            Self::Index => write_number(input.index, width, text),
            Self::Line => write_number(input.line, width, text),
            Self::Host => text.push_str(&url_path::host(url)),
            Self::Dir => text.push_str(&url_path::directories(url).join("/")),
            Self::Name => text.push_str(&name()),
            Self::Stem => text.push_str(filename::split_extension(&name()).0),
            Self::Ext => {
                text.push_str(filename::split_extension(&name()).1.trim_start_matches('.'))
            }
            Self::Hash => text.push_str(&hex(&path_digest::digest_url(url))),
        }
    }
}

/// Appends a number with leading zeros.
fn write_number(value: u64, width: usize, text: &mut String) {
    // Writing to a string does not fail.
    let _ = write!(text, "{value:0width$}");
}
