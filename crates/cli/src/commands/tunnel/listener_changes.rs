//! What becomes of listeners when settings are read again, and in which order: decisions about addresses, and nothing is opened or closed
//! here.

use haul_service::listen::{BoundAddress, ListenAddress};

/// What is to be done. Numbers are places in the lists that were compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ListenerChanges {
    /// Those that are wanted still: the number that one has, and the one it gets.
    pub(super) stay: Vec<(usize, usize)>,
    /// Those that are to be opened.
    pub(super) open: Vec<usize>,
    /// Those that nobody wants any more.
    pub(super) close: Vec<usize>,
}

/// In which order it is done where some are in the way of others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ListenerChangeOrder {
    /// Those that are closed before these are opened that wait for it.
    pub(super) first: Vec<usize>,
    /// Of each that is to be opened whether it waits. What does not is opened before anything is closed, so that its mistakes close nothing.
    pub(super) waits: Vec<bool>,
}

impl ListenerChanges {
    /// From what there is to what is wanted. Each that there is becomes one of those wanted at the same address, in their order, if there
    /// are any: port 0 may well be wanted several times.
    pub(super) fn between<T: PartialEq>(are: &[T], wanted: &[T]) -> Self {
        let mut change = Self::default();
        let mut taken = vec![false; are.len()];
        for (new, address) in wanted.iter().enumerate() {
            let free = |(old, is): (usize, &T)| (!taken[old] && is == address).then_some(old);
            match are.iter().enumerate().find_map(free) {
                Some(old) => {
                    taken[old] = true;
                    change.stay.push((old, new));
                }
                None => change.open.push(new),
            }
        }
        let left = taken.iter().enumerate().filter(|(_, taken)| !**taken);
        change.close = left.map(|(old, _)| old).collect();
        change
    }

    /// The order of it. `is_met` says of one that there is and one that is wanted that they cannot be at once; `is_last` of one that is
    /// wanted that it waits for all that others may wait for.
    pub(super) fn order(
        &self,
        is_met: impl Fn(usize, usize) -> bool,
        is_last: impl Fn(usize) -> bool,
    ) -> ListenerChangeOrder {
        let is_in_the_way = |old: &usize| self.open.iter().any(|new| is_met(*old, *new));
        let first: Vec<usize> = self.close.iter().copied().filter(is_in_the_way).collect();
        let waits = |new: &usize| is_last(*new) || first.iter().any(|old| is_met(*old, *new));
        let waits = self.open.iter().map(waits).collect();
        ListenerChangeOrder { first, waits }
    }
}

/// The address with the port that was found for it.
pub(super) fn same_port(listen: &ListenAddress, locals: &[BoundAddress]) -> ListenAddress {
    match (listen, locals.first()) {
        (ListenAddress::Tcp { host, .. }, Some(BoundAddress::Tcp(local))) => ListenAddress::Tcp {
            host: host.clone(),
            port: local.port(),
        },
        _ => listen.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(are: &str, wanted: &str) -> (Vec<(usize, usize)>, Vec<usize>, Vec<usize>) {
        let letters = |text: &str| text.chars().collect::<Vec<_>>();
        let change = ListenerChanges::between(&letters(are), &letters(wanted));
        (change.stay, change.open, change.close)
    }

    #[test]
    fn what_is_wanted_still_stays_open() {
        assert_eq!(change("", ""), (vec![], vec![], vec![]));
        assert_eq!(change("abc", "abc").0, [(0, 0), (1, 1), (2, 2)]);
        assert_eq!(change("ab", "cb"), (vec![(1, 1)], vec![0], vec![0]));
        assert_eq!(change("ab", "ba"), (vec![(1, 0), (0, 1)], vec![], vec![]));
        assert_eq!(change("ab", ""), (vec![], vec![], vec![0, 1]));
        assert_eq!(change("", "ab"), (vec![], vec![0, 1], vec![]));
    }

    #[test]
    fn one_address_may_be_wanted_several_times() {
        assert_eq!(change("00", "000"), (vec![(0, 0), (1, 1)], vec![2], vec![]));
        assert_eq!(change("0a0", "0"), (vec![(0, 0)], vec![], vec![1, 2]));
    }
    /// The order from letters to letters, where a small one and its capital cannot be at once.
    fn order(are: &str, wanted: &str, last: char) -> (Vec<usize>, Vec<bool>) {
        let letters = |text: &str| text.chars().collect::<Vec<_>>();
        let (are, wanted) = (letters(are), letters(wanted));
        let is_met = |old: usize, new: usize| are[old].eq_ignore_ascii_case(&wanted[new]);
        let is_last = |new: usize| wanted[new] == last;
        let order = ListenerChanges::between(&are, &wanted).order(is_met, is_last);
        (order.first, order.waits)
    }

    #[test]
    fn what_is_in_the_way_goes_first_and_only_what_needs_its_place_waits() {
        assert_eq!(order("ab", "cd", '-'), (vec![], vec![false, false]));
        assert_eq!(order("abc", "dBc", '-'), (vec![1], vec![false, true]));
        assert_eq!(order("ab", "sA", 's'), (vec![0], vec![true, true]));
        // What stays is in nobody's way that could be helped.
        assert_eq!(order("a", "aA", '-'), (vec![], vec![false]));
    }

    #[test]
    fn the_port_that_was_found_is_asked_for_again() {
        let same = |listen: &str, local: &str| {
            let local = BoundAddress::Tcp(local.parse().unwrap());
            same_port(&listen.parse().unwrap(), &[local]).to_string()
        };
        assert_eq!(same("127.0.0.2:0", "127.0.0.2:9993"), "127.0.0.2:9993");
        assert_eq!(same("127.0.0.1:7", "127.0.0.1:7"), "127.0.0.1:7");
        let file: ListenAddress = "unix:/a.sock".parse().unwrap();
        assert_eq!(same_port(&file, &[BoundAddress::Unix(None)]), file);
    }
}
