//! The server's time.

use std::collections::VecDeque;

use jiff::fmt::rfc2822::DateTimeParser;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::time::Instant;

/// How many of the last answers are believed.
const KEPT: usize = 8;

/// The server's time as learned from the `Date` header of its answers.
///
/// An answer's date is cut to the second and was made before the answer arrived, so the date plus the time since then
/// is never later than that server's clock. Behind one address there may be several servers whose clocks differ, and a
/// clock may be set: of the last few answers the earliest is believed. So an object whose time is nearly over counts a
/// little too long, and never too short. The time may step back by as much as clocks differ.
#[derive(Debug, Default)]
pub struct ServerClock {
    answers: Mutex<VecDeque<(Instant, Timestamp)>>,
}

impl ServerClock {
    /// The time now; `None` before the first answer.
    #[must_use]
    pub fn now(&self) -> Option<Timestamp> {
        let now = Instant::now();
        let at = |(received, date): &(Instant, Timestamp)| {
            let since = SignedDuration::try_from(now.saturating_duration_since(*received)).ok()?;
            date.checked_add(since).ok()
        };
        self.answers.lock().iter().filter_map(at).min()
    }

    /// Takes note of an answer that arrives now.
    pub fn learn(&self, headers: &http::HeaderMap) {
        let Some(date) = headers.get(http::header::DATE) else {
            return;
        };
        let Ok(date) = DateTimeParser::new().parse_timestamp(date.as_bytes()) else {
            return;
        };
        let mut answers = self.answers.lock();
        if answers.len() == KEPT {
            answers.pop_front();
        }
        answers.push_back((Instant::now(), date));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn learn(clock: &ServerClock, date: &str) {
        let mut headers = http::HeaderMap::new();
        headers.insert(http::header::DATE, date.parse().unwrap());
        clock.learn(&headers);
    }

    fn at(text: &str) -> Option<Timestamp> {
        Some(text.parse().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn time_goes_on_between_answers() {
        let clock = ServerClock::default();
        assert_eq!(clock.now(), None);
        clock.learn(&http::HeaderMap::new());
        learn(&clock, "not a date");
        assert_eq!(clock.now(), None);
        learn(&clock, "Tue, 06 Jan 2026 10:00:00 GMT");
        tokio::time::advance(Duration::from_millis(1500)).await;
        assert_eq!(clock.now(), at("2026-01-06T10:00:01.5Z"));
        learn(&clock, "Tue, 06 Jan 2026 10:00:01 GMT");
        assert_eq!(
            clock.now(),
            at("2026-01-06T10:00:01Z"),
            "the later answer allows no more than this"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn of_servers_whose_clocks_differ_the_earliest_is_believed() {
        let clock = ServerClock::default();
        learn(&clock, "Tue, 06 Jan 2026 10:00:30 GMT");
        learn(&clock, "Tue, 06 Jan 2026 10:00:00 GMT");
        learn(&clock, "Tue, 06 Jan 2026 10:00:30 GMT");
        assert_eq!(clock.now(), at("2026-01-06T10:00:00Z"));
        for _ in 0..KEPT {
            learn(&clock, "Tue, 06 Jan 2026 10:00:30 GMT");
        }
        assert_eq!(
            clock.now(),
            at("2026-01-06T10:00:30Z"),
            "what a server said long ago is forgotten"
        );
    }
}
