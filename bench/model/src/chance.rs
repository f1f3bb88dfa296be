//! Random numbers that are the same for the same seed, everywhere.

pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64, salt: u64) -> Self {
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.wrapping_mul(0xd1b5_4a32_d192_ed03))
    }

    /// SplitMix64.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    pub(crate) fn amount(&mut self, low: i64, high: i64) -> i64 {
        low + i64::try_from(self.between(0, high.abs_diff(low))).unwrap()
    }

    /// Yes in so many of a hundred cases.
    pub(crate) fn percent(&mut self, yes: u64) -> bool {
        self.next() % 100 < yes
    }

    /// One of so many.
    pub(crate) fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % count as u64).unwrap()
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }
}
