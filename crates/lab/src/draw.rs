//! What is drawn from a seed: the same each time.

/// Numbers from a seed.
#[derive(Debug)]
pub struct Draw(u64);

impl Draw {
    /// The numbers of the n-th thing that is drawn from a seed.
    #[must_use]
    pub fn new(seed: u64, n: u64) -> Self {
        let mut draw = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(n));
        draw.next();
        draw
    }

    /// `SplitMix64`.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// Whether something happens that happens so often in a hundred times.
    pub fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap_or(0)]
    }
}
