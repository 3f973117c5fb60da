//! Hosts to reach without a proxy.

use haul_net::NoProxy;

use super::ValueError;

/// A list of hosts, which may be empty. An unusable entry is an error: its author would expect a direct connection to that host.
pub(crate) fn no_proxy(text: &str) -> Result<NoProxy, ValueError> {
    let list = NoProxy::parse(text);
    match list.errors().first() {
        None => Ok(list),
        Some(error) => Err(ValueError::new(error.to_string()).with_hint(
            "separate hosts by commas: names, addresses, networks as 10.0.0.0/8; * is all",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_entries_are_errors_and_empty_ones_are_ignored() {
        for text in ["", ",", "a.test,,b.test", " a.test , 10.0.0.0/8,", "*"] {
            assert!(no_proxy(text).is_ok(), "{text}");
        }
        let error = no_proxy("a.test,1.2.3.4/99,b.test").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("\"1.2.3.4/99\" is no network")
        );
        let error = no_proxy("http://me:s3cret@p.test").unwrap_err();
        assert!(!error.to_string().contains("s3cret"));
    }
}
