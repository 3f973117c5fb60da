//! Nothing is granted without a secret, and no secret is shown.

use http::{HeaderMap, HeaderValue, Method};
use proptest::prelude::*;

use super::*;

#[test]
fn debug_output_shows_no_secret() {
    let mut options = rule_options(&["alice:hunter2:rw"]);
    options.tokens = vec!["hunter2:ro".parse().expect("a rule")];
    options.signing_key = Some(SigningKey::new(b"hunter2hunter2hunter2").expect("a key"));
    options.auth_files = hashed_options(&[format!("bob:{}:ro", argon2_of("hunter2"))]).auth_files;
    let shown = format!("{options:?}");
    let access = access(options);
    let pending = authorize(&access, "GET /", basic("bob", "hunter2"), None);
    let headers =
        HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer hunter2"))]);
    let request = AccessRequest {
        method: &Method::GET,
        path: &request_path("/"),
        query: Some("haul-signature=hunter2"),
        headers: &headers,
        now: at(0),
        peer: None,
    };
    let shown = format!("{shown}{access:?}{pending:?}{request:?}");
    assert!(
        !shown.contains("hunter2") && !shown.contains("$argon2") && !shown.contains("104, 117"),
        "{shown}"
    );
}

proptest! {
    #[test]
    fn without_a_secret_nothing_is_granted(
        method in "(GET|HEAD|PUT|DELETE|POST|BREW)",
        path in "(/[a-c]){1,3}/?",
        field in prop::option::of("((Basic|Bearer) )?[ -~]{0,40}"),
        query in prop::option::of("(haul-expires=|haul-signature=|&|[ -~&&[^#]]){0,8}"),
    ) {
        let mut options = rule_options(&["alice:correct horse battery staple:rw"]);
        options.tokens = vec!["Zm9yIG5vYm9keSBlbHNl:rw".parse().expect("a rule")];
        options.signing_key = Some(SigningKey::new(b"0123456789abcdef").expect("a key"));
        let access = access(options);
        let line = format!("{method} {path}?{}", query.unwrap_or_default());
        prop_assert!(matches!(status(&access, &line, field), 401 | 403));
    }
}
