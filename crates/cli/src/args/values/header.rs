//! Header fields: `Name: value` adds one, `Name:` removes one that haul sends.

use std::fmt;
use std::str::FromStr;

use http::{HeaderName, HeaderValue};

use super::ValueError;

/// A header field.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct HeaderArg {
    pub(crate) name: HeaderName,
    /// `None` removes the field.
    pub(crate) value: Option<HeaderValue>,
}

impl fmt::Debug for HeaderArg {
    /// The value may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Field({})", self.name)
    }
}

impl FromStr for HeaderArg {
    type Err = ValueError;

    /// The errors repeat the name at most: the value may be a secret.
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let wrong =
            |text: &str| ValueError::new(text).with_hint("write a header field as 'Name: value'");
        let (name, value) = text
            .split_once(':')
            .ok_or_else(|| wrong("the colon is missing"))?;
        let name: HeaderName = name
            .trim()
            .parse()
            .map_err(|_| wrong("the text before the colon is not a field name"))?;
        if haul_net::is_framing_header(&name) {
            return Err(ValueError::new(format!("haul sets {name} itself")));
        }
        let value = value.trim();
        let mut value = HeaderValue::from_str(value).map_err(|_| {
            ValueError::new(format!(
                "the value of {name} has a line break or a control character"
            ))
        })?;
        value.set_sensitive(true);
        Ok(Self {
            name,
            value: (!value.is_empty()).then_some(value),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_their_removal() {
        let field: HeaderArg = "X-A:  b: c ".parse().unwrap();
        assert_eq!(
            (field.name.as_str(), field.value.unwrap().to_str().unwrap()),
            ("x-a", "b: c")
        );
        assert_eq!("Accept:".parse::<HeaderArg>().unwrap().value, None);
        for wrong in [
            "no colon",
            "a b: c",
            ": c",
            "a: b\r\nc: d",
            "a: b\0",
            "Range: bytes=0-1",
            "content-length: 5",
        ] {
            assert!(wrong.parse::<HeaderArg>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn values_are_never_shown() {
        for text in [
            "Authorization: Bearer s3cret",
            "Authorization Bearer s3cret",
            "X: s3cret\r\n",
            "Range: s3cret",
        ] {
            let shown = format!("{:?}", text.parse::<HeaderArg>());
            assert!(!shown.contains("s3cret"), "{shown}");
        }
    }
}
