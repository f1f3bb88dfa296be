//! Pending charges: what admission has raised `used` by, and no watch has shown stored yet.
//!
//! Whoever admits an object (the built-in plugin, or a webhook) raises `status.used` before the object is stored, and may raise it for
//! one that then is not. So for each quota and name the controller keeps, beside what the ledger *observes*, what is *pending*: raises
//! seen minus growth seen. What it writes is `observed + pending`; nothing can be spent twice. A raise older than the grace was stored or
//! never will be, and a consistent list sent later tells which. docs/architecture.md has the whole rule, `accounts` drives it.
//!
//! There is nothing like it in Kubernetes: upstream's controller writes what it observes.

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use kubequota_quantity::Quantity;

/// A moment of this process's steady clock, in nanoseconds since any fixed point: fine enough that two events don't share one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(u64);

impl Tick {
    /// Later than anything that happens.
    pub(crate) const NEVER: Tick = Tick(u64::MAX);

    /// So many milliseconds after the fixed point.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Tick(millis * 1_000_000)
    }

    /// So long after the fixed point.
    #[must_use]
    pub fn after_start(since_start: Duration) -> Self {
        Tick::default() + since_start
    }
}

impl Add<Duration> for Tick {
    type Output = Tick;

    fn add(self, duration: Duration) -> Tick {
        Tick(
            self.0
                .saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

/// The time between two moments, zero where the first is earlier.
impl Sub for Tick {
    type Output = Duration;

    fn sub(self, earlier: Tick) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}

/// How long growth may wait for its raise to be seen, before it is written up.
pub const RAISE_IS_ON_ITS_WAY: Duration = Duration::from_millis(200);

/// Raises are kept no finer than this, and count as seen at the end of their slot.
const SLOT: u64 = 100_000_000;

/// What is pending under one name of one quota.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Raises seen minus growth seen. Below zero while growth was seen before its raise.
    amount: Quantity,
    /// The newest raises, in the order they were seen: at least as many as come to `amount`. Older ones can't be what is pending.
    raises: VecDeque<(Tick, Quantity)>,
    /// Since when `used` stands for an unknown mix of what is stored and what is in flight; a list sent later resolves it.
    unresolved: Option<Tick>,
    /// Since when `amount` is below zero, and by how much it was then.
    shortfall: Option<(Tick, Quantity)>,
    /// Something that can't be read may be part of `used`: nothing is released meanwhile.
    frozen: bool,
}

/// Whether some of a pending amount is older than the grace, so that a list can tell if it was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Nothing is pending that could be released.
    NotNeeded,
    /// From this moment on.
    NeededAt(Tick),
}

impl Pending {
    /// A name whose `used` was just found (at start, with a new quota, after its watch broke): all of it may be in flight.
    #[must_use]
    pub fn found(used: Option<&Quantity>, now: Tick) -> Self {
        let amount = used.cloned().unwrap_or_default();
        let mut pending = Pending {
            amount: amount.clone(),
            unresolved: Some(now),
            ..Pending::default()
        };
        pending.note_raise(&amount, now);
        pending
    }

    /// `used` was found again after a gap. What was pending before is part of it.
    pub fn find_again(&mut self, used: Option<&Quantity>, now: Tick) {
        // Where the sighting waited for the answer to a write, something else may have come later than it.
        let since = self.unresolved.map_or(now, |since| since.max(now));
        *self = Pending {
            frozen: self.frozen,
            ..Pending::found(used, since)
        };
    }

    /// Someone raised `used`.
    pub fn raise(&mut self, by: &Quantity, now: Tick) {
        self.amount += by;
        self.note_raise(by, now);
        if let Some((_, short)) = &mut self.shortfall {
            *short += by;
            if !short.is_negative() {
                self.shortfall = None;
            }
        }
        self.note_shortfall(now);
    }

    fn note_raise(&mut self, by: &Quantity, now: Tick) {
        if by.is_zero() || by.is_negative() {
            return;
        }
        // One that had to wait may come after a later one, and then counts as seen with it.
        let slot = Tick(now.0.div_ceil(SLOT).saturating_mul(SLOT))
            .max(self.raises.back().map_or(Tick::default(), |(seen, _)| *seen));
        match self.raises.back_mut() {
            Some((seen, sum)) if *seen == slot => *sum += by,
            _ => {
                self.raises.push_back((slot, by.clone()));
                self.drop_spent_raises();
            }
        }
    }

    /// Drops the raises that can't be pending any more, since the newer ones alone come to what is.
    fn drop_spent_raises(&mut self) {
        let mut newer = Quantity::zero();
        let needed = self.raises.iter().rev().take_while(|(_, raise)| {
            let needed = newer < self.amount;
            newer += raise;
            needed
        });
        let spent = self.raises.len() - needed.count();
        self.raises.drain(..spent);
    }

    /// Growth that admission charged was observed.
    pub fn grow(&mut self, by: &Quantity, now: Tick) {
        if self.unresolved.is_none() {
            self.amount -= by;
            self.note_shortfall(now);
        }
    }

    fn note_shortfall(&mut self, now: Tick) {
        if !self.amount.is_negative() {
            self.shortfall = None;
        } else if self.shortfall.is_none() {
            self.shortfall = Some((now, self.amount.clone()));
        }
    }

    /// A consistent list of everything that feeds the name, sent at `sent_at`, has been taken into what is observed; `observed` is so much
    /// of that as admission charges. (Where several kinds feed it, `sent_at` is the earliest of their last lists.)
    pub fn listed(&mut self, sent_at: Tick, observed: &Quantity, grace: Duration) {
        if let Some(since) = self.unresolved {
            if since > sent_at {
                return;
            }
            self.unresolved = None;
            self.shortfall = None;
            self.amount = (&self.amount - observed).max(Quantity::zero());
        }
        if self.frozen {
            return;
        }
        let young = self.young(sent_at, grace);
        self.amount = std::mem::take(&mut self.amount).min(young);
        while self.raises.front().is_some_and(|(seen, _)| *seen + grace <= sent_at) {
            self.raises.pop_front();
        }
    }

    /// Raises that may still be in flight at `at`: those seen less than a grace before it, and all later ones.
    fn young(&self, at: Tick, grace: Duration) -> Quantity {
        let mut young = Quantity::zero();
        for (_, raise) in self.raises.iter().filter(|(seen, _)| *seen + grace > at) {
            young += raise;
        }
        young
    }

    /// Something that feeds the name can't be read any more, or can be again. From then on `used` is unresolved once more.
    pub fn set_frozen(&mut self, frozen: bool, used: Option<&Quantity>, now: Tick) {
        if self.frozen && !frozen {
            self.find_again(used, now);
        }
        self.frozen = frozen;
    }

    /// Whether something that feeds the name can't be read.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// Since when `used` can't be told apart, until a list resolves it.
    #[must_use]
    pub fn unresolved_since(&self) -> Option<Tick> {
        self.unresolved
    }

    /// The pending amount.
    #[must_use]
    pub fn amount(&self) -> &Quantity {
        &self.amount
    }

    /// What `used` should be. A lowering by someone else is believed as long as it stays at or above what is observed.
    #[must_use]
    pub fn target(&self, observed: &Quantity, used: Option<&Quantity>) -> Quantity {
        let target = if self.amount.is_negative() || self.amount.is_zero() {
            observed.clone()
        } else {
            observed + &self.amount
        };
        match used {
            Some(used) if used >= observed => target.min(used.clone()),
            _ => target,
        }
    }

    /// Until when a write that raises `used` should wait for a raise that is usually on its way.
    #[must_use]
    pub fn wait_before_raising(&self) -> Option<Tick> {
        self.shortfall.as_ref().map(|(since, _)| *since + RAISE_IS_ON_ITS_WAY)
    }

    /// A write landed that was sent while this much was pending. A negative amount is thereby settled: the write was guarded, so no raise
    /// can have been unseen, and there is none for that growth.
    pub fn landed(&mut self, sent_with: &Quantity, now: Tick) {
        if sent_with.is_negative() && self.unresolved.is_none() {
            self.amount -= sent_with;
            // If raises came meanwhile they are pending in full now, and they may have been dropped as spent.
            self.note_raise(&-sent_with, now);
            self.shortfall = None;
            self.note_shortfall(now);
        }
    }

    /// Whether, and from when on, a list would release something.
    #[must_use]
    pub fn evidence(&self, now: Tick, grace: Duration) -> Evidence {
        if self.unresolved.is_some() || self.frozen || self.amount.is_zero() || self.amount.is_negative() {
            return Evidence::NotNeeded;
        }
        let mut young = self.young(now, grace);
        if self.amount > young {
            return Evidence::NeededAt(now);
        }
        for (seen, raise) in self.raises.iter().filter(|(seen, _)| *seen + grace > now) {
            young -= raise;
            if self.amount > young {
                return Evidence::NeededAt(*seen + grace);
            }
        }
        Evidence::NotNeeded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(10);

    fn at(millis: u64) -> Tick {
        Tick::from_millis(millis)
    }

    fn q(units: i64) -> Quantity {
        Quantity::from(units)
    }

    /// One name, with the ledger's sum beside it.
    struct Name {
        pending: Pending,
        observed: i64,
        used: i64,
    }

    impl Name {
        /// A resolved one: so much is stored, and nothing is pending. The list was sent at 0.
        fn settled(stored: i64) -> Self {
            let mut name = Name {
                pending: Pending::found(Some(&q(stored)), at(0)),
                observed: stored,
                used: stored,
            };
            name.listed(0);
            assert_eq!(name.amount(), 0);
            name
        }

        fn raise(&mut self, by: i64, millis: u64) {
            self.used += by;
            self.pending.raise(&q(by), at(millis));
        }

        fn grow(&mut self, by: i64, millis: u64) {
            self.observed += by;
            self.pending.grow(&q(by), at(millis));
        }

        fn listed(&mut self, sent_at: u64) {
            self.pending.listed(at(sent_at), &q(self.observed), GRACE);
        }

        fn amount(&self) -> i64 {
            self.pending.amount().units().unwrap()
        }

        fn target(&self) -> i64 {
            self.pending
                .target(&q(self.observed), Some(&q(self.used)))
                .units()
                .unwrap()
        }

        fn evidence(&self, millis: u64) -> Evidence {
            self.pending.evidence(at(millis), GRACE)
        }
    }

    #[test]
    fn growth_uses_up_its_raise() {
        let mut name = Name::settled(3);
        name.raise(2, 1_000);
        assert_eq!((name.amount(), name.target()), (2, 5));
        name.grow(2, 2_000);
        assert_eq!((name.amount(), name.target()), (0, 5));
        // A deletion lowers what is observed alone.
        name.observed -= 1;
        assert_eq!((name.amount(), name.target()), (0, 4));
    }

    #[test]
    fn a_raise_is_released_by_a_list_that_was_sent_a_grace_later() {
        // Seen at 1,000: when the list is sent, and whether that releases it.
        for (sent_at, left) in [(1_000, 2), (10_900, 2), (10_999, 2), (11_000, 0), (30_000, 0)] {
            let mut name = Name::settled(3);
            name.raise(2, 1_000);
            name.listed(sent_at);
            assert_eq!((name.amount(), name.target()), (left, 3 + left), "sent at {sent_at}");
        }
    }

    #[test]
    fn a_list_judges_age_by_when_it_was_sent() {
        let mut name = Name::settled(0);
        name.raise(1, 1_000);
        name.raise(1, 6_000);
        // However late these are answered.
        name.listed(10_000);
        assert_eq!(name.amount(), 2);
        name.listed(12_000);
        assert_eq!(name.amount(), 1);
        // One that was sent before, and comes after, takes nothing more.
        name.listed(9_000);
        assert_eq!(name.amount(), 1);
        name.listed(16_000);
        assert_eq!(name.amount(), 0);
    }

    #[test]
    fn no_list_is_too_slow() {
        let mut name = Name::settled(0);
        name.raise(1, 1_000);
        for second in 2..1_000 {
            name.raise(1, second * 1_000);
            name.grow(1, second * 1_000 + 1);
        }
        // This was sent before all but the first, and can tell of none of them.
        name.listed(1_500);
        assert_eq!(name.amount(), 1);
    }

    #[test]
    fn raises_are_kept_in_slots_and_count_as_seen_at_their_end() {
        let mut name = Name::settled(0);
        for millis in [901, 950, 1_000] {
            name.raise(1, millis);
        }
        name.raise(1, 1_001);
        let kept: Vec<(Tick, i64)> = name
            .pending
            .raises
            .iter()
            .map(|(seen, by)| (*seen, by.units().unwrap()))
            .collect();
        assert_eq!(kept, [(at(1_000), 3), (at(1_100), 1)]);
        name.listed(10_999);
        assert_eq!(name.amount(), 4);
        name.listed(11_000);
        assert_eq!(name.amount(), 1);
    }

    #[test]
    fn spent_raises_are_not_kept() {
        let mut name = Name::settled(0);
        for second in 1..100_000 {
            name.raise(1, second * 1_000);
            name.grow(1, second * 1_000 + 1);
        }
        assert!(name.pending.raises.len() <= 1, "{:?}", name.pending);
    }

    #[test]
    fn a_raise_that_had_to_wait_counts_with_the_last() {
        let mut name = Name::settled(0);
        name.raise(1, 5_000);
        name.raise(1, 2_000);
        name.listed(14_999);
        assert_eq!(name.amount(), 2);
    }

    #[test]
    fn growth_before_its_raise_waits_for_it() {
        let mut name = Name::settled(3);
        name.grow(2, 1_000);
        assert_eq!((name.amount(), name.target()), (-2, 5));
        assert_eq!(name.pending.wait_before_raising(), Some(at(1_200)));
        // More of it does not wait longer; a raise that covers what there was at first ends the wait, or begins one for the rest.
        name.grow(1, 1_100);
        assert_eq!(name.pending.wait_before_raising(), Some(at(1_200)));
        name.raise(1, 1_150);
        assert_eq!(name.pending.wait_before_raising(), Some(at(1_200)));
        name.raise(1, 1_160);
        assert_eq!(name.pending.wait_before_raising(), Some(at(1_360)));
        name.raise(1, 1_170);
        assert_eq!((name.amount(), name.target()), (0, 6));
        assert_eq!(name.pending.wait_before_raising(), None);
    }

    #[test]
    fn a_landed_write_settles_growth_without_a_raise() {
        let mut name = Name::settled(3);
        name.grow(2, 1_000);
        let sent_with = name.pending.amount().clone();
        // Growth since then is not settled by it.
        name.grow(1, 1_300);
        name.used = 5;
        name.pending.landed(&sent_with, at(1_400));
        assert_eq!((name.amount(), name.target()), (-1, 6));
        assert_eq!(name.pending.wait_before_raising(), Some(at(1_600)));
    }

    #[test]
    fn a_landed_write_leaves_raises_pending_that_came_meanwhile() {
        let mut name = Name::settled(3);
        name.grow(2, 1_000);
        let sent_with = name.pending.amount().clone();
        name.used = 5;
        name.raise(1, 1_300);
        name.raise(1, 1_450);
        name.pending.landed(&sent_with, at(1_500));
        assert_eq!((name.amount(), name.target()), (2, 7));
        name.listed(10_000);
        assert_eq!(name.amount(), 2);
        name.listed(11_500);
        assert_eq!(name.amount(), 0);
        // One that was sent with something pending settles nothing.
        name.pending.landed(&q(1), at(12_000));
        assert_eq!(name.amount(), 0);
    }

    #[test]
    fn target_table() {
        // Observed, pending, used, and what used should be.
        let table = [
            (5, 0, Some(5), 5),
            (5, 0, Some(7), 5),
            (5, 0, Some(3), 5),
            (5, 0, None, 5),
            (5, 2, Some(7), 7),
            (5, 2, None, 7),
            // Someone lowered it: believed as far as it is possible.
            (5, 2, Some(6), 6),
            (5, 2, Some(5), 5),
            (5, 2, Some(4), 7),
            (5, -2, Some(3), 5),
            (5, -2, Some(9), 5),
        ];
        for (observed, amount, used, expected) in table {
            let pending = Pending {
                amount: q(amount),
                ..Pending::default()
            };
            let used: Option<Quantity> = used.map(q);
            assert_eq!(
                pending.target(&q(observed), used.as_ref()),
                q(expected),
                "{observed} + {amount}, {used:?}"
            );
        }
    }

    #[test]
    fn what_is_found_is_resolved_by_a_list_that_was_sent_later() {
        let mut name = Name {
            pending: Pending::found(Some(&q(5)), at(1_000)),
            observed: 0,
            used: 5,
        };
        // What is observed meanwhile is part of what was found; raises are not.
        name.grow(3, 1_100);
        name.raise(1, 1_200);
        name.listed(999);
        assert_eq!((name.pending.unresolved_since(), name.amount()), (Some(at(1_000)), 6));
        name.listed(1_000);
        assert_eq!(
            (name.pending.unresolved_since(), name.amount(), name.target()),
            (None, 3, 6)
        );
        // All that was found counts as raised then.
        name.listed(10_999);
        assert_eq!(name.amount(), 3);
        name.listed(11_000);
        assert_eq!(name.amount(), 1);
    }

    #[test]
    fn a_list_sent_a_grace_after_the_finding_releases_at_once() {
        let mut name = Name {
            pending: Pending::found(Some(&q(5)), at(1_000)),
            observed: 3,
            used: 5,
        };
        name.listed(11_000);
        assert_eq!((name.amount(), name.target()), (0, 3));
    }

    #[test]
    fn less_found_than_observed_is_no_shortfall() {
        let mut name = Name {
            pending: Pending::found(None, at(1_000)),
            observed: 3,
            used: 0,
        };
        name.listed(1_000);
        assert_eq!((name.amount(), name.target()), (0, 3));
        assert_eq!(name.pending.wait_before_raising(), None);
    }

    #[test]
    fn found_again_replaces_what_was_pending() {
        let mut name = Name::settled(3);
        name.raise(1, 1_000);
        name.grow(2, 2_000);
        name.pending.find_again(Some(&q(7)), at(5_000));
        assert_eq!((name.amount(), name.pending.unresolved_since()), (7, Some(at(5_000))));
        assert_eq!(name.pending.wait_before_raising(), None);
        name.listed(4_000);
        assert_eq!(name.pending.unresolved_since(), Some(at(5_000)));
        name.listed(5_000);
        assert_eq!(name.amount(), 2);
        // A sighting that had to wait does not make an older list do.
        name.pending.find_again(Some(&q(7)), at(7_000));
        name.pending.find_again(Some(&q(8)), at(6_000));
        assert_eq!((name.amount(), name.pending.unresolved_since()), (8, Some(at(7_000))));
    }

    #[test]
    fn frozen_nothing_is_released_and_thawed_all_is_resolved_anew() {
        let mut name = Name::settled(3);
        name.raise(2, 1_000);
        name.pending.set_frozen(true, None, at(2_000));
        name.listed(20_000);
        assert_eq!((name.amount(), name.target()), (2, 5));
        assert_eq!(name.evidence(20_000), Evidence::NotNeeded);
        // What can be read still counts.
        name.observed -= 1;
        assert_eq!(name.target(), 4);
        name.used = 4;
        name.pending.set_frozen(false, Some(&q(4)), at(21_000));
        assert_eq!((name.amount(), name.pending.unresolved_since()), (4, Some(at(21_000))));
        name.listed(22_000);
        assert_eq!((name.amount(), name.target()), (2, 4));
        name.listed(31_000);
        assert_eq!((name.amount(), name.target()), (0, 2));
        // Frozen while it is unresolved: a list still tells what of it is stored.
        name.pending.find_again(Some(&q(4)), at(40_000));
        name.pending.set_frozen(true, Some(&q(4)), at(41_000));
        name.pending.find_again(Some(&q(4)), at(42_000));
        assert!(name.pending.is_frozen());
        name.listed(60_000);
        assert_eq!((name.amount(), name.pending.unresolved_since()), (2, None));
    }

    #[test]
    fn evidence_is_needed_once_less_is_young_than_pending() {
        let mut name = Name::settled(3);
        assert_eq!(name.evidence(5_000), Evidence::NotNeeded);
        name.raise(2, 1_000);
        name.raise(1, 3_000);
        assert_eq!(name.evidence(5_000), Evidence::NeededAt(at(11_000)));
        assert_eq!(name.evidence(11_000), Evidence::NeededAt(at(11_000)));
        assert_eq!(name.evidence(12_000), Evidence::NeededAt(at(12_000)));
        // One of the three was stored: all the same, by what is known it may be the last one.
        name.grow(1, 4_000);
        assert_eq!(name.evidence(5_000), Evidence::NeededAt(at(11_000)));
        // Two: what is left may be the young one.
        name.grow(1, 4_500);
        assert_eq!(name.evidence(5_000), Evidence::NeededAt(at(13_000)));
        assert_eq!(name.evidence(11_000), Evidence::NeededAt(at(13_000)));
        name.grow(1, 4_600);
        assert_eq!(name.evidence(5_000), Evidence::NotNeeded);
        name.grow(1, 4_700);
        assert_eq!(name.evidence(5_000), Evidence::NotNeeded);
        name.pending.find_again(Some(&q(9)), at(6_000));
        assert_eq!(name.evidence(50_000), Evidence::NotNeeded);
    }

    #[test]
    fn ticks() {
        assert_eq!(at(3) - at(1), Duration::from_millis(2));
        assert_eq!(at(1) - at(3), Duration::ZERO);
        assert_eq!(Tick::after_start(Duration::from_millis(3)), at(3));
        assert_eq!(Tick::NEVER + Duration::from_secs(1), Tick::NEVER);
        assert_eq!(
            (at(1) + Duration::MAX, at(1_500).to_string()),
            (Tick::NEVER, "1.5s".to_owned())
        );
    }
}
