//! Whether the server answers at all.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{info, warn};

/// A server that is away no longer than this is not worth a line.
const WORTH_TELLING: Duration = Duration::from_secs(1);

/// One that stays away is told of again after this.
const AGAIN: Duration = Duration::from_secs(600);

/// Tells of a server that can't be reached, once for all that wait for it: each of them would say the same.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    away: Mutex<Option<Away>>,
}

#[derive(Debug)]
struct Away {
    since: Instant,
    told: Option<Instant>,
}

impl Reach {
    /// A request found no server.
    pub(crate) fn failed(&self, cause: &str) {
        let now = Instant::now();
        let mut away = self.away.lock();
        let away = away.get_or_insert(Away { since: now, told: None });
        let (last, wait) = away.told.map_or((away.since, WORTH_TELLING), |told| (told, AGAIN));
        if now.saturating_duration_since(last) >= wait {
            away.told = Some(now);
            warn!("no answer from the server: {cause}; is it up, and is its address right?");
        }
    }

    /// A request was answered, whatever the answer.
    pub(crate) fn answered(&self) {
        if let Some(Away { since, told: Some(_) }) = self.away.lock().take() {
            info!(after = ?since.elapsed(), "the server answers again");
        }
    }

    /// Whether the server is away and that was told.
    pub(crate) fn is_away(&self) -> bool {
        self.away.lock().as_ref().is_some_and(|away| away.told.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn away_is_told_where_it_lasts_until_an_answer() {
        let reach = Reach::default();
        // At each moment one request fails or is answered, and whether the server is then known to be away.
        for (after_millis, answered, away) in [
            (0, false, false),
            (900, false, false),
            (0, true, false),
            (200, false, false),
            (999, false, false),
            (1, false, true),
            (5_000, false, true),
            (0, true, false),
            (0, false, false),
        ] {
            tokio::time::advance(Duration::from_millis(after_millis)).await;
            if answered {
                reach.answered();
            } else {
                reach.failed("refused");
            }
            assert_eq!(reach.is_away(), away, "{after_millis} {answered}");
        }
    }
}
