//! The accounts: for every quota what is observed, what is pending, and so what its status should say.
//!
//! This is the controller's mind, without its hands. Events come in (quotas, objects, lists, answers to writes), each with the moment it
//! came; [`Accounts::plan`] says what to do for a quota: write, list a namespace, or come again later. docs/architecture.md gives the rule
//! for pending charges that it drives; nothing here does I/O, so a model can drive it through any history.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use jiff::Timestamp;
use kubequota_quantity::Quantity;

use crate::evaluator::{Evaluator, GroupResource};
use crate::evaluators::is_extended_request;
use crate::inventory::{Inventory, Outcome};
use crate::ledger::{Drift, Seen};
use crate::object::{FieldError, Object, ObjectId, Revision};
use crate::pending::{Evidence, Pending, Tick};
use crate::quota::{Quota, QuotaKey};
use crate::registry::{Feed, KindId};
use crate::resource_list::{ResourceList, ResourceName};
use crate::scope::SelectorError;

/// The periods of the accounting rule.
#[derive(Clone, Debug)]
pub struct Settings {
    /// An admitted object is stored within this time of its raise, or never.
    pub grace: Duration,
    /// Writes of one quota come no closer than this; the first goes at once.
    pub write_interval: Duration,
    /// Lists of one kind in one namespace come no closer than this.
    pub list_interval: Duration,
    /// How long a quota's other names wait for one that is still being listed, before they are written without it.
    pub patience: Duration,
    /// How long limits wait for the word that they are enforced, before they are put into force without; `None` where nobody gives it.
    pub enforcement_patience: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            grace: Duration::from_secs(10),
            write_interval: Duration::from_millis(20),
            list_interval: Duration::from_secs(2),
            patience: Duration::from_secs(2),
            enforcement_patience: None,
        }
    }
}

/// How a quota came to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// By an event of an unbroken watch.
    Event,
    /// In a list: changes since it was last seen may have been missed.
    Listed,
}

/// Something that people should be told.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// Someone lowered `used`; admission never does, so it is another controller, or a person.
    ForeignWrite {
        /// The quota.
        quota: QuotaKey,
        /// What was lowered.
        name: ResourceName,
        /// From what it was.
        from: Quantity,
        /// To what it is.
        to: Quantity,
    },
    /// An object can't be charged: what its kind feeds in its namespace is frozen.
    Unreadable {
        /// The kind.
        kind: GroupResource,
        /// Namespace and name.
        object: String,
        /// Why.
        error: FieldError,
    },
    /// A quota's selector can't be evaluated: its names are frozen.
    InvalidSelector {
        /// The quota.
        quota: QuotaKey,
        /// Why.
        error: SelectorError,
    },
    /// A value of a quota can't be read and is treated as absent.
    UnreadableValue {
        /// The quota.
        quota: QuotaKey,
        /// Which, and why.
        error: FieldError,
    },
    /// A recount found the running sums wrong, and corrected them.
    Drift {
        /// The quota.
        quota: QuotaKey,
        /// What was found.
        drift: Drift,
    },
    /// Limits are put into force though nobody has said to enforce them.
    Unenforced {
        /// The quota.
        quota: QuotaKey,
    },
    /// A value that the server would reject is left out of what is written.
    LeftOut {
        /// The quota.
        quota: QuotaKey,
        /// Of which name.
        name: ResourceName,
        /// The value.
        value: Quantity,
    },
}

/// A status to be written, guarded by the revision that it was worked out from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusWrite {
    /// The quota.
    pub quota: QuotaKey,
    /// The revision it must still have.
    pub resource_version: String,
    /// The limits: `spec.hard`.
    pub hard: ResourceList,
    /// What is used.
    pub used: ResourceList,
    /// Names to be taken out of `status.hard`.
    pub gone_from_hard: Vec<ResourceName>,
    /// Names to be taken out of `status.used`.
    pub gone_from_used: Vec<ResourceName>,
    /// The new [note](crate::quota::LAST_CHARGES) of whoever charges; `None` leaves it as it is.
    pub last_charges: Option<String>,
}

/// How a write ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteResult {
    /// The server took it, and made this revision of it.
    Landed {
        /// The new revision.
        resource_version: String,
    },
    /// The quota had changed, or is gone: nothing was written, and something newer will be seen.
    Superseded,
    /// Nothing was written, for a reason that has nothing to do with the quota, or there was no answer, and it may have been taken or
    /// not. Either way it is sent again at the same revision, which settles it.
    Unsettled {
        /// How long to wait before that.
        retry_after: Duration,
    },
    /// The server does not take these names' values.
    Rejected {
        /// The names; where the server says none, nothing is left out, and it is tried again later.
        names: Vec<ResourceName>,
    },
}

/// What to do for a quota.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Write this.
    pub write: Option<StatusWrite>,
    /// List these kinds in the quota's namespace, consistently.
    pub lists: Vec<KindId>,
    /// Look again at this moment, should nothing happen before.
    pub again_at: Option<Tick>,
}

impl Plan {
    fn again(&mut self, at: Tick) {
        self.again_at = Some(self.again_at.map_or(at, |other| other.min(at)));
    }
}

/// Every quota's account.
#[derive(Debug, Default)]
pub struct Accounts {
    settings: Settings,
    inventory: Inventory,
    kinds: HashMap<KindId, Kind>,
    places: HashMap<KindId, HashMap<Arc<str>, Place>>,
    accounts: HashMap<Arc<str>, BTreeMap<Arc<str>, Account>>,
    /// How many quotas each kind feeds.
    fed: HashMap<KindId, usize>,
    /// How many quotas have names that device classes decide about.
    extended: usize,
    classes: Classes,
    /// What discovery has found; before that nothing can be said of any quota.
    served: Option<Served>,
    dirty: BTreeSet<QuotaKey>,
    notices: Vec<Notice>,
    wanted_changed: bool,
}

/// What discovery has found: which kinds the server serves, fit to be counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// The kinds.
    pub kinds: HashSet<GroupResource>,
    /// Groups that could not be discovered: nothing is known about their other kinds.
    pub failed_groups: HashSet<String>,
}

impl Served {
    /// Whether a kind is served; `None` where that could not be found out.
    #[must_use]
    pub fn serves(&self, kind: &GroupResource) -> Option<bool> {
        if self.kinds.contains(kind) {
            Some(true)
        } else if self.failed_groups.contains(&*kind.group) {
            None
        } else {
            Some(false)
        }
    }
}

/// Whether device classes are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Classes {
    #[default]
    Awaited,
    Failing,
    Known,
}

/// What discovery says of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Presence {
    #[default]
    Served,
    /// Its group could never be discovered: what it would feed must wait until that is known.
    Unknown,
    /// It was served and is no more: it is certain that there is nothing of it, now and later.
    Gone,
}

/// A kind that the server serves, has served, or may serve.
#[derive(Debug, Default)]
struct Kind {
    presence: Presence,
    failing: bool,
    /// The revision that the watch stands at.
    revision: Option<Revision>,
    /// The newest revision of which a list has shown a part. While that is newer than `revision`, the ledger mixes the two.
    shown: Option<Revision>,
    /// When the last complete list of all namespaces was sent.
    listed: Option<Tick>,
    /// A list of all namespaces that is being taken in.
    listing: Option<Listing>,
}

impl Kind {
    fn unknown() -> Self {
        Kind {
            presence: Presence::Unknown,
            failing: true,
            ..Kind::default()
        }
    }

    /// It has been listed, and its watch goes on.
    fn is_monitored(&self) -> bool {
        self.presence == Presence::Served && self.listed.is_some() && self.listing.is_none() && !self.failing
    }
}

#[derive(Debug)]
struct Listing {
    seen: Seen,
}

/// How an object came to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Event,
    List,
}

/// One kind in one namespace, where it was listed by itself.
#[derive(Debug, Default)]
struct Place {
    /// The revision of the list; events up to it are in it.
    position: Option<Revision>,
    /// When the last list that was answered was sent.
    listed: Option<Tick>,
    /// When a list was sent that is not answered.
    in_flight: Option<Tick>,
    /// The next for evidence, or after one that failed, may be sent from then on.
    not_before: Tick,
    /// The last could not be had.
    failed: bool,
}

#[derive(Debug)]
struct Account {
    quota: Quota,
    feed: Feed,
    selector_error: Option<SelectorError>,
    names: BTreeMap<ResourceName, Pending>,
    writing: Option<Writing>,
    /// Sightings that wait until a write is answered.
    held: Vec<(Quota, Sighting, Tick)>,
    /// The revision at which a write was superseded: none is tried again at it.
    superseded: Option<String>,
    not_before: Tick,
    /// Values that the server rejected.
    rejected: ResourceList,
    /// What was last sent, to know own writes by.
    last_sent: Option<ResourceList>,
    /// Until when limits that are not in force wait for the word that they are enforced.
    waits_until: Option<Tick>,
}

#[derive(Debug)]
struct Writing {
    write: StatusWrite,
    /// It raises some name, or sets one for the first time.
    raises: bool,
    /// The names with less than nothing pending, and how much. The write is guarded: if it lands, no raise of any name was unseen.
    short: Vec<(ResourceName, Quantity)>,
}

impl Account {
    fn note_enforcement(&mut self, patience: Option<Duration>, now: Tick) {
        let waits = patience.filter(|_| self.quota.awaits_enforcement());
        self.waits_until = waits.map(|patience| self.waits_until.unwrap_or(now + patience));
    }
}

impl Accounts {
    /// No quota and no object.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Accounts {
            settings,
            ..Accounts::default()
        }
    }

    /// Evaluators, charges and sums.
    #[must_use]
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// The quotas that something happened to since this was last asked.
    pub fn take_dirty(&mut self) -> BTreeSet<QuotaKey> {
        std::mem::take(&mut self.dirty)
    }

    /// What people should be told since this was last asked.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Whether [`Accounts::needed_kinds`] or [`Accounts::needs_device_classes`] may say something else since this was last asked.
    pub fn take_wanted_changed(&mut self) -> bool {
        std::mem::take(&mut self.wanted_changed)
    }

    /// The quota as it was last seen.
    #[must_use]
    pub fn quota(&self, key: &QuotaKey) -> Option<&Quota> {
        self.account(key).map(|account| &account.quota)
    }

    /// All quotas.
    pub fn quotas(&self) -> impl Iterator<Item = &Quota> {
        self.accounts
            .values()
            .flat_map(BTreeMap::values)
            .map(|account| &account.quota)
    }

    /// Whether upstream would call the quota's usage missing: its limits are not in its status, or a tracked name has no figure.
    #[must_use]
    pub fn is_missing_usage(&self, key: &QuotaKey) -> bool {
        self.account(key).is_some_and(|account| {
            let status = &account.quota.status;
            status.hard.as_ref().unwrap_or(&ResourceList::new()) != &account.quota.spec.hard
                || account
                    .feed
                    .names()
                    .iter()
                    .any(|(name, _)| status.used(name.as_str()).is_none())
        })
    }

    /// The kinds that quotas name and the server serves: those to be watched.
    pub fn needed_kinds(&self) -> impl Iterator<Item = KindId> {
        let served = |kind: &Kind| kind.presence == Presence::Served;
        let fed = self.fed.keys().copied();
        fed.filter(move |kind| self.kinds.get(kind).is_some_and(served))
    }

    /// The kinds that some quota counts and nothing is known of: a mistake of the quota's, or discovery has to be asked again.
    #[must_use]
    pub fn unknown_kinds(&self) -> BTreeSet<GroupResource> {
        let accounts = self.accounts.values().flat_map(BTreeMap::values);
        let unfed = accounts.flat_map(|account| {
            let names = account.quota.spec.hard.names();
            names.filter(|name| !account.feed.tracks(name.as_str()))
        });
        unfed
            .filter_map(|name| GroupResource::counted_under(name.as_str()))
            .collect()
    }

    /// Whether some quota has a name that device classes decide about.
    #[must_use]
    pub fn needs_device_classes(&self) -> bool {
        self.extended > 0
    }

    /// The names of quotas that are frozen: what feeds them can't be read or listed, or their quota's selector is invalid.
    pub fn frozen_names(&self) -> impl Iterator<Item = (&QuotaKey, &ResourceName)> {
        let accounts = self.accounts.values().flat_map(BTreeMap::values);
        accounts.flat_map(move |account| {
            let frozen = account
                .names
                .iter()
                .filter(move |(name, pending)| self.is_frozen(account, name, pending));
            frozen.map(|(name, _)| (&account.quota.key, name))
        })
    }

    /// How many names have something pending.
    #[must_use]
    pub fn pending_charges(&self) -> usize {
        let names = self
            .accounts
            .values()
            .flat_map(BTreeMap::values)
            .flat_map(|account| account.names.values());
        names
            .filter(|pending| pending.unresolved_since().is_none() && !pending.amount().is_zero())
            .count()
    }

    fn is_frozen(&self, account: &Account, name: &ResourceName, pending: &Pending) -> bool {
        account.selector_error.is_some() || pending.is_frozen() || self.is_failing(&account.feed, name)
    }

    fn account(&self, key: &QuotaKey) -> Option<&Account> {
        self.accounts.get(&key.namespace)?.get(&key.name)
    }

    fn account_mut(&mut self, key: &QuotaKey) -> Option<&mut Account> {
        find_mut(&mut self.accounts, key)
    }

    fn keys(&self) -> Vec<QuotaKey> {
        self.quotas().map(|quota| quota.key.clone()).collect()
    }

    fn keys_in(&self, namespace: &str) -> Vec<QuotaKey> {
        let accounts = self.accounts.get(namespace).into_iter().flat_map(BTreeMap::values);
        accounts.map(|account| account.quota.key.clone()).collect()
    }

    // ---- quotas

    /// A quota was seen.
    pub fn quota_seen(&mut self, quota: Quota, sighting: Sighting, now: Tick) {
        let key = quota.key.clone();
        match self.account_mut(&key) {
            Some(account) if account.quota.uid == quota.uid => {
                if account.writing.as_ref().is_some_and(|writing| writing.raises) {
                    account.held.push((quota, sighting, now));
                } else {
                    self.take_in(quota, sighting, now);
                }
            }
            Some(_) => {
                self.quota_gone(&key);
                self.open(quota, now);
            }
            None => self.open(quota, now),
        }
    }

    /// A quota is gone.
    pub fn quota_gone(&mut self, key: &QuotaKey) {
        let Some(accounts) = self.accounts.get_mut(&key.namespace) else {
            return;
        };
        if let Some(account) = accounts.remove(&key.name) {
            self.count_feed(&account.feed, false);
            self.extended -= usize::from(has_extended_names(&account.quota));
            self.inventory.ledger_mut().remove_quota(key);
        }
        if self.accounts.get(&key.namespace).is_some_and(BTreeMap::is_empty) {
            self.accounts.remove(&key.namespace);
        }
    }

    fn open(&mut self, quota: Quota, now: Tick) {
        let key = quota.key.clone();
        let patience = self.settings.enforcement_patience;
        self.check(&quota);
        self.extended += usize::from(has_extended_names(&quota));
        let mut account = Account {
            selector_error: quota.spec.selector.validate().err(),
            quota,
            feed: Feed::default(),
            names: BTreeMap::new(),
            writing: None,
            held: Vec::new(),
            superseded: None,
            not_before: Tick::default(),
            rejected: ResourceList::new(),
            last_sent: None,
            waits_until: None,
        };
        account.note_enforcement(patience, now);
        self.accounts
            .entry(key.namespace.clone())
            .or_default()
            .insert(key.name.clone(), account);
        self.feed_again(&key, now);
    }

    /// Tells what is wrong with the quota itself.
    fn check(&mut self, quota: &Quota) {
        let quota_key = || quota.key.clone();
        let problems = quota.problems.iter();
        self.notices.extend(problems.map(|error| Notice::UnreadableValue {
            quota: quota_key(),
            error: error.clone(),
        }));
        if let Err(error) = quota.spec.selector.validate() {
            self.notices.push(Notice::InvalidSelector {
                quota: quota_key(),
                error,
            });
        }
    }

    /// A known quota was seen, and no write hinders taking that in.
    fn take_in(&mut self, quota: Quota, sighting: Sighting, now: Tick) {
        let key = quota.key.clone();
        let patience = self.settings.enforcement_patience;
        let Some(account) = self.account_mut(&key) else { return };
        let revision = Revision::parse(&quota.resource_version);
        if revision.is_some() && revision <= Revision::parse(&account.quota.resource_version) {
            return;
        }
        let mut notices = Vec::new();
        let own = account.last_sent.as_ref() == quota.status.used.as_ref();
        for (name, pending) in &mut account.names {
            let (was, is) = (
                account.quota.status.used(name.as_str()),
                quota.status.used(name.as_str()),
            );
            match (was, is) {
                (_, is) if sighting == Sighting::Listed => pending.find_again(is, now),
                // Someone else gave the first figure.
                (None, Some(_)) => pending.find_again(is, now),
                (Some(was), Some(is)) if is > was => pending.raise(&(is - was), now),
                (Some(was), Some(is)) if is < was && !own => {
                    notices.push(Notice::ForeignWrite {
                        quota: key.clone(),
                        name: name.clone(),
                        from: was.clone(),
                        to: is.clone(),
                    });
                }
                _ => {}
            }
        }
        let new_names = account.quota.spec.hard.names().ne(quota.spec.hard.names());
        let new_selector = account.quota.spec.selector != quota.spec.selector;
        let was_extended = usize::from(has_extended_names(&account.quota));
        let is_extended = usize::from(has_extended_names(&quota));
        if new_selector {
            // What is observed follows at once. What is pending stays: the new selector may count it too.
            account.selector_error = quota.spec.selector.validate().err();
        }
        let problems_changed = account.quota.problems != quota.problems || new_selector;
        account.quota = quota;
        account.note_enforcement(patience, now);
        self.extended = self.extended + is_extended - was_extended;
        if problems_changed && let Some(quota) = self.quota(&key).cloned() {
            self.check(&quota);
        }
        if new_names || new_selector {
            self.feed_again(&key, now);
        }
        self.notices.extend(notices);
        // A sighting that had to wait may be older than the list that resolves it.
        self.resolve(&key);
    }

    /// Finds out again what feeds a quota, since its names, its selector, or the kinds that are known have changed.
    fn feed_again(&mut self, key: &QuotaKey, now: Tick) {
        let Some(account) = self.account(key) else { return };
        let hard: Vec<ResourceName> = account.quota.spec.hard.names().cloned().collect();
        self.learn_kinds(&hard);
        let feed = self.inventory.feed(&hard, |kind| self.kinds.contains_key(&kind));
        let Some(account) = self.account_mut(key) else { return };
        let selector = account.quota.spec.selector.clone();
        let old = std::mem::replace(&mut account.feed, feed.clone());
        let mut names = std::mem::take(&mut account.names);
        for (name, kinds) in feed.names() {
            let used = account.quota.status.used(name.as_str());
            let pending = match names.remove(name) {
                None => Pending::found(used, now),
                Some(mut pending) => {
                    let before = old
                        .names()
                        .iter()
                        .find(|(own, _)| own == name)
                        .map(|(_, kinds)| kinds.as_slice());
                    if before != Some(kinds) {
                        pending.find_again(used, now);
                    }
                    pending
                }
            };
            account.names.insert(name.clone(), pending);
        }
        self.count_feed(&old, false);
        self.count_feed(&feed, true);
        self.inventory.ledger_mut().set_quota(key, feed, selector);
        self.resolve(key);
        self.note_clouds(key, now);
        self.dirty.insert(key.clone());
    }

    fn count_feed(&mut self, feed: &Feed, adds: bool) {
        self.wanted_changed = true;
        for kind in feed.kinds() {
            let count = self.fed.entry(*kind).or_default();
            *count = if adds { *count + 1 } else { count.saturating_sub(1) };
            if *count == 0 {
                self.fed.remove(kind);
            }
        }
    }

    // ---- kinds

    /// What discovery found.
    pub fn discovered(&mut self, served: Served, now: Tick, server_now: Timestamp) {
        let evaluators = self.inventory.registry().iter();
        let serves = |(id, evaluator): (KindId, &Arc<dyn Evaluator>)| (id, served.serves(evaluator.group_resource()));
        let kinds: Vec<(KindId, Option<bool>)> = evaluators.map(serves).collect();
        self.served = Some(served);
        let mut feeds_change = false;
        for (kind, served) in kinds {
            match (served, self.kinds.get_mut(&kind)) {
                (Some(true), None) => {
                    self.kinds.insert(kind, Kind::default());
                    feeds_change = true;
                }
                (None, None) => {
                    self.kinds.insert(kind, Kind::unknown());
                    feeds_change = true;
                }
                (Some(false), Some(known)) if known.presence == Presence::Unknown => {
                    self.kinds.remove(&kind);
                    feeds_change = true;
                }
                (Some(false), Some(known)) if known.presence == Presence::Served => {
                    // It counts zero from now on, and what is pending was for nothing.
                    *known = Kind {
                        presence: Presence::Gone,
                        ..Kind::default()
                    };
                    self.clear(kind, now, server_now);
                    self.resolve_fed_by(kind);
                }
                (Some(true), Some(known)) if known.presence != Presence::Served => {
                    *known = Kind::default();
                    self.find_again(kind, now);
                }
                _ => {}
            }
        }
        for key in self.keys() {
            let unfed = |account: &Account| account.feed.names().len() < account.quota.spec.hard.len();
            if feeds_change || self.account(&key).is_some_and(unfed) {
                self.feed_again(&key, now);
            }
        }
    }

    /// Counts kinds from now on that a quota names and the server serves.
    fn learn_kinds(&mut self, names: &[ResourceName]) {
        let counted = names
            .iter()
            .filter_map(|name| GroupResource::counted_under(name.as_str()));
        let served = |kind: &GroupResource| self.served.as_ref()?.serves(kind);
        let counted: Vec<GroupResource> = counted.filter(|kind| served(kind) == Some(true)).collect();
        for kind in counted {
            if let Some(id) = self.inventory.registry_mut().ensure(&kind) {
                self.kinds.entry(id).or_default();
            }
        }
    }

    /// A kind came back, or was forgotten: until it is listed its names are unresolved.
    fn find_again(&mut self, kind: KindId, now: Tick) {
        let accounts = self.accounts.values_mut().flat_map(BTreeMap::values_mut);
        for account in accounts.filter(|account| account.feed.kinds().contains(&kind)) {
            for (name, _) in account.feed.names().iter().filter(|(_, kinds)| kinds.contains(&kind)) {
                if let Some(pending) = account.names.get_mut(name) {
                    pending.find_again(account.quota.status.used(name.as_str()), now);
                }
            }
            self.dirty.insert(account.quota.key.clone());
        }
    }

    /// A kind can't be listed or watched just now.
    pub fn kind_failing(&mut self, kind: KindId) {
        let Some(known) = self.kinds.get_mut(&kind) else { return };
        known.listing = None;
        if !std::mem::replace(&mut known.failing, true) {
            self.dirty_fed_by(kind);
        }
    }

    /// A kind that no quota names any more is no longer watched: its objects are forgotten.
    pub fn kind_dropped(&mut self, kind: KindId, now: Tick, server_now: Timestamp) {
        self.clear(kind, now, server_now);
        if let Some(known) = self.kinds.get_mut(&kind)
            && known.presence == Presence::Served
        {
            *known = Kind::default();
        }
        // A quota may have named it again in the meantime.
        self.find_again(kind, now);
    }

    fn clear(&mut self, kind: KindId, now: Tick, server_now: Timestamp) {
        self.places.remove(&kind);
        for namespace in self.inventory.ledger().namespaces_of(kind) {
            self.remove_others(kind, &namespace, |_| false, now, server_now);
        }
    }

    fn remove_others(
        &mut self,
        kind: KindId,
        namespace: &str,
        keep: impl Fn(ObjectId) -> bool,
        now: Tick,
        server_now: Timestamp,
    ) {
        let gone: Vec<ObjectId> = self
            .inventory
            .ledger()
            .ids(namespace, kind)
            .filter(|id| !keep(*id))
            .collect();
        for id in gone {
            let outcome = self.inventory.remove(kind, namespace, id, server_now);
            self.settle(outcome, now);
        }
        self.note_clouds_of(kind, namespace, now);
    }

    // ---- objects

    /// A watch event: an object is there, or changed.
    pub fn object_applied(&mut self, kind: KindId, object: &Object, now: Tick, server_now: Timestamp) {
        if self.advance(kind, &object.metadata.namespace, &object.metadata.resource_version) {
            self.observe(kind, object, Source::Event, now, server_now);
        }
    }

    /// A watch event: an object is gone. Its metadata carries the revision of the deletion.
    pub fn object_deleted(&mut self, kind: KindId, object: &Object, now: Tick, server_now: Timestamp) {
        let metadata = &object.metadata;
        if self.advance(kind, &metadata.namespace, &metadata.resource_version) {
            let outcome = self
                .inventory
                .remove(kind, &metadata.namespace, ObjectId::of(metadata), server_now);
            self.settle(outcome, now);
            self.note_clouds_of(kind, &metadata.namespace, now);
        }
    }

    /// A watch event: nothing happened to a kind up to this revision.
    pub fn bookmark(&mut self, kind: KindId, resource_version: &str) {
        if let Some(known) = self.kinds.get_mut(&kind) {
            known.revision = known.revision.max(Revision::parse(resource_version));
        }
    }

    /// Whether an event of this revision is news; if so, the kind now stands there.
    fn advance(&mut self, kind: KindId, namespace: &str, resource_version: &str) -> bool {
        let revision = Revision::parse(resource_version);
        let Some(known) = self.kinds.get(&kind).filter(|known| known.presence == Presence::Served) else {
            return false;
        };
        let stands_at = known.revision.max(self.position(kind, namespace));
        self.bookmark(kind, resource_version);
        revision.is_none() || revision > stands_at
    }

    /// The revision of the last list of one namespace by itself.
    fn position(&self, kind: KindId, namespace: &str) -> Option<Revision> {
        self.places.get(&kind)?.get(namespace)?.position
    }

    fn observe(&mut self, kind: KindId, object: &Object, source: Source, now: Tick, server_now: Timestamp) {
        let (namespace, id) = (&object.metadata.namespace, ObjectId::of(&object.metadata));
        let known = self.inventory.ledger().charge(namespace, kind, id).is_some();
        let mut outcome = self.inventory.observe(kind, object, server_now);
        if known && source == Source::List {
            // What it went through since it was last seen is not known: it may have grown with a raise or without.
            outcome
                .deltas
                .iter_mut()
                .for_each(|(_, delta)| delta.asked = Quantity::zero());
        }
        if let Some(error) = outcome.unreadable.clone() {
            let kind = self.inventory.registry().evaluator(kind).group_resource().clone();
            self.notices.push(Notice::Unreadable {
                kind,
                object: object.metadata.display_name(),
                error,
            });
        }
        self.settle(outcome, now);
        self.note_clouds_of(kind, &object.metadata.namespace, now);
    }

    /// Growth that admission charged uses up what is pending.
    fn settle(&mut self, outcome: Outcome, now: Tick) {
        for (namespace, delta) in outcome.deltas {
            let key = QuotaKey {
                namespace,
                name: delta.quota,
            };
            let Some(account) = self.account_mut(&key) else {
                continue;
            };
            if let Some(pending) = account.names.get_mut(&delta.name)
                && !delta.asked.is_zero()
            {
                pending.grow(&delta.asked, now);
            }
            self.dirty.insert(key);
        }
    }

    /// Lets the charges change whose moment has passed at the server.
    pub fn expire(&mut self, now: Tick, server_now: Timestamp) {
        let outcome = self.inventory.expire(server_now);
        self.settle(outcome, now);
    }

    /// When the next charge changes by itself, in the server's time.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.inventory.ledger().next_deadline()
    }

    /// Freezes or thaws what a kind feeds in a namespace, as it has objects that can't be read or has none any more.
    fn note_clouds_of(&mut self, kind: KindId, namespace: &str, now: Tick) {
        let clouded = self.inventory.ledger().is_clouded(namespace, kind);
        let accounts = self.accounts.get(namespace).into_iter().flat_map(BTreeMap::values);
        let stale: Vec<QuotaKey> = accounts
            .filter(|account| {
                let mut fed = account.feed.names().iter().filter(|(_, kinds)| kinds.contains(&kind));
                fed.any(|(name, _)| {
                    account
                        .names
                        .get(name)
                        .is_some_and(|pending| pending.is_frozen() != clouded)
                })
            })
            .map(|account| account.quota.key.clone())
            .collect();
        for key in stale {
            self.note_clouds(&key, now);
        }
    }

    fn note_clouds(&mut self, key: &QuotaKey, now: Tick) {
        let Some(account) = find_mut(&mut self.accounts, key) else {
            return;
        };
        let ledger = self.inventory.ledger();
        for (name, kinds) in account.feed.names() {
            let clouded = kinds.iter().any(|kind| ledger.is_clouded(&key.namespace, *kind));
            if let Some(pending) = account.names.get_mut(name) {
                pending.set_frozen(clouded, account.quota.status.used(name.as_str()), now);
            }
        }
        self.dirty.insert(key.clone());
    }

    // ---- lists

    /// A list of all namespaces begins.
    pub fn list_began(&mut self, kind: KindId) {
        if let Some(known) = self.kinds.get_mut(&kind)
            && known.presence == Presence::Served
        {
            known.listing = Some(Listing { seen: Seen::default() });
        }
    }

    /// A page of that list. Namespaces that were listed by themselves at a newer revision stay as they are.
    pub fn list_page(
        &mut self,
        kind: KindId,
        resource_version: &str,
        objects: &[Object],
        now: Tick,
        server_now: Timestamp,
    ) {
        let revision = Revision::parse(resource_version);
        for object in objects {
            let namespace = object.metadata.namespace.as_str();
            let Some(known) = self.kinds.get_mut(&kind) else { return };
            let Some(listing) = &mut known.listing else { return };
            listing.seen.add(namespace, ObjectId::of(&object.metadata));
            known.shown = known.shown.max(revision);
            if revision.is_none() || revision > self.position(kind, namespace) {
                self.observe(kind, object, Source::List, now, server_now);
            }
        }
    }

    /// That list is complete; it was sent at `sent_at`.
    pub fn list_ended(
        &mut self,
        kind: KindId,
        resource_version: &str,
        sent_at: Tick,
        now: Tick,
        server_now: Timestamp,
    ) {
        let revision = Revision::parse(resource_version);
        let Some(known) = self.kinds.get_mut(&kind) else { return };
        let Some(listing) = known.listing.take() else { return };
        known.revision = known.revision.max(revision);
        known.shown = None;
        known.listed = known.listed.max(Some(sent_at));
        known.failing = false;
        for namespace in self.inventory.ledger().namespaces_of(kind) {
            if revision.is_none() || revision > self.position(kind, &namespace) {
                self.remove_others(
                    kind,
                    &namespace,
                    |id| listing.seen.contains(&namespace, id),
                    now,
                    server_now,
                );
            }
        }
        if let Some(places) = self.places.get_mut(&kind) {
            places.retain(|_, place| place.in_flight.is_some() || revision.is_none() || place.position > revision);
        }
        self.resolve_fed_by(kind);
    }

    /// A list of one namespace, asked for by [`Plan::lists`], was sent.
    pub fn namespace_list_sent(&mut self, kind: KindId, namespace: &str, now: Tick) {
        let not_before = now + self.settings.list_interval;
        let place = self.place(kind, namespace);
        place.in_flight = Some(now);
        place.not_before = not_before;
    }

    /// It was answered.
    pub fn namespace_listed(
        &mut self,
        kind: KindId,
        namespace: &str,
        resource_version: &str,
        objects: &[Object],
        now: Tick,
        server_now: Timestamp,
    ) {
        let revision = Revision::parse(resource_version);
        let Some(known) = self.kinds.get(&kind) else { return };
        let (stands_at, shown) = (known.revision.max(self.position(kind, namespace)), known.shown);
        let place = self.place(kind, namespace);
        // Where none was asked for, the kind was dropped or went away meanwhile.
        let Some(sent_at) = place.in_flight.take() else { return };
        if revision.is_none() || revision > stands_at.max(shown) {
            place.position = revision;
            for object in objects {
                self.observe(kind, object, Source::List, now, server_now);
            }
            let seen: HashSet<ObjectId> = objects.iter().map(|object| ObjectId::of(&object.metadata)).collect();
            self.remove_others(kind, namespace, |id| seen.contains(&id), now, server_now);
        } else if shown > stands_at {
            // A newer list of all namespaces is half taken in: the ledger can be relied on again when that is complete.
            self.dirty.extend(self.keys_in(namespace));
            return;
        }
        let place = self.place(kind, namespace);
        place.listed = place.listed.max(Some(sent_at));
        place.failed = false;
        for key in self.keys_in(namespace) {
            self.resolve(&key);
        }
    }

    /// It could not be had. It will be asked for again.
    pub fn namespace_list_failed(&mut self, kind: KindId, namespace: &str) {
        let place = self.place(kind, namespace);
        (place.in_flight, place.failed) = (None, true);
        self.dirty.extend(self.keys_in(namespace));
    }

    fn place(&mut self, kind: KindId, namespace: &str) -> &mut Place {
        let places = self.places.entry(kind).or_default();
        if !places.contains_key(namespace) {
            places.insert(Arc::from(namespace), Place::default());
        }
        places.entry(Arc::from(namespace)).or_default()
    }

    /// When the last list that shows all of a kind in a namespace was sent.
    fn listed(&self, kind: KindId, namespace: &str) -> Option<Tick> {
        let known = self.kinds.get(&kind)?;
        if known.presence == Presence::Gone {
            // A list would show nothing, whenever it was sent.
            return Some(Tick::NEVER);
        }
        let place = self.places.get(&kind).and_then(|places| places.get(namespace));
        known.listed.max(place.and_then(|place| place.listed))
    }

    /// When the lists were sent that show all that feeds a name, by the earliest; `None` while one is missing.
    fn all_listed(&self, namespace: &str, name: &ResourceName, kinds: &[KindId]) -> Option<Tick> {
        if self.classes != Classes::Known && is_extended_request(name.as_str()) {
            return None;
        }
        kinds.iter().map(|kind| self.listed(*kind, namespace)).min().flatten()
    }

    /// Takes what lists have shown into what is pending.
    fn resolve(&mut self, key: &QuotaKey) {
        let grace = self.settings.grace;
        let Some(account) = self.account(key) else { return };
        let names = account.feed.names().iter();
        let listed = |(name, kinds): &(ResourceName, Vec<KindId>)| {
            let sent_at = self.all_listed(&key.namespace, name, kinds)?;
            let since = account.names.get(name)?.unresolved_since();
            Some((name.clone(), sent_at, since.is_some_and(|since| since <= sent_at)))
        };
        let listed: Vec<(ResourceName, Tick, bool)> = names.filter_map(listed).collect();
        // Growth that was never charged need not be in the `used` that was found: it must not pass for what was.
        let uncharged = if listed.iter().any(|(.., resolves)| *resolves) {
            self.growth_uncharged(account)
        } else {
            ResourceList::new()
        };
        let Some(account) = find_mut(&mut self.accounts, key) else {
            return;
        };
        let observed = self.inventory.ledger().used(key);
        for (name, sent_at, _) in listed {
            if let Some(pending) = account.names.get_mut(&name)
                && let Some(observed) = observed.and_then(|used| used.get(name.as_str()))
            {
                let uncharged = uncharged.get(name.as_str()).cloned().unwrap_or_default();
                pending.listed(sent_at, &(observed - &uncharged), grace);
            }
        }
        self.dirty.insert(key.clone());
    }

    /// What of a quota's use admission need not have charged: what follows from objects' status alone, and what is left of pods' claims
    /// under the names of pods.
    fn growth_uncharged(&self, account: &Account) -> ResourceList {
        let mut growth = ResourceList::new();
        let (ledger, namespace) = (self.inventory.ledger(), &account.quota.key.namespace);
        for kind in account.feed.kinds() {
            let charges = ledger
                .ids(namespace, *kind)
                .filter_map(|id| ledger.charge(namespace, *kind, id));
            for charge in charges.filter(|charge| account.quota.spec.selector.matches(&charge.scopes)) {
                if let Some(by_spec) = &charge.spec_usage {
                    growth.add_assign(&charge.usage.subtract_non_negative(by_spec));
                }
            }
        }
        growth
    }

    fn resolve_fed_by(&mut self, kind: KindId) {
        for key in self.keys() {
            if self
                .account(&key)
                .is_some_and(|account| account.feed.kinds().contains(&kind))
            {
                self.resolve(&key);
            }
        }
    }

    fn dirty_fed_by(&mut self, kind: KindId) {
        let accounts = self.accounts.values().flat_map(BTreeMap::values);
        let fed = accounts
            .filter(|account| account.feed.kinds().contains(&kind))
            .map(|account| account.quota.key.clone());
        self.dirty.extend(fed);
    }

    // ---- device classes

    /// All device classes, by name, with the extended resources they carry.
    pub fn device_classes_listed(
        &mut self,
        classes: &BTreeMap<String, Option<String>>,
        now: Tick,
        server_now: Timestamp,
    ) {
        let outcome = self.inventory.list_device_classes(classes, server_now);
        self.settle(outcome, now);
        self.classes = Classes::Known;
        self.feed_extended_again(now);
    }

    /// A device class is there, or changed.
    pub fn device_class_changed(&mut self, class: &str, extended: Option<&str>, now: Tick, server_now: Timestamp) {
        self.set_device_class(class, extended, now, server_now);
        self.feed_extended_again(now);
    }

    /// A device class is gone.
    pub fn device_class_gone(&mut self, class: &str, now: Tick, server_now: Timestamp) {
        let outcome = self.inventory.remove_device_class(class, server_now);
        self.settle(outcome, now);
        self.feed_extended_again(now);
    }

    /// The server has no device classes.
    pub fn device_classes_absent(&mut self, now: Tick, server_now: Timestamp) {
        if self.classes != Classes::Known {
            self.device_classes_listed(&BTreeMap::new(), now, server_now);
        }
    }

    /// Device classes can't be listed just now.
    pub fn device_classes_failing(&mut self) {
        if self.classes == Classes::Awaited {
            self.classes = Classes::Failing;
            self.dirty.extend(self.keys());
        }
    }

    fn set_device_class(&mut self, class: &str, extended: Option<&str>, now: Tick, server_now: Timestamp) {
        let outcome = self.inventory.set_device_class(class, extended, server_now);
        self.settle(outcome, now);
    }

    fn feed_extended_again(&mut self, now: Tick) {
        for key in self.keys() {
            if self.quota(&key).is_some_and(has_extended_names) {
                self.feed_again(&key, now);
            }
        }
    }

    // ---- what to do

    /// What to do for a quota now. Lists and writes that are done must be said with [`Accounts::namespace_list_sent`] and
    /// [`Accounts::write_sent`]; a plan that is only looked at changes nothing.
    #[must_use]
    pub fn plan(&self, key: &QuotaKey, now: Tick) -> Plan {
        let mut plan = Plan::default();
        let Some(account) = self.account(key).filter(|_| self.served.is_some()) else {
            return plan;
        };
        for (name, kinds) in account.feed.names() {
            self.plan_lists(account, name, kinds, now, &mut plan);
        }
        plan.lists.sort_unstable();
        plan.lists.dedup();
        if account.writing.is_none() && account.superseded.as_ref() != Some(&account.quota.resource_version) {
            self.plan_write(account, now, &mut plan);
        }
        plan
    }

    fn plan_lists(&self, account: &Account, name: &ResourceName, kinds: &[KindId], now: Tick, plan: &mut Plan) {
        let Some(pending) = account.names.get(name) else { return };
        let unresolved = pending.unresolved_since();
        let needed_since = match (unresolved, pending.evidence(now, self.settings.grace)) {
            (Some(since), _) => since,
            (None, Evidence::NeededAt(at)) if at <= now => at,
            (None, Evidence::NeededAt(at)) => return plan.again(at),
            (None, Evidence::NotNeeded) => return,
        };
        let namespace = &account.quota.key.namespace;
        for kind in kinds {
            // Before its first list has come, and while it can't be listed, the kind's monitor is at it.
            let monitored = self.kinds.get(kind).is_some_and(Kind::is_monitored);
            if !monitored || self.listed(*kind, namespace) >= Some(needed_since) {
                continue;
            }
            match self.places.get(kind).and_then(|places| places.get(namespace)) {
                Some(place) if place.in_flight.is_some() => {}
                // Evidence can wait; a quota that has just been made can't be used before its list.
                Some(place) if place.not_before > now && (unresolved.is_none() || place.failed) => {
                    plan.again(place.not_before);
                }
                _ => plan.lists.push(*kind),
            }
        }
    }

    fn is_failing(&self, feed: &Feed, name: &ResourceName) -> bool {
        let kinds = feed
            .names()
            .iter()
            .find(|(own, _)| own == name)
            .map_or(&[][..], |(_, kinds)| kinds);
        let classes = self.classes == Classes::Failing && is_extended_request(name.as_str());
        classes
            || kinds
                .iter()
                .any(|kind| self.kinds.get(kind).is_some_and(|kind| kind.failing))
    }

    fn plan_write(&self, account: &Account, now: Tick, plan: &mut Plan) {
        let quota = &account.quota;
        if let Some(until) = account.waits_until
            && now < until
        {
            return plan.again(until);
        }
        for (name, pending) in &account.names {
            // One write for all names, unless one keeps the others waiting for too long.
            if let Some(since) = pending.unresolved_since()
                && !self.is_failing(&account.feed, name)
                && account.selector_error.is_none()
                && now < since + self.settings.patience
            {
                return plan.again(since + self.settings.patience);
            }
        }
        let hard = quota.spec.hard.clone();
        let nothing = ResourceList::new();
        let recorded = quota.status.used.as_ref().unwrap_or(&nothing);
        let mut used = recorded.mask(|name| hard.contains(name.as_str()));
        let observed = self.inventory.ledger().used(&quota.key);
        for (name, pending) in &account.names {
            let Some(observed) = observed.and_then(|used| used.get(name.as_str())) else {
                continue;
            };
            let before = recorded.get(name.as_str());
            if account.selector_error.is_some()
                || pending.unresolved_since().is_some()
                || (pending.is_frozen() && before.is_none())
            {
                continue;
            }
            let target = pending.target(observed, before);
            if before == Some(&target) || target.is_negative() || account.rejected.get(name.as_str()) == Some(&target) {
                continue;
            }
            if before.is_some_and(|before| *before < target)
                && let Some(until) = pending.wait_before_raising()
                && now < until
            {
                plan.again(until);
                continue;
            }
            used.insert(name.clone(), target);
        }
        // The server keeps no empty map: none at all says the same.
        if quota.status.hard.as_ref().unwrap_or(&nothing) == &hard && recorded == &used {
            return;
        }
        if now < account.not_before {
            return plan.again(account.not_before);
        }
        let missing_from = |before: Option<&ResourceList>, after: &ResourceList| {
            let names = before.into_iter().flat_map(ResourceList::names);
            names.filter(|name| !after.contains(name.as_str())).cloned().collect()
        };
        plan.write = Some(StatusWrite {
            quota: quota.key.clone(),
            resource_version: quota.resource_version.clone(),
            gone_from_hard: missing_from(quota.status.hard.as_ref(), &hard),
            gone_from_used: missing_from(quota.status.used.as_ref(), &used),
            hard,
            used,
            last_charges: None,
        });
    }

    /// A planned write was sent. One is under way under a quota's name at a time: the next plan under it, be it of a quota made anew, is to
    /// be carried out only once this write was answered.
    pub fn write_sent(&mut self, write: StatusWrite, now: Tick) {
        let interval = self.settings.write_interval;
        let Some(account) = self.account_mut(&write.quota) else {
            return;
        };
        let notice = account.waits_until.map(|_| Notice::Unenforced {
            quota: write.quota.clone(),
        });
        let status = &account.quota.status;
        let raises = write
            .used
            .iter()
            .any(|(name, value)| status.used(name.as_str()).is_none_or(|before| value > before));
        let short = account
            .names
            .iter()
            .filter(|(_, pending)| pending.amount().is_negative());
        let short = short
            .map(|(name, pending)| (name.clone(), pending.amount().clone()))
            .collect();
        account.last_sent = Some(write.used.clone());
        account.not_before = now + interval;
        account.writing = Some(Writing { write, raises, short });
        self.notices.extend(notice);
    }

    /// That write was answered, or won't be.
    pub fn write_ended(&mut self, key: &QuotaKey, result: WriteResult, now: Tick) {
        let (patience, enforcement_patience) = (self.settings.patience, self.settings.enforcement_patience);
        let Some(account) = self.account_mut(key) else { return };
        let Some(Writing { write, short, .. }) = account.writing.take() else {
            return;
        };
        let mut notices = Vec::new();
        match result {
            WriteResult::Landed { resource_version } => {
                for (name, amount) in short {
                    if let Some(pending) = account.names.get_mut(&name) {
                        pending.landed(&amount, now);
                    }
                }
                // The same revision: the server found nothing to change.
                if Revision::parse(&resource_version) >= Revision::parse(&account.quota.resource_version) {
                    // What was found while the write was under way was found without it.
                    for (name, pending) in &mut account.names {
                        let (before, after) = (account.quota.status.used(name.as_str()), write.used.get(name.as_str()));
                        if pending.unresolved_since().is_some() && before != after {
                            pending.find_again(after, now);
                        }
                    }
                    account.quota.resource_version = resource_version;
                    account.quota.status.hard = Some(write.hard);
                    account.quota.status.used = Some(write.used);
                    account.note_enforcement(enforcement_patience, now);
                }
            }
            WriteResult::Superseded => account.superseded = Some(write.resource_version),
            WriteResult::Rejected { names } => {
                // Should what is left be rejected too, that is no reason to be quick about it.
                account.not_before = account.not_before.max(now + patience);
                for name in names {
                    if let Some(value) = write.used.get(name.as_str()) {
                        account.rejected.insert(name.clone(), value.clone());
                        notices.push(Notice::LeftOut {
                            quota: key.clone(),
                            name,
                            value: value.clone(),
                        });
                    }
                }
            }
            WriteResult::Unsettled { retry_after } => account.not_before = account.not_before.max(now + retry_after),
        }
        let held = std::mem::take(&mut account.held);
        for (quota, sighting, seen) in held {
            self.take_in(quota, sighting, seen);
        }
        self.notices.extend(notices);
        self.dirty.insert(key.clone());
    }

    /// Counts a quota's namespace anew. A difference to the running sums is a bug, corrected and told.
    pub fn recount(&mut self, key: &QuotaKey) {
        if let Some(drift) = self.inventory.ledger_mut().recount(key) {
            self.notices.push(Notice::Drift {
                quota: key.clone(),
                drift,
            });
        }
        self.dirty.insert(key.clone());
    }
}

/// A quota's account, for when the inventory is looked at meanwhile.
fn find_mut<'a>(
    accounts: &'a mut HashMap<Arc<str>, BTreeMap<Arc<str>, Account>>,
    key: &QuotaKey,
) -> Option<&'a mut Account> {
    accounts.get_mut(&key.namespace)?.get_mut(&key.name)
}

fn has_extended_names(quota: &Quota) -> bool {
    quota.spec.hard.names().any(|name| is_extended_request(name.as_str()))
}

#[cfg(test)]
mod tests;
