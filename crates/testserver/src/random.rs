//! Seeded pseudo-random numbers (SplitMix64): the same seed gives the same uids and the same faults.

use std::ops::Range;
use std::time::Duration;

/// A small deterministic generator.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// True with the given probability.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        // 53 bits are exact in an f64.
        let unit = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        unit < probability
    }

    /// A duration between two, the later one excluded; the earlier one where there is none between.
    pub(crate) fn between(&mut self, range: &Range<Duration>) -> Duration {
        let span = range.end.saturating_sub(range.start).as_nanos();
        let more = u128::from(self.next()).checked_rem(span).unwrap_or(0);
        range.start + Duration::from_nanos(u64::try_from(more).unwrap_or(0))
    }

    /// A version 4 UUID.
    pub(crate) fn uuid(&mut self) -> String {
        let high = (self.next() & !0xf000) | 0x4000;
        let low = (self.next() & !(0b11 << 62)) | (0b10 << 62);
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    /// The five characters that `generateName` appends, of upstream's alphabet.
    pub(crate) fn name_suffix(&mut self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..5)
            .map(|_| char::from(ALPHABET[(self.next() % ALPHABET.len() as u64) as usize]))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_version_4_and_repeatable() {
        let uid = Random::new(1).uuid();
        assert_eq!(uid, Random::new(1).uuid());
        assert_ne!(uid, Random::new(2).uuid());
        assert_eq!(uid.len(), 36);
        assert_eq!(&uid[14..15], "4");
        assert!("89ab".contains(&uid[19..20]));
    }

    #[test]
    fn chance_respects_its_ends() {
        let mut random = Random::new(7);
        assert!((0..100).all(|_| random.chance(1.0)));
        assert!((0..100).all(|_| !random.chance(0.0)));
    }

    #[test]
    fn durations_stay_between() {
        let mut random = Random::new(7);
        let range = Duration::from_secs(1)..Duration::from_secs(3);
        assert!((0..100).all(|_| range.contains(&random.between(&range))));
        let empty = Duration::from_secs(1)..Duration::from_secs(1);
        assert_eq!(random.between(&empty), Duration::from_secs(1));
    }
}
