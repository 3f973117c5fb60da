//! Paths as a user describes them: `{host}/{index:06}.{ext}`.
//!
//! Slashes that the user wrote and those of `{dir}` part directories; nothing else of a URL does. Then each component is made
//! safe as names from a URL are, the user's own text with it: a dot in front becomes an underscore.

use std::fmt::Write;
use std::path::PathBuf;
use std::str::FromStr;

use super::{PathLayoutInput, path_digest, url_path};
use crate::filename;

/// Wider numbers are a mistake.
const MAX_WIDTH: usize = 20;

/// The longest template, in bytes.
const MAX_TEMPLATE_BYTES: usize = 1024;

/// A path with places for what differs between URLs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathTemplate(Vec<TemplateToken>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplateToken {
    /// As it is, escapes undone.
    Text(String),
    /// What differs, and for numbers how many digits at least.
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

/// The fields by their names.
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

/// A text that is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}, at character {position}")]
pub struct PathTemplateError {
    /// Which character, counted from one: where what is wrong begins.
    pub position: usize,
    /// What is wrong.
    pub problem: PathTemplateProblem,
}

/// What is wrong with a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathTemplateProblem {
    /// A brace that does not end.
    #[error("'{{' without '}}' (a brace itself is written '{{{{')")]
    UnclosedBrace,
    /// An end where nothing began.
    #[error("'}}' ends nothing (a brace itself is written '}}}}')")]
    UnmatchedBrace,
    /// A field that nobody knows.
    #[error(
        "{{{0}}} is none of {{index}}, {{line}}, {{host}}, {{dir}}, {{name}}, {{stem}}, {{ext}}, {{hash}}"
    )]
    UnknownField(String),
    /// A width that is no number, too large, or not for a number.
    #[error("a width is for {{index}} and {{line}}, as {{index:06}}, and at most {MAX_WIDTH}")]
    InvalidWidth,
    /// It begins with a slash, has `..` or a NUL.
    #[error("the path would lead out of the directory")]
    OutsideDirectory,
    /// It ends in a slash.
    #[error("the path would name a directory")]
    Directory,
    /// Nothing at all.
    #[error("the path would be empty")]
    Empty,
    /// Too much.
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

/// Whether what the user wrote can be a path at all; else where not, in bytes. A component that holds a field is made safe later.
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

/// What stands between braces.
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
    pub(super) fn path(&self, subject: PathLayoutInput<'_>) -> PathBuf {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                TemplateToken::Text(fixed) => text.push_str(fixed),
                TemplateToken::Field(field, width) => field.write(*width, subject, &mut text),
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
    /// Appends what it stands for. Only a directory brings slashes along.
    fn write(self, width: usize, subject: PathLayoutInput<'_>, text: &mut String) {
        let url = subject.url;
        let name = || filename::from_url(url);
        match self {
            Self::Index => write_number(subject.index, width, text),
            Self::Line => write_number(subject.line, width, text),
            Self::Host => text.push_str(&url_path::host(url)),
            Self::Dir => text.push_str(&url_path::directories(url).join("/")),
            Self::Name => text.push_str(&name()),
            Self::Stem => text.push_str(filename::split_extension(&name()).0),
            Self::Ext => {
                text.push_str(filename::split_extension(&name()).1.trim_start_matches('.'))
            }
            Self::Hash => text.push_str(&path_digest::hex(&path_digest::digest_url(url))),
        }
    }
}

/// A number with zeros in front.
fn write_number(value: u64, width: usize, text: &mut String) {
    // Writing to a string does not fail.
    let _ = write!(text, "{value:0width$}");
}
