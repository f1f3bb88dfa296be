//! The client's own rate limit.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A token bucket as client-go has it: `burst` requests at once, then `qps` a second, served in the order they came.
#[derive(Debug)]
pub(crate) struct Limiter {
    /// The time between two requests; `None` for no limit.
    period: Option<Duration>,
    burst: u32,
    /// When the bucket would be full again.
    full_at: Mutex<Instant>,
}

impl Limiter {
    /// A full bucket. No limit where `qps` is zero or less.
    pub(crate) fn new(qps: f32, burst: u32) -> Self {
        let period = Some(qps)
            .filter(|qps| qps.is_finite() && *qps > 0.0)
            .map(|qps| Duration::from_secs_f32(1.0 / qps));
        Limiter {
            period,
            burst: burst.max(1),
            full_at: Mutex::new(Instant::now()),
        }
    }

    /// Waits for this request's turn.
    pub(crate) async fn turn(&self) {
        let Some(period) = self.period else { return };
        let at = {
            let mut full_at = self.full_at.lock();
            *full_at = (*full_at).max(Instant::now()) + period;
            // A full bucket holds `burst` requests: one of them may go while no more than `burst` are owed.
            full_at.checked_sub(period.saturating_mul(self.burst))
        };
        if let Some(at) = at {
            tokio::time::sleep_until(at).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_then_a_rate() {
        let limiter = Limiter::new(10.0, 3);
        let start = Instant::now();
        let mut times = Vec::new();
        for _ in 0..6 {
            limiter.turn().await;
            times.push(start.elapsed().as_millis() / 100);
        }
        assert_eq!(times, [0, 0, 0, 1, 2, 3]);
        tokio::time::advance(Duration::from_secs(10)).await;
        let start = Instant::now();
        for _ in 0..3 {
            limiter.turn().await;
        }
        assert_eq!(
            start.elapsed().as_millis(),
            0,
            "the bucket is full again, and no fuller"
        );
        limiter.turn().await;
        assert!(start.elapsed() >= Duration::from_millis(100));
    }

    #[tokio::test(start_paused = true)]
    async fn no_limit() {
        for qps in [0.0, -1.0, f32::NAN] {
            let limiter = Limiter::new(qps, 1);
            let start = Instant::now();
            for _ in 0..1000 {
                limiter.turn().await;
            }
            assert_eq!(start.elapsed(), Duration::ZERO);
        }
    }
}
