//! Digests for names and comparisons. None depends on a secret: a URL's login is left out.

use sha2::{Digest, Sha256};
use url::{Position, Url};

/// A SHA-256.
pub(super) type PathDigest = [u8; 32];

/// The digest of a URL as a server sees it: without login and fragment.
pub(super) fn digest_url(url: &Url) -> PathDigest {
    let mut hasher = Sha256::new();
    hasher.update(&url[..Position::BeforeUsername]);
    hasher.update(&url[Position::BeforeHost..Position::AfterQuery]);
    hasher.finalize().into()
}

/// The digest of a text. Texts of different kinds (a first byte each) never have the same digest.
pub(super) fn digest_text(kind: u8, text: &str) -> PathDigest {
    let mut hasher = Sha256::new();
    hasher.update([kind]);
    hasher.update(text);
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_plan::hex;

    #[test]
    fn a_urls_digest_leaves_out_login_and_fragment() {
        let of = |text: &str| hex(&digest_url(&Url::parse(text).unwrap()));
        // printf 'http://h.test:81/f?x=1' | sha256sum
        let plain = of("http://h.test:81/f?x=1");
        assert_eq!(plain, hex(&Sha256::digest("http://h.test:81/f?x=1")));
        assert_eq!(plain, of("http://me:s3cret@H.test:81/f?x=1#part"));
        assert_eq!(plain, of("http://me@h.test:81/f?x=1"));
        assert_ne!(plain, of("http://h.test:81/f?x=2"));
        assert_ne!(plain, of("https://h.test:81/f?x=1"));
        assert_eq!(of("http://h.test"), of("http://h.test:80/"));
    }
}
