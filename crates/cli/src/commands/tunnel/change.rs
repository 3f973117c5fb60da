//! What becomes of listeners when settings are read again: a decision about addresses, and nothing is opened or closed here.

/// What is to be done. Numbers are places in the lists that were compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// Those that are wanted still: the number that one has, and the one it gets.
    pub(super) stay: Vec<(usize, usize)>,
    /// Those that are to be opened.
    pub(super) open: Vec<usize>,
    /// Those that nobody wants any more.
    pub(super) close: Vec<usize>,
}

impl Change {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(are: &str, wanted: &str) -> (Vec<(usize, usize)>, Vec<usize>, Vec<usize>) {
        let letters = |text: &str| text.chars().collect::<Vec<_>>();
        let change = Change::between(&letters(are), &letters(wanted));
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
}
