//! The three properties, judged from what the server stores and what a controller has been shown; never by asking its accounts what
//! they think is pending.

use std::collections::BTreeMap;

use kubequota_core::QuotaKey;
use kubequota_core::accounts::{Sighting, StatusWrite};

use crate::controller::{is_frozen, known_spots};
use crate::history::History;
use crate::paths::Path;
use crate::plot::{GRACE, Ms};
use crate::server::{
    Amounts, GPU, KINDS, Kind, NAMES, Shrinkage, Spot, StoredQuota, Used, add, amounts, key, namespace, spot,
};

/// How long after the last thing that happened `used` must be exact.
pub(crate) const SETTLED: Ms = GRACE + 5_000;
/// How much older than the grace a raise may be until a list has released it, where lists are answered at once: they come no closer
/// than two seconds, raises are kept in slots of a tenth, and a list and a write take their time.
const EVIDENCE: Ms = 2_500;

/// What must hold in every history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Property {
    /// A write put `used` below what is stored, and admitted and in flight.
    Lost,
    /// All is quiet, and `used` is not what is stored.
    Inexact,
    /// `used` is higher than what is stored by more than the raises of the last grace.
    OverCounted,
}

#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) property: Property,
    pub(crate) line: String,
}

/// What a controller has been shown, as far as it says how much it may over-count.
#[derive(Default)]
pub(crate) struct Books {
    /// Raises, and what was found more than stored, by when they were shown.
    raises: BTreeMap<Spot, Vec<(Ms, Amounts)>>,
    /// When a quota was found (at first, after its watch broke, after an edit or a thaw): what goes from then on goes unnoticed
    /// until the list that tells what of it is stored.
    found: BTreeMap<Spot, Vec<Ms>>,
    shown: BTreeMap<Spot, StoredQuota>,
    /// Kinds with something that can't be read, by namespace.
    clouded: [[bool; KINDS.len()]; 2],
    /// Lists and writes that are not answered, with when they began: until then nothing is released.
    under_way: BTreeMap<Errand, Ms>,
    /// From when to when such took long, or failed, without a break.
    troubled: Option<(Ms, Ms)>,
}

/// What a controller has to wait for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Errand {
    List(Kind),
    Evidence(Kind, usize),
    Write(QuotaKey),
    /// Its turn to lead: a standby asks for no list.
    Standby,
}

impl Books {
    pub(crate) fn began(&mut self, errand: Errand, now: Ms) {
        self.under_way.entry(errand).or_insert(now);
    }

    pub(crate) fn ended(&mut self, errand: &Errand, now: Ms) {
        if let Some(since) = self.under_way.remove(errand)
            && now > since + 200
        {
            self.trouble(since, now);
        }
    }

    /// Whether a list of the kind in one namespace is under way.
    pub(crate) fn awaits_evidence(&self, kind: Kind) -> bool {
        let mut errands = self.under_way.keys();
        errands.any(|errand| matches!(errand, Errand::Evidence(of, _) if *of == kind))
    }

    pub(crate) fn trouble(&mut self, since: Ms, until: Ms) {
        self.troubled = match self.troubled {
            Some((from, to)) if since <= to + EVIDENCE => Some((from.min(since), to.max(until))),
            _ => Some((since, until)),
        };
    }

    /// Raises shown later than this may not have been released yet.
    fn horizon(&self, now: Ms) -> Ms {
        let since = self.under_way.values().copied().min().unwrap_or(now);
        let since = match self.troubled {
            Some((from, to)) if since <= to + EVIDENCE => from.min(since),
            _ => since,
        };
        since.saturating_sub(GRACE + EVIDENCE)
    }

    fn found(&mut self, at: Spot, now: Ms, used: Used, stored: &Amounts) {
        let more = std::array::from_fn(|name| (used[name].unwrap_or(0) - stored[name]).max(0));
        self.raises.entry(at).or_default().push((now, more));
        self.found.entry(at).or_default().push(now);
    }
}

impl History {
    // ---- nothing is lost

    /// What `used` must not fall below: all that is stored, as far as it was charged, and all that is charged and not stored yet.
    fn needed(&self, quota: &StoredQuota) -> Amounts {
        let mut needed = [0; NAMES.len()];
        for object in self.objects_in(quota.spot.0) {
            let usage = self.usage(object);
            let charged = object.charged.get(&quota.uid).copied().unwrap_or_default();
            add(&mut needed, &std::array::from_fn(|name| usage[name].min(charged[name])));
        }
        for charged in self
            .requests
            .values()
            .filter_map(|request| request.charged.get(&quota.uid))
        {
            add(&mut needed, charged);
        }
        if let Some(hidden) = self.hidden.get(&quota.uid) {
            add(&mut needed, &hidden.map(|hidden| -hidden));
        }
        needed
    }

    pub(crate) fn judge_landed(&mut self, before: &StoredQuota, quota: &StoredQuota) {
        let needed = self.needed(quota);
        for name in 0..NAMES.len() {
            let (was, is) = (before.used(name), quota.used(name));
            if is != was
                && let Some(is) = is.filter(|is| *is < needed[name])
            {
                let line = format!(
                    "{} {}: {is} is written and {} needed",
                    quota.key(),
                    NAMES[name],
                    needed[name]
                );
                self.violated(Property::Lost, line);
            }
        }
    }

    // ---- exact in the end

    pub(crate) fn judge_settled(&mut self) {
        for quota in self.quotas.values().cloned().collect::<Vec<_>>() {
            let stored = self.stored(quota.spot.0);
            for (name, text) in NAMES.iter().enumerate() {
                let stored = quota.hard[name].then_some(stored[name]);
                let used = quota.used(name);
                if used != stored {
                    let line = format!(
                        "{} {text}: all is quiet, used is {used:?} and stored {stored:?}",
                        quota.key()
                    );
                    self.violated(Property::Inexact, line);
                }
            }
        }
    }

    // ---- over-counted by no more than the raises of the last grace

    /// A write is sent: what it adds to what is stored must have been shown raised not long ago, or be gone without having been shown so.
    pub(crate) fn judge_over_count(&mut self, who: usize, write: &StatusWrite) {
        let (now, at) = (self.now, spot(&write.quota));
        let stored = self.stored(at.0);
        let Some(controller) = &self.controllers[who] else {
            return;
        };
        let (books, accounts) = (&controller.books, &controller.accounts);
        let status = accounts
            .quota(&write.quota)
            .and_then(|quota| quota.status.used.as_ref());
        let before = status.map(amounts).unwrap_or_default();
        let horizon = books.horizon(now);
        let mut most = stored;
        for (_, raised) in books
            .raises
            .get(&at)
            .into_iter()
            .flatten()
            .filter(|(shown, _)| *shown >= horizon)
        {
            add(&mut most, raised);
        }
        let found = books.found.get(&at).into_iter().flatten();
        let found = found.copied().filter(|found| *found >= horizon).min();
        if found.is_some() {
            // What nobody was charged for may not have been part of what was found, and is not taken for that: what the status of pods
            // has added, and what is left of claims that were made for pods.
            for (_, _, by) in self.grown.iter().filter(|(_, namespace, _)| *namespace == at.0) {
                add(&mut most, by);
            }
        }
        let unnoticed = |shrinkage: &&Shrinkage| {
            let shown = controller.kinds[shrinkage.kind as usize].monitor.shown;
            shrinkage.namespace == at.0
                && (shrinkage.revision > shown || found.is_some_and(|found| shrinkage.at >= found))
        };
        for shrinkage in self.shrinkages.iter().filter(unnoticed) {
            add(&mut most, &shrinkage.by);
        }
        let used = amounts(&write.used);
        // What claims cost is seen differently for as long as a change of their class has not been shown.
        let is_class_known = controller.class_carries == Some(self.class_carries);
        let mut lines = Vec::new();
        let mut judged = false;
        for name in (0..NAMES.len()).filter(|name| *name != GPU || is_class_known) {
            let Some(is) = used[name].filter(|is| before[name] != Some(*is)) else {
                continue;
            };
            // A claim that can't be read keeps what it last cost, even where claims no longer feed the name.
            let keeps = name == GPU && books.clouded[at.0][Kind::Claim as usize];
            if keeps || is_frozen(accounts, at, name) {
                continue;
            }
            judged = true;
            if is > most[name] {
                let (stored, most) = (stored[name], most[name]);
                lines.push(format!(
                    "{} {}: {is} is written, {stored} stored, at most {most} right",
                    write.quota, NAMES[name]
                ));
            }
        }
        if judged {
            self.paths.note(Path::OverCountJudged);
        }
        for line in lines {
            self.violated(Property::OverCounted, line);
        }
    }

    /// In a busy namespace without faults: `used` itself.
    pub(crate) fn judge_busy(&mut self) {
        let (now, since) = (self.now, self.now.saturating_sub(GRACE + EVIDENCE + 500));
        let recent = self.now.saturating_sub(EVIDENCE + 500);
        for quota in self.quotas.values().cloned().collect::<Vec<_>>() {
            let stored = self.stored(quota.spot.0);
            let mut most = stored;
            for (_, _, raised) in self
                .raises
                .iter()
                .filter(|(at, spot, _)| *at >= since && *spot == quota.spot)
            {
                add(&mut most, raised);
            }
            let gone = self.shrinkages.iter();
            for shrinkage in gone.filter(|gone| gone.namespace == quota.spot.0 && (recent..=now).contains(&gone.at)) {
                add(&mut most, &shrinkage.by);
            }
            self.paths.note(Path::BusyJudged);
            for name in 0..NAMES.len() {
                if let Some(used) = quota.used(name).filter(|used| *used > most[name]) {
                    let (stored, most) = (stored[name], most[name]);
                    let line = format!(
                        "{} {}: used is {used}, {stored} stored, at most {most} right",
                        quota.key(),
                        NAMES[name]
                    );
                    self.violated(Property::OverCounted, line);
                }
            }
        }
    }

    /// A quota was shown to a controller.
    pub(crate) fn note_quota(&mut self, who: usize, quota: &StoredQuota, sighting: Sighting, own: bool) {
        let (now, stored) = (self.now, self.stored(quota.spot.0));
        let Some(controller) = &mut self.controllers[who] else {
            return;
        };
        let books = &mut controller.books;
        let before = books
            .shown
            .insert(quota.spot, quota.clone())
            .filter(|before| before.uid == quota.uid);
        let used = quota.used.unwrap_or_default();
        let Some(before) = before else {
            return books.found(quota.spot, now, used, &stored);
        };
        let was = before.used.unwrap_or_default();
        let is_first = (0..NAMES.len()).any(|name| was[name].is_none() && used[name].is_some());
        if sighting == Sighting::Listed || before.hard != quota.hard || is_first {
            books.found(quota.spot, now, used, &stored);
        }
        let raised: Amounts = std::array::from_fn(|name| match (was[name], used[name]) {
            (Some(was), Some(is)) => (is - was).max(0),
            _ => 0,
        });
        if !own && raised != [0; NAMES.len()] {
            books.raises.entry(quota.spot).or_default().push((now, raised));
        }
    }

    /// Something made a controller find all its quotas anew.
    pub(crate) fn note_all_found(&mut self, who: usize) {
        let Some(controller) = &self.controllers[who] else {
            return;
        };
        self.note_found(who, known_spots(&controller.accounts));
    }

    fn note_found(&mut self, who: usize, spots: Vec<Spot>) {
        let now = self.now;
        let stored: Vec<Amounts> = spots.iter().map(|at| self.stored(at.0)).collect();
        let Some(controller) = &mut self.controllers[who] else {
            return;
        };
        for (at, stored) in spots.into_iter().zip(stored) {
            let status = controller
                .accounts
                .quota(&key(at))
                .and_then(|quota| quota.status.used.as_ref());
            let used = status.map(amounts).unwrap_or_default();
            controller.books.found(at, now, used, &stored);
        }
    }

    /// What can't be read may have come or gone: what it froze is found again.
    pub(crate) fn note_clouds(&mut self, who: usize) {
        let namespaces = self.plot.namespaces;
        let Some(controller) = &mut self.controllers[who] else {
            return;
        };
        let ledger = controller.accounts.inventory().ledger();
        let mut thawed = Vec::new();
        for in_namespace in 0..namespaces {
            let space = namespace(in_namespace);
            for kind in KINDS {
                let is = ledger.is_clouded(&space, controller.kinds[kind as usize].id);
                let was = std::mem::replace(&mut controller.books.clouded[in_namespace][kind as usize], is);
                match (was, is) {
                    (false, true) => self.paths.note(Path::Frozen),
                    (true, false) => thawed.push(in_namespace),
                    _ => {}
                }
            }
        }
        if !thawed.is_empty() {
            self.paths.note(Path::Thawed);
            let spots = known_spots(&controller.accounts);
            self.note_found(who, spots.into_iter().filter(|at| thawed.contains(&at.0)).collect());
        }
    }
}
