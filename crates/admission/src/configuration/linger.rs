//! What is no longer needed stays a while: quotas are often deleted to be made anew, and replicas whose watches lag must
//! not undo what others have just added.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::reach::{Part, Reach};

/// For so long.
const LINGER: Duration = Duration::from_secs(30);

/// A CA stays longer: replicas look for a new one once a minute.
const LINGER_OF_AUTHORITIES: Duration = Duration::from_secs(150);

fn lasting(part: &Part) -> Duration {
    match part {
        Part::Authority(_) => LINGER_OF_AUTHORITIES,
        Part::EveryNamespace | Part::Namespace(_) | Part::Request { .. } => LINGER,
    }
}

/// Since when parts of the configuration have not been needed.
#[derive(Debug, Default)]
pub(super) struct Linger {
    unneeded: BTreeMap<Part, Instant>,
}

impl Linger {
    /// What the configuration should reach: what is needed, and what it has reached until a while ago.
    pub(super) fn reach(&mut self, needed: &Reach, live: &Reach, now: Instant) -> Reach {
        self.unneeded
            .retain(|part, _| live.contains(part) && !needed.contains(part));
        let mut reach = needed.clone();
        for part in live.difference(needed) {
            let since = *self.unneeded.entry(part.clone()).or_insert(now);
            if now < since + lasting(part) {
                reach.insert(part.clone());
            }
        }
        reach
    }

    /// When the next part is to go.
    pub(super) fn next_end(&self, now: Instant) -> Option<Instant> {
        let ends = self.unneeded.iter().map(|(part, since)| *since + lasting(part));
        ends.filter(|end| *end > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(text: &str) -> Reach {
        let part = |word: &str| match word.strip_prefix("ca-") {
            Some(ca) => Part::Authority(ca.to_owned()),
            None => Part::Namespace(word.to_owned()),
        };
        text.split_whitespace().map(part).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn what_stays_and_what_goes() {
        let mut linger = Linger::default();
        let began = Instant::now();
        // At this second: what is needed, what there is, what there should be, and when something goes next.
        for (second, needed, live, expected, next) in [
            (0, "a", "", "a", None),
            (1, "a b", "a", "a b", None),
            (2, "a", "a b", "a b", Some(32)),
            (31, "a", "a b", "a b", Some(32)),
            (32, "a", "a b", "a", None),
            // It is needed again, and then is not: it stays anew.
            (33, "a", "a b", "a", None),
            (34, "a b", "a b", "a b", None),
            (35, "a", "a b", "a b", Some(65)),
            // Somebody else has taken it out, and put it back.
            (36, "a", "a", "a", None),
            (37, "", "a b", "a b", Some(67)),
            (40, "", "a b c ca-x", "a b c ca-x", Some(67)),
            (67, "", "a b c ca-x", "c ca-x", Some(70)),
            (70, "", "c ca-x", "ca-x", Some(190)),
            (190, "ca-y", "ca-x", "ca-y", None),
        ] {
            let now = began + Duration::from_secs(second);
            assert_eq!(
                linger.reach(&reach(needed), &reach(live), now),
                reach(expected),
                "{second}"
            );
            let next = next.map(|second| began + Duration::from_secs(second));
            assert_eq!(linger.next_end(now), next, "{second}");
        }
    }
}
