//! The access keys of S3 clients: who may do what in which bucket.
//!
//! A key is written `ACCESS:SECRET[:ro|rw[:BUCKET]]`, on the command line, in a variable or in a
//! file, one on each line. Several rules for one access key, with the same secret, add buckets. No
//! error shows anything of a secret.
//!
//! An access key ID is no secret: it is in every signed request and in every presigned URL. So it
//! is looked up in a map; only signatures are compared in constant time.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use aws_sigv4::sign::v4::{calculate_signature, generate_signing_key};
use haul_serve::access::{AccessRight, AuthFileError, ZeroizedSecret, read_secrets};
use zeroize::Zeroizing;

/// Maximum characters of an access key ID, as IAM has it (API reference of IAM, `AccessKey`).
const MAX_ACCESS_KEY: usize = 128;

/// Derived keys of one access key: those of seven days, which a presigned URL may last, and of the
/// days before and after.
const MAX_DERIVED: usize = 9;

/// One rule: an access key, its secret and what it may do. Without a right, everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3KeyRule {
    /// The access key ID.
    pub access_key: String,
    pub secret: ZeroizedSecret,
    /// What requests signed with it may do.
    pub scope: S3KeyScope,
}

/// A right to one bucket, or to all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3KeyScope {
    /// The highest right.
    pub right: AccessRight,
    /// The bucket; `None` for all.
    pub bucket: Option<String>,
}

/// Why a text is not a rule. Contains nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum S3KeyRuleError {
    /// Too few or too many colons.
    #[error(
        "an S3 key is written ACCESS:SECRET, with :ro or :rw and then :BUCKET after it; neither part may contain a colon"
    )]
    Format,
    /// The access key is empty, too long, or has characters that a signature cannot carry.
    #[error(
        "an access key is made of up to {MAX_ACCESS_KEY} letters, digits and the characters -._~+@"
    )]
    AccessKey,
    /// Probably a variable that was not set.
    #[error("the secret key is empty")]
    NoSecret,
    /// A blank or a control character was probably pasted along.
    #[error("the secret key contains a blank or a control character")]
    SecretCharacters,
    /// A word other than `ro` and `rw`.
    #[error("the right of an S3 key is neither `ro` (read) nor `rw` (read and write)")]
    Right,
    /// The bucket is empty.
    #[error("the bucket of an S3 key is empty")]
    NoBucket,
}

/// Why a list of rules cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum S3KeysError {
    /// Its file cannot be read.
    #[error("the S3 keys cannot be read from a file")]
    File(#[from] AuthFileError),
    /// A line is not a rule.
    #[error("line {line} of the S3 keys")]
    Line {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        #[source]
        source: S3KeyRuleError,
    },
    /// The rules of one access key differ in the secret, so one of them is a mistake.
    #[error("access key {access_key:?} has two secrets: give each of its rules the same one")]
    TwoSecrets { access_key: String },
}

impl FromStr for S3KeyRule {
    type Err = S3KeyRuleError;

    fn from_str(text: &str) -> Result<Self, S3KeyRuleError> {
        let mut parts = text.split(':');
        let (Some(access_key), Some(secret)) = (parts.next(), parts.next()) else {
            return Err(S3KeyRuleError::Format);
        };
        let right = match parts.next() {
            None => AccessRight::Write,
            Some(right) => right.parse().map_err(|_| S3KeyRuleError::Right)?,
        };
        let bucket = match parts.next() {
            None => None,
            Some("") => return Err(S3KeyRuleError::NoBucket),
            Some(bucket) => Some(bucket.to_owned()),
        };
        if parts.next().is_some() {
            return Err(S3KeyRuleError::Format);
        }
        // A slash would end the access key in a credential scope, a comma in the header.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+@".contains(&byte);
        if !(1..=MAX_ACCESS_KEY).contains(&access_key.len()) || !access_key.bytes().all(is_plain) {
            return Err(S3KeyRuleError::AccessKey);
        }
        match secret {
            "" => return Err(S3KeyRuleError::NoSecret),
            _ if secret.chars().any(|c| c.is_control() || c.is_whitespace()) => {
                return Err(S3KeyRuleError::SecretCharacters);
            }
            _ => {}
        }
        Ok(Self {
            access_key: access_key.to_owned(),
            secret: ZeroizedSecret::new(secret),
            scope: S3KeyScope { right, bucket },
        })
    }
}

impl S3KeyRule {
    /// Reads a file of rules. Blocks.
    ///
    /// # Errors
    /// When it cannot be read, or a line is no rule.
    pub fn read(path: &Path) -> Result<Vec<Self>, S3KeysError> {
        Self::parse_lines(&read_secrets(path)?)
    }

    /// Parses a text with a rule on each line. Ignores blank lines and those that begin with `#`.
    ///
    /// # Errors
    /// The first line that is not a rule.
    pub fn parse_lines(text: &str) -> Result<Vec<Self>, S3KeysError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = text.lines().map(str::trim).zip(1..);
        let rules = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
        rules
            .map(|(rule, line)| {
                let error = |source| S3KeysError::Line { line, source };
                rule.parse().map_err(error)
            })
            .collect()
    }
}

/// Shows the access key and the scope, and not the secret.
impl fmt::Display for S3KeyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:***:{}", self.access_key, self.scope.right)?;
        match &self.scope.bucket {
            Some(bucket) => write!(f, ":{bucket}"),
            None => Ok(()),
        }
    }
}

/// What the requests of a key may do. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct S3Permissions(Arc<[S3KeyScope]>);

impl S3Permissions {
    /// The same right to all buckets.
    pub(crate) fn everywhere(right: AccessRight) -> Self {
        Self(Arc::from([S3KeyScope {
            right,
            bucket: None,
        }]))
    }

    /// Whether a bucket may be read or written; to create and to delete it, it must be writable. A
    /// bucket for which nothing is allowed is left out of lists, too.
    pub(crate) fn allows(&self, right: AccessRight, bucket: &str) -> bool {
        let covers = |scope: &S3KeyScope| {
            let is_bucket = scope.bucket.as_deref().is_none_or(|own| own == bucket);
            is_bucket && right <= scope.right
        };
        self.0.iter().any(covers)
    }
}

#[derive(Debug, Default)]
pub struct S3Keys(HashMap<String, S3AccessKey>);

#[derive(Debug)]
pub(crate) struct S3AccessKey {
    secret: ZeroizedSecret,
    /// What its requests may do.
    pub permissions: S3Permissions,
    /// Derived keys of recent days. Four HMACs would be a third of the cost of a small request.
    derived: Mutex<Vec<DerivedKey>>,
}

/// A key that signs the requests of one day in one region.
#[derive(Clone)]
struct DerivedKey {
    /// `YYYYMMDD/REGION`.
    scope: Box<str>,
    key: S3SigningKey,
}

/// Signs strings of one day, region and access key. `Debug` shows nothing of it.
#[derive(Clone)]
pub(crate) struct S3SigningKey(Arc<Zeroizing<Vec<u8>>>);

impl S3Keys {
    /// The keys of these rules.
    ///
    /// # Errors
    /// When two rules of one access key differ in the secret.
    pub fn new(rules: impl IntoIterator<Item = S3KeyRule>) -> Result<Self, S3KeysError> {
        let mut keys: HashMap<String, (ZeroizedSecret, Vec<S3KeyScope>)> = HashMap::new();
        for rule in rules {
            match keys.entry(rule.access_key) {
                Entry::Vacant(new) => {
                    new.insert((rule.secret, vec![rule.scope]));
                }
                Entry::Occupied(known) if known.get().0 != rule.secret => {
                    return Err(S3KeysError::TwoSecrets {
                        access_key: known.key().clone(),
                    });
                }
                Entry::Occupied(mut known) => known.get_mut().1.push(rule.scope),
            }
        }
        let keys = keys.into_iter().map(|(access_key, (secret, scopes))| {
            let key = S3AccessKey {
                secret,
                permissions: S3Permissions(scopes.into()),
                derived: Mutex::default(),
            };
            (access_key, key)
        });
        Ok(Self(keys.collect()))
    }

    /// The key of an access key ID.
    pub(crate) fn find(&self, access_key: &str) -> Option<&S3AccessKey> {
        self.0.get(access_key)
    }
}

impl S3AccessKey {
    /// The key that signs the requests of a day; `date` is the day as `YYYYMMDD`, `time` a moment
    /// of it.
    pub(super) fn signing_key(&self, date: &str, time: SystemTime, region: &str) -> S3SigningKey {
        let scope = format!("{date}/{region}");
        let mut derived = self.derived.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = derived.iter().find(|known| *known.scope == *scope) {
            return known.key.clone();
        }
        let key = generate_signing_key(self.secret.expose(), time, region, "s3");
        let key = S3SigningKey(Arc::new(Zeroizing::new(key.as_ref().to_vec())));
        if derived.len() == MAX_DERIVED {
            derived.remove(0);
        }
        derived.push(DerivedKey {
            scope: scope.into(),
            key: key.clone(),
        });
        key
    }
}

impl S3SigningKey {
    /// The signature of a text, in hexadecimal.
    pub(crate) fn sign(&self, text: &[u8]) -> String {
        calculate_signature(self.0.as_slice(), text)
    }
}

impl fmt::Debug for S3SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("S3SigningKey")
    }
}

impl fmt::Debug for DerivedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.scope)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scope(right: AccessRight, bucket: Option<&str>) -> S3KeyScope {
        let bucket = bucket.map(str::to_owned);
        S3KeyScope { right, bucket }
    }

    #[test]
    fn rules_are_parsed() {
        for (text, expected) in [
            ("AK:s/e+c=", scope(AccessRight::Write, None)),
            ("AK:s/e+c=:ro", scope(AccessRight::Read, None)),
            ("AK:s/e+c=:rw:logs", scope(AccessRight::Write, Some("logs"))),
        ] {
            let rule: S3KeyRule = text.parse().expect(text);
            assert_eq!((rule.access_key.as_str(), rule.scope), ("AK", expected));
            assert_eq!(rule.secret.expose(), "s/e+c=");
        }
    }

    #[test]
    fn mistakes_are_named() {
        use S3KeyRuleError as E;
        for (text, expected) in [
            ("AK", E::Format),
            ("", E::Format),
            (":secret", E::AccessKey),
            ("A/K:secret", E::AccessKey),
            ("A K:secret", E::AccessKey),
            ("AK:", E::NoSecret),
            ("AK::ro", E::NoSecret),
            ("AK:a b", E::SecretCharacters),
            ("AK:secret:", E::Right),
            ("AK:secret:wr", E::Right),
            ("AK:secret:rw:", E::NoBucket),
            ("AK:secret:rw:a:b", E::Format),
        ] {
            assert_eq!(text.parse::<S3KeyRule>(), Err(expected), "{text}");
        }
    }

    #[test]
    fn lines_add_buckets_to_a_key() {
        let text = "\u{feff}# keys\n\n AK:one:ro:a \r\nAK:one:rw:b\nBK:two\n";
        let keys = S3Keys::new(S3KeyRule::parse_lines(text).unwrap()).unwrap();
        let permissions = &keys.find("AK").unwrap().permissions;
        assert!(permissions.allows(AccessRight::Read, "a"));
        assert!(!permissions.allows(AccessRight::Write, "a"));
        assert!(permissions.allows(AccessRight::Write, "b"));
        assert!(!permissions.allows(AccessRight::Read, "c"));
        let all = &keys.find("BK").unwrap().permissions;
        assert!(all.allows(AccessRight::Write, "c"));
        assert!(keys.find("CK").is_none());
        let error = S3KeyRule::parse_lines("AK:one\n\nAK").unwrap_err();
        assert!(matches!(error, S3KeysError::Line { line: 3, .. }));
        let rules = S3KeyRule::parse_lines("AK:one\nAK:two").unwrap();
        assert!(matches!(
            S3Keys::new(rules),
            Err(S3KeysError::TwoSecrets { .. })
        ));
    }

    #[test]
    fn a_file_has_a_rule_on_each_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "# keys\nAK:one:ro:a\n").unwrap();
        let rules = S3KeyRule::read(file.path()).unwrap();
        assert_eq!(rules[0].to_string(), "AK:***:ro:a");
        let missing = S3KeyRule::read(Path::new("/nonexistent/keys"));
        assert!(matches!(missing, Err(S3KeysError::File(_))));
    }

    #[test]
    fn a_derived_key_is_kept_and_the_oldest_gives_way() {
        let keys = S3Keys::new(S3KeyRule::parse_lines("AK:secret").unwrap()).unwrap();
        let key = keys.find("AK").unwrap();
        let time = SystemTime::UNIX_EPOCH;
        let first = key.signing_key("19700101", time, "a").sign(b"text");
        for day in 0..20 {
            let region = format!("r{day}");
            key.signing_key("19700101", time, &region);
            assert!(key.derived.lock().unwrap().len() <= MAX_DERIVED);
        }
        assert_eq!(
            first,
            key.signing_key("19700101", time, "a").sign(b"text"),
            "derived again"
        );
        let other = key.signing_key("19700101", time, "b").sign(b"text");
        assert_ne!(first, other);
    }

    proptest! {
        /// No message about a rule, and nothing that shows one, repeats its secret.
        #[test]
        fn no_message_has_a_secret(before in "[A-Z:]{0,8}", after in "(:[a-z ]{0,4}){0,3}") {
            let secret = "Zq7Zq7Zq7";
            let text = format!("{before}:{secret}{after}");
            let shown = match S3KeyRule::parse_lines(&text) {
                Ok(rules) => {
                    let keys = S3Keys::new(rules.clone()).unwrap();
                    let shown: String = rules.iter().map(ToString::to_string).collect();
                    // `A:B:SECRET` cannot be: the third part is the right.
                    format!("{shown} {rules:?} {keys:?}")
                }
                Err(error) => format!("{error} {error:?}"),
            };
            prop_assert!(!shown.contains(secret), "{}", shown);
        }
    }
}
