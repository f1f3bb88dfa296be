//! How long to wait after a failure.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::time::Duration;

use tokio::time::Instant;

/// Delays that double from `first` to `most`, each lengthened at random by up to its own length, so that many clients
/// do not come back at once. After a while without failure they begin anew. The default has the delays of client-go's
/// reflector, which are forgotten sooner here: two restarts of a server within two minutes are no reason to stay away.
#[derive(Clone, Debug)]
pub struct Backoff {
    /// The first delay.
    pub first: Duration,
    /// The longest, before it is lengthened.
    pub most: Duration,
    /// After so long without failure the delays begin anew.
    pub healthy_after: Duration,
    step: u32,
    /// When the last delay was over.
    until: Option<Instant>,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff::new(Duration::from_millis(800), Duration::from_secs(30))
    }
}

impl Backoff {
    /// Delays from `first` to `most`, begun anew after 15 seconds without failure.
    #[must_use]
    pub fn new(first: Duration, most: Duration) -> Self {
        Backoff {
            first,
            most,
            healthy_after: Duration::from_secs(15),
            step: 0,
            until: None,
        }
    }

    /// The delay after a failure now.
    pub fn next(&mut self, random: &mut Random) -> Duration {
        let now = Instant::now();
        if self
            .until
            .is_some_and(|until| now.saturating_duration_since(until) >= self.healthy_after)
        {
            self.step = 0;
        }
        let delay = self
            .first
            .saturating_mul(2_u32.saturating_pow(self.step))
            .min(self.most);
        self.step = self.step.saturating_add(1);
        let delay = delay + delay.mul_f64(random.fraction());
        self.until = now.checked_add(delay);
        delay
    }
}

/// Numbers that spread things out in time; good enough for that, and the same for the same seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Numbers that follow from a seed, or from nothing.
    #[must_use]
    pub fn new(seed: Option<u64>) -> Self {
        // The standard library seeds its hash maps from the system.
        Random(seed.unwrap_or_else(|| RandomState::new().hash_one(0)))
    }

    /// From 0 up to, but not, 1.
    pub fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        // 53 bits are what a double holds.
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A duration between two.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        least + most.saturating_sub(least).mul_f64(self.fraction())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_double_to_a_limit_and_begin_anew() {
        let (mut backoff, mut random) = (Backoff::default(), Random::new(Some(1)));
        let mut expected = Duration::from_millis(800);
        for _ in 0..40 {
            let delay = backoff.next(&mut random);
            assert!(expected <= delay && delay < expected * 2, "{delay:?} for {expected:?}");
            expected = (expected * 2).min(Duration::from_secs(30));
            tokio::time::advance(delay + Duration::from_secs(14)).await;
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(backoff.next(&mut random) < Duration::from_millis(1600));
    }

    #[test]
    fn random_numbers_are_spread_and_repeatable() {
        let mut random = Random::new(Some(7));
        let numbers: Vec<f64> = (0..1000).map(|_| random.fraction()).collect();
        let mean = numbers.iter().sum::<f64>() / 1000.0;
        assert!(
            numbers.iter().all(|number| (0.0..1.0).contains(number)) && (0.45..0.55).contains(&mean),
            "{mean}"
        );
        let mut again = Random::new(Some(7));
        assert!(numbers.iter().all(|number| *number == again.fraction()));
        assert_ne!(Random::new(None).fraction(), Random::new(None).fraction());
        let (least, most) = (Duration::from_secs(300), Duration::from_secs(600));
        assert!((0..100).all(|_| (least..most).contains(&random.between(least, most))));
    }
}
