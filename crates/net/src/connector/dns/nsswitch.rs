//! Whether `/etc/nsswitch.conf` looks hosts up where the built-in resolver does (nsswitch.conf(5)).

/// Sources that give the same addresses to every program: the hosts file, name servers, and the machine's own name, which has no
/// dot and so is left to the system in any case.
const FILES_AND_DNS: [&str; 3] = ["files", "dns", "myhostname"];

/// Multicast names end in `.local` and are left to the system. For other names these sources say nothing, so they do not matter.
const MDNS_MINIMAL: [&str; 3] = ["mdns_minimal", "mdns4_minimal", "mdns6_minimal"];

/// What may follow one of those. It ends the lookup of multicast names alone.
const NOT_FOUND_ACTION: &str = "[notfound=return]";

/// Whether the line about hosts names the hosts file, then name servers, and other sources only for names that are left to the
/// system anyway. A file without such a line means the C library's default, which is just that.
pub(super) fn uses_only_files_and_dns(text: &str) -> bool {
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default());
    let mut hosts = lines.filter_map(|line| {
        let (database, sources) = line.split_once(':')?;
        (database.trim() == "hosts").then_some(sources)
    });
    let Some(sources) = hosts.next() else {
        return true;
    };
    let mut previous = "";
    let (mut has_files, mut has_dns) = (false, false);
    for source in sources.split_ascii_whitespace() {
        let is_action =
            source.eq_ignore_ascii_case(NOT_FOUND_ACTION) && MDNS_MINIMAL.contains(&previous);
        if !(is_action || FILES_AND_DNS.contains(&source) || MDNS_MINIMAL.contains(&source)) {
            return false;
        }
        // The built-in resolver never asks name servers before the hosts file.
        if source == "dns" && !has_files {
            return false;
        }
        has_files |= source == "files";
        has_dns |= source == "dns";
        previous = source;
    }
    has_dns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_file_and_name_servers_are_what_the_built_in_resolver_uses() {
        for text in [
            "hosts: files dns",
            "passwd: files systemd\n  hosts :\tfiles myhostname dns # networks: nis\n",
            "hosts: files mdns4_minimal [NOTFOUND=return] dns",
            "hosts: files mdns_minimal dns myhostname",
            "# hosts: nis\npasswd: nis",
            "",
        ] {
            assert!(uses_only_files_and_dns(text), "{text}");
        }
    }

    #[test]
    fn other_sources_are_left_to_the_system() {
        for text in [
            "hosts: files resolve [!UNAVAIL=return] dns",
            "hosts: files nis dns",
            "hosts: files mdns4 dns",
            "hosts: files mymachines dns",
            "hosts: dns files",
            "hosts: files",
            "hosts:",
            "hosts: files [NOTFOUND=return] dns",
            "hosts: files [SUCCESS=merge] dns",
            "hosts: files dns [NOTFOUND=return] wins",
            "hosts: files mdns4_minimal [!NOTFOUND=return] dns",
        ] {
            assert!(!uses_only_files_and_dns(text), "{text}");
        }
    }
}
