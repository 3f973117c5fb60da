//! What was meant by a key that is not known where it stands.

/// Settings of the process, which no tunnel has for itself.
const OF_THE_PROCESS: &[&str] = &[
    "netrc",
    "netrc-file",
    "log",
    "log-format",
    "admin",
    "max-connections",
    "grace",
    "threads",
];

/// Above the first `[[tunnel]]`.
pub(super) fn at_the_top(key: &str) -> Option<&'static str> {
    match key {
        "socks" => Some("a [[tunnel]] with listen = \"PORT\" and kind = \"socks\""),
        "http" => Some("a [[tunnel]] with listen = \"PORT\" and kind = \"http\""),
        "listen" | "target" | "kind" => Some("it is of one tunnel: write [[tunnel]] above it"),
        "url" => Some("it is of a [proxies.NAME]; here proxy = \"HOST:PORT\" names one"),
        _ => anywhere(key),
    }
}

/// In a `[[tunnel]]`.
pub(super) fn in_a_tunnel(key: &str) -> Option<&'static str> {
    match key {
        "socks" => Some("listen = \"PORT\" with kind = \"socks\""),
        "http" => Some("listen = \"PORT\" with kind = \"http\""),
        "port" | "bind" => Some("listen = \"PORT\", or \"BIND:PORT\""),
        "host" => Some("target = \"HOST:PORT\""),
        "url" => Some("it is of a [proxies.NAME]; here proxy = \"HOST:PORT\" names one"),
        "tunnel" | "proxies" => of_all(),
        _ if OF_THE_PROCESS.contains(&key) => of_all(),
        _ => anywhere(key),
    }
}

/// In a `[proxies.NAME]`.
pub(super) fn in_a_proxy(key: &str) -> Option<&'static str> {
    match key {
        "host" | "port" | "proxy" => Some("url = \"HOST:PORT\", or with a scheme before it"),
        "listen" | "target" | "kind" => Some("it is of one tunnel: write [[tunnel]] above it"),
        _ if OF_THE_PROCESS.contains(&key) => of_all(),
        _ => anywhere(key),
    }
}

fn of_all() -> Option<&'static str> {
    Some("it is about all tunnels: write it above the first table of the file")
}

fn anywhere(key: &str) -> Option<&'static str> {
    match key {
        "password" => Some("user = \"NAME:PASSWORD\", or password-file = \"FILE\""),
        "stdio" | "config" | "quiet" => Some("that is a flag of the command line alone"),
        _ => None,
    }
}
