//! The server's clock: tokio's time counted from a fixed epoch, so that it obeys paused time.

use jiff::fmt::rfc2822::DateTimePrinter;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// 2026-01-01T00:00:00Z, where the clock starts unless a test says otherwise.
const DEFAULT_EPOCH: i64 = 1_767_225_600;

/// The server's idea of now.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    epoch: Timestamp,
    started: Instant,
    skew: SignedDuration,
}

impl Clock {
    pub(crate) fn new(epoch: Timestamp) -> Self {
        Self {
            epoch,
            started: Instant::now(),
            skew: SignedDuration::ZERO,
        }
    }

    pub(crate) fn default_epoch() -> Timestamp {
        Timestamp::from_second(DEFAULT_EPOCH).unwrap_or_default()
    }

    pub(crate) fn set_skew(&mut self, skew: SignedDuration) {
        self.skew = skew;
    }

    pub(crate) fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.started.elapsed()).unwrap_or(SignedDuration::ZERO);
        self.epoch
            .checked_add(elapsed.saturating_add(self.skew))
            .unwrap_or(self.epoch)
    }
}

/// The form of times in objects: whole seconds, UTC.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The form of the `Date` header.
pub(crate) fn http_date(time: Timestamp) -> String {
    DateTimePrinter::new()
        .timestamp_to_rfc9110_string(&time)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn follows_paused_time_and_skew() {
        let mut clock = Clock::new(Clock::default_epoch());
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(rfc3339(clock.now()), "2026-01-01T00:01:01Z");
        clock.set_skew(SignedDuration::from_secs(-60));
        assert_eq!(rfc3339(clock.now()), "2026-01-01T00:00:01Z");
        assert_eq!(http_date(clock.now()), "Thu, 01 Jan 2026 00:00:01 GMT");
    }
}
