//! Whether `/etc/nsswitch.conf` leaves hosts to what a resolver of our own does as well (nsswitch.conf(5)).

/// Sources whose answers are the same whoever asks: the hosts file, name servers, and the machine's own name, which has no dot
/// and so is left to the system in any case.
const FILES_AND_DNS: [&str; 3] = ["files", "dns", "myhostname"];

/// Multicast names end in `.local` and are left to the system; for others these say nothing, and that is how they are left out.
const MDNS_MINIMAL: [&str; 3] = ["mdns_minimal", "mdns4_minimal", "mdns6_minimal"];

/// What may follow one of those: who has found nothing there looks no further, for those names alone.
const NOT_FOUND_ACTION: &str = "[notfound=return]";

/// Whether the line about hosts asks the hosts file, then name servers, and nobody else but for names that are the system's
/// anyway. A file without such a line means the C library's default, which is just that.
pub(super) fn uses_only_files_and_dns(text: &str) -> bool {
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default());
    let mut hosts = lines.filter_map(|line| {
        let (name, sources) = line.split_once(':')?;
        (name.trim() == "hosts").then_some(sources)
    });
    let Some(sources) = hosts.next() else {
        return true;
    };
    let mut before = "";
    let (mut files, mut dns) = (false, false);
    for source in sources.split_ascii_whitespace() {
        let action =
            source.eq_ignore_ascii_case(NOT_FOUND_ACTION) && MDNS_MINIMAL.contains(&before);
        if !(action || FILES_AND_DNS.contains(&source) || MDNS_MINIMAL.contains(&source)) {
            return false;
        }
        // Name servers that go before the hosts file are not what we do.
        if source == "dns" && !files {
            return false;
        }
        files |= source == "files";
        dns |= source == "dns";
        before = source;
    }
    dns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_file_and_name_servers_are_plain() {
        for plain in [
            "hosts: files dns",
            "passwd: files systemd\n  hosts :\tfiles myhostname dns # networks: nis\n",
            "hosts: files mdns4_minimal [NOTFOUND=return] dns",
            "hosts: files mdns_minimal dns myhostname",
            "# hosts: nis\npasswd: nis",
            "",
        ] {
            assert!(uses_only_files_and_dns(plain), "{plain}");
        }
    }

    #[test]
    fn whatever_else_may_answer_is_the_systems() {
        for other in [
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
            assert!(!uses_only_files_and_dns(other), "{other}");
        }
    }
}
