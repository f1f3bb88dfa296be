//! The controllers' hands: their connections to the server, and what they do with the real [`Accounts`] (or by upstream's rule).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kubequota_core::accounts::{Accounts, Served, Settings, Sighting, StatusWrite, WriteResult};
use kubequota_core::pending::Tick;
use kubequota_core::registry::KindId;
use kubequota_core::{Object, QuotaKey};

use crate::history::{Event, History, ListCall, NamespaceListCall, Rule};
use crate::judge::{Books, Errand};
use crate::paths::Path;
use crate::plot::{Act, GRACE, Ms, Plot};
use crate::server::{
    CLASS, EXTENDED, GPU, KINDS, Kind, NAMES, ObjectChange, QuotaChange, Stored, StoredQuota, after, amounts,
    group_resource, key, namespace, server_time, spot,
};

/// How long a controller waits for the answer to a write.
const GIVEN_UP: Ms = 5_000;

#[derive(Default)]
pub(crate) struct Monitor {
    /// None is zero.
    connection: u64,
    watching: bool,
    /// What was delivered last comes before whatever is delivered next.
    last: Ms,
    /// Whether there was a connection before.
    again: bool,
    /// A page of a list was taken in, and not the last.
    half_taken: bool,
    /// What this revision, and all before it, did has been shown.
    pub(crate) shown: u64,
}

impl Monitor {
    /// When something is delivered that could be at `at`, and to which connection: a watch keeps its order.
    fn after_the_last(&mut self, at: Ms) -> (Ms, u64) {
        self.last = self.last.max(at);
        (self.last, self.connection)
    }
}

pub(crate) struct Watched {
    pub(crate) id: KindId,
    pub(crate) monitor: Monitor,
    dropped: bool,
}

pub(crate) struct Controller {
    pub(crate) incarnation: u64,
    pub(crate) accounts: Accounts,
    pub(crate) kinds: [Watched; KINDS.len()],
    quotas: Monitor,
    /// What it knows of the device class, and what it was shown last comes before whatever it is shown next.
    pub(crate) class_carries: Option<bool>,
    class_last: Ms,
    looks: BTreeMap<QuotaKey, Ms>,
    expires: Option<Ms>,
    /// Whether a write that is under way raises `used`, or first sets it.
    writing: BTreeMap<QuotaKey, bool>,
    /// For [`Rule::Upstream`]: kinds that were listed, and quotas to be counted anew.
    listed: BTreeSet<Kind>,
    queue: BTreeSet<QuotaKey>,
    pub(crate) books: Books,
}

impl Controller {
    pub(crate) fn watched(&mut self, kind: Kind) -> &mut Watched {
        &mut self.kinds[kind as usize]
    }

    fn is_listed(&self) -> bool {
        let needed: BTreeSet<KindId> = self.accounts.needed_kinds().collect();
        KINDS
            .into_iter()
            .all(|kind| !needed.contains(&self.kinds[kind as usize].id) || self.listed.contains(&kind))
    }

    fn enqueue_all(&mut self) {
        let keys: Vec<QuotaKey> = self.accounts.quotas().map(|quota| quota.key.clone()).collect();
        self.queue.extend(keys);
    }
}

impl History {
    // ---- lives

    pub(crate) fn start(&mut self, who: usize) {
        if self.controllers[who].is_some() {
            return;
        }
        self.busy = self.now;
        let incarnation = self.unique();
        self.say(|_| format!("controller {who} starts"));
        let mut accounts = Accounts::new(Settings {
            grace: Duration::from_millis(GRACE),
            ..Settings::default()
        });
        let served = Served {
            kinds: KINDS.map(group_resource).into_iter().collect(),
            ..Served::default()
        };
        accounts.discovered(served, self.tick(), server_time(self.now));
        let kinds = KINDS.map(|kind| Watched {
            id: accounts.inventory().registry().id(&group_resource(kind)).unwrap(),
            monitor: Monitor::default(),
            dropped: false,
        });
        let mut books = Books::default();
        if !self.leads[who] {
            books.began(Errand::Standby, self.now);
        }
        self.controllers[who] = Some(Controller {
            incarnation,
            accounts,
            kinds,
            quotas: Monitor::default(),
            class_carries: None,
            class_last: 0,
            looks: BTreeMap::new(),
            expires: None,
            writing: BTreeMap::new(),
            listed: BTreeSet::new(),
            queue: BTreeSet::new(),
            books,
        });
        self.break_quotas(who);
        let delay = self.latency(self.plot.slow_lists, 5_000);
        self.after(delay, Event::ListClasses { who, incarnation });
    }

    pub(crate) fn lead(&mut self, who: usize, leads: bool) {
        let before = std::mem::replace(&mut self.leads[who], leads);
        let in_flight = self.requests.values().any(|request| !request.charged.is_empty());
        let now = self.now;
        let Some(controller) = &mut self.controllers[who] else {
            return;
        };
        if before == leads {
            return;
        }
        if !leads {
            controller.books.began(Errand::Standby, now);
            return;
        }
        controller.books.ended(&Errand::Standby, now);
        controller.enqueue_all();
        // In an order that is the same each time.
        let keys: BTreeSet<QuotaKey> = controller.accounts.quotas().map(|quota| quota.key.clone()).collect();
        if in_flight && !keys.is_empty() {
            self.paths.note(Path::TakenOver);
        }
        for key in keys {
            self.look(who, &key);
        }
    }

    fn alive(&mut self, who: usize, incarnation: u64) -> Option<&mut Controller> {
        self.controllers[who]
            .as_mut()
            .filter(|controller| controller.incarnation == incarnation)
    }

    // ---- watches

    /// How long a watch that is stalled just now still delivers nothing.
    fn stalled(&mut self, stalls: impl Fn(&Plot) -> &[(Ms, Ms)]) -> Ms {
        let during = stalls(&self.plot)
            .iter()
            .filter(|(from, to)| (*from..*to).contains(&self.now));
        let stalled = during.map(|(_, to)| to - self.now).max().unwrap_or(0);
        if stalled > 0 {
            self.paths.note(Path::Stalled);
        }
        stalled
    }

    pub(crate) fn deliver_object(&mut self, who: usize, index: usize) {
        let kind = self.object_log[index].object.kind;
        let is_watching = |controller: &Controller| controller.kinds[kind as usize].monitor.watching;
        if !self.controllers[who].as_ref().is_some_and(is_watching) {
            return;
        }
        let stalled = self.stalled(|plot| &plot.stalls[who].objects);
        let at = self.now + stalled + self.chance.between(1, self.plot.object_latency);
        let Some(controller) = &mut self.controllers[who] else {
            return;
        };
        let (at, connection) = controller.watched(kind).monitor.after_the_last(at);
        self.at(
            at,
            Event::Object {
                who,
                kind,
                connection,
                index,
            },
        );
    }

    pub(crate) fn deliver_quota(&mut self, who: usize, index: usize) {
        if !self.controllers[who]
            .as_ref()
            .is_some_and(|controller| controller.quotas.watching)
        {
            return;
        }
        let stalled = self.stalled(|plot| &plot.stalls[who].quotas);
        let at = self.now + stalled + self.chance.between(1, self.plot.quota_latency);
        let Some(controller) = &mut self.controllers[who] else {
            return;
        };
        let (at, connection) = controller.quotas.after_the_last(at);
        self.at(at, Event::Quota { who, connection, index });
    }

    pub(crate) fn deliver_class(&mut self, who: usize) {
        let delay = self.chance.between(1, self.plot.object_latency);
        let (now, carries) = (self.now, self.class_carries);
        let Some(controller) = &mut self.controllers[who] else {
            return;
        };
        if controller.class_carries.is_some() {
            controller.class_last = controller.class_last.max(now + delay);
            let (at, incarnation) = (controller.class_last, controller.incarnation);
            self.at(
                at,
                Event::Class {
                    who,
                    incarnation,
                    carries,
                },
            );
        }
    }

    /// A new connection, which begins with a list.
    pub(crate) fn break_quotas(&mut self, who: usize) {
        let connection = self.unique();
        let delay = self.latency(self.plot.slow_lists, 5_000);
        let Some(controller) = &mut self.controllers[who] else {
            return;
        };
        let again = controller.quotas.connection != 0;
        controller.quotas = Monitor {
            connection,
            again,
            ..Monitor::default()
        };
        self.after(delay, Event::AnswerQuotaList { who, connection });
    }

    pub(crate) fn break_objects(&mut self, who: usize, kind: Kind) {
        let connection = self.unique();
        let delay = self.latency(self.plot.slow_lists, 5_000);
        let now = self.now;
        let Some(controller) = &mut self.controllers[who] else {
            return;
        };
        let monitor = &mut controller.watched(kind).monitor;
        if monitor.connection != 0 {
            *monitor = Monitor {
                connection,
                again: true,
                shown: monitor.shown,
                ..Monitor::default()
            };
            controller.books.began(Errand::List(kind), now);
            self.after(delay, Event::List { who, kind, connection });
        }
    }

    fn connected(&mut self, who: usize, kind: Kind, connection: u64) -> Option<&mut Controller> {
        let controller = self.controllers[who].as_mut()?;
        (controller.watched(kind).monitor.connection == connection).then_some(controller)
    }

    /// Whether a controller that watches the kind has not been shown the object, and would have been.
    pub(crate) fn is_hidden(&self, object: &Stored) -> bool {
        let mut controllers = self.controllers.iter().flatten();
        controllers.any(|controller| {
            let monitor = &controller.kinds[object.kind as usize].monitor;
            monitor.watching && monitor.shown < object.revision
        })
    }

    /// Whether a controller's watch of the kind is broken, so that it will never be shown the object.
    pub(crate) fn is_unshown(&self, object: &Stored) -> bool {
        let mut controllers = self.controllers.iter().flatten();
        controllers.any(|controller| {
            let monitor = &controller.kinds[object.kind as usize].monitor;
            !monitor.watching && monitor.again && monitor.shown < object.revision
        })
    }

    // ---- events

    pub(crate) fn controller_step(&mut self, event: Event) {
        let (tick, time, now) = (self.tick(), server_time(self.now), self.now);
        match event {
            Event::Object {
                who,
                kind,
                connection,
                index,
            } => self.object_comes(who, kind, connection, index),
            Event::Quota { who, connection, index } => {
                let QuotaChange {
                    at,
                    quota,
                    deleted,
                    writer,
                } = self.quota_log[index].clone();
                let Some(controller) = self.controllers[who]
                    .as_mut()
                    .filter(|controller| controller.quotas.connection == connection)
                else {
                    return;
                };
                controller.quotas.shown = quota.revision;
                if deleted {
                    controller.accounts.quota_gone(&quota.key());
                } else {
                    let own = writer == Some(controller.incarnation);
                    self.quota_comes(who, &quota, Sighting::Event, own);
                }
                self.arrived(at);
            }
            Event::AnswerQuotaList { who, connection } => {
                let delay = self.latency(self.plot.slow_lists, 5_000);
                let (sent, revision, quotas) = (now, self.revision, self.quotas.values().cloned().collect());
                self.after(
                    delay,
                    Event::QuotaList {
                        who,
                        connection,
                        sent,
                        revision,
                        quotas,
                    },
                );
            }
            Event::QuotaList {
                who,
                connection,
                sent,
                revision,
                quotas,
            } => {
                self.quotas_listed(who, connection, sent, revision, &quotas);
            }
            Event::List { who, kind, connection } => {
                let delay = self.latency(self.plot.slow_lists, 8_000);
                if let Some(controller) = self.connected(who, kind, connection) {
                    let id = controller.watched(kind).id;
                    controller.accounts.list_began(id);
                    let call = ListCall {
                        who,
                        kind,
                        connection,
                        sent: (now, tick),
                    };
                    self.after(delay, Event::AnswerList(call));
                }
            }
            Event::AnswerList(call) => {
                let delay = self.latency(self.plot.slow_lists, 8_000);
                let all = self.objects.values().filter(|object| object.kind == call.kind);
                let mut first: Vec<Stored> = all.cloned().collect();
                let second = first.split_off(first.len() / 2);
                let (revision, pages) = (self.revision, vec![first, second]);
                self.after(delay, Event::ListPages { call, revision, pages });
            }
            Event::ListPages { call, revision, pages } => self.page_comes(call, revision, pages),
            Event::ListClasses { who, incarnation } => self.classes_come(who, incarnation),
            Event::Class {
                who,
                incarnation,
                carries,
            } => {
                let Some(controller) = self.alive(who, incarnation) else {
                    return;
                };
                controller.class_carries = Some(carries);
                let extended = carries.then_some(EXTENDED);
                controller.accounts.device_class_changed(CLASS, extended, tick, time);
                self.paths.note(Path::FedByAnotherKind);
                self.busy = now;
                self.note_all_found(who);
            }
            Event::AnswerNamespaceList(call) => {
                let delay = self.latency(self.plot.slow_lists, 8_000);
                let fails = !self.is_calm() && self.chance.percent(self.plot.failing_lists);
                let of_kind = |object: &&Stored| object.kind == call.kind && object.namespace == call.in_namespace;
                let answer =
                    (!fails).then(|| (self.revision, self.objects.values().filter(of_kind).cloned().collect()));
                self.after(delay, Event::NamespaceList { call, answer });
            }
            Event::NamespaceList { call, answer } => self.namespace_list_comes(call, answer.as_ref()),
            Event::Write {
                who,
                incarnation,
                write,
                sent,
                answer_in,
            } => self.write(who, incarnation, write, sent, answer_in),
            Event::WriteAnswer {
                who,
                incarnation,
                key,
                result,
                sent,
            } => self.write_answered(who, incarnation, &key, result, sent),
            Event::Look { who, incarnation, key } => {
                let Some(controller) = self.alive(who, incarnation) else {
                    return;
                };
                if controller.looks.get(&key) == Some(&now) {
                    controller.looks.remove(&key);
                }
                controller.queue.insert(key.clone());
                self.look(who, &key);
            }
            Event::Expire { who, incarnation } => {
                let Some(controller) = self.alive(who, incarnation) else {
                    return;
                };
                controller.expires = None;
                controller.accounts.expire(tick, time);
            }
            _ => {}
        }
    }

    fn object_comes(&mut self, who: usize, kind: Kind, connection: u64, index: usize) {
        let (tick, time) = (self.tick(), server_time(self.now));
        let ObjectChange { at, object, deleted } = self.object_log[index].clone();
        let is = object.object(&mut self.views);
        let Some(controller) = self.connected(who, kind, connection) else {
            return;
        };
        let watched = controller.watched(kind);
        let (id, known) = (watched.id, watched.monitor.shown >= object.revision);
        watched.monitor.shown = watched.monitor.shown.max(object.revision);
        if !deleted && object.raised_at > controller.quotas.shown {
            self.paths.note(Path::GrowthBeforeRaise);
        }
        let Some(controller) = &mut self.controllers[who] else {
            return;
        };
        // Upstream counts anew for what is gone and for what changed, never for what is new.
        let is_new = controller
            .accounts
            .inventory()
            .ledger()
            .charge(&is.metadata.namespace, id, kubequota_core::ObjectId::of(&is.metadata))
            .is_none();
        if !known && (deleted || !is_new) {
            let (of, all) = (object.namespace, controller.accounts.quotas());
            let keys: Vec<QuotaKey> = all
                .map(|quota| quota.key.clone())
                .filter(|key| spot(key).0 == of)
                .collect();
            controller.queue.extend(keys);
        }
        if deleted {
            controller.accounts.object_deleted(id, &is, tick, time);
        } else {
            controller.accounts.object_applied(id, &is, tick, time);
        }
        self.note_clouds(who);
        self.arrived(at);
    }

    /// A quota is shown to a controller.
    fn quota_comes(&mut self, who: usize, quota: &StoredQuota, sighting: Sighting, own: bool) {
        let tick = self.tick();
        let Some(controller) = &mut self.controllers[who] else {
            return;
        };
        if controller.writing.get(&quota.key()) == Some(&true) {
            self.paths.note(Path::SightingHeld);
        }
        let known = controller
            .accounts
            .quota(&quota.key())
            .map(|quota| quota.spec.hard.clone());
        let is = quota.quota();
        if known.as_ref() != Some(&is.spec.hard) {
            controller.queue.insert(quota.key());
        }
        controller.accounts.quota_seen(is, sighting, tick);
        self.note_quota(who, quota, sighting, own);
    }

    fn quotas_listed(&mut self, who: usize, connection: u64, sent: Ms, revision: u64, quotas: &[StoredQuota]) {
        let Some(controller) = self.controllers[who]
            .as_mut()
            .filter(|controller| controller.quotas.connection == connection)
        else {
            return;
        };
        controller.quotas.watching = true;
        controller.quotas.shown = revision;
        let again = controller.quotas.again;
        let keys: BTreeSet<QuotaKey> = quotas.iter().map(StoredQuota::key).collect();
        let gone: Vec<QuotaKey> = controller
            .accounts
            .quotas()
            .map(|quota| quota.key.clone())
            .filter(|key| !keys.contains(key))
            .collect();
        for key in gone {
            controller.accounts.quota_gone(&key);
        }
        if again {
            self.paths.note(Path::QuotasRelisted);
        }
        for quota in quotas {
            self.quota_comes(who, quota, Sighting::Listed, false);
        }
        self.say(|_| format!("controller {who}: quotas are listed at r{revision}"));
        for index in 0..self.quota_log.len() {
            if self.quota_log[index].quota.revision > revision {
                self.deliver_quota(who, index);
            }
        }
        self.arrived(sent);
        self.busy = self.now;
    }

    fn page_comes(&mut self, call: ListCall, revision: u64, mut pages: Vec<Vec<Stored>>) {
        let ListCall {
            who,
            kind,
            connection,
            sent,
        } = call;
        let (tick, time, now) = (self.tick(), server_time(self.now), self.now);
        let fails = !self.is_calm() && self.chance.percent(self.plot.failing_lists);
        let objects: Vec<Object> = pages[0].iter().map(|object| object.object(&mut self.views)).collect();
        let Some(controller) = self.connected(who, kind, connection) else {
            return;
        };
        let watched = controller.watched(kind);
        let (id, half_taken, again) = (watched.id, watched.monitor.half_taken, watched.monitor.again);
        if fails {
            controller.accounts.kind_failing(id);
            self.say(|_| format!("controller {who}: list of all {kind:?}s fails"));
            self.paths.note(if half_taken {
                Path::ListHalfTaken
            } else {
                Path::ListFailed
            });
            self.break_objects(who, kind);
            return;
        }
        controller
            .accounts
            .list_page(id, &revision.to_string(), &objects, tick, time);
        let page = pages.remove(0);
        if !pages.is_empty() {
            controller.watched(kind).monitor.half_taken = !objects.is_empty();
            // Where both lists of a kind are slow, each may come in the middle of the other.
            let awaits_evidence = controller.books.awaits_evidence(kind);
            let slow = if awaits_evidence { 80 } else { self.plot.slow_lists };
            self.say(|_| format!("controller {who}: list of all {kind:?}s at r{revision}: {page:?} and more"));
            let delay = self.latency(slow, 8_000);
            self.after(delay, Event::ListPages { call, revision, pages });
            self.note_clouds(who);
            return;
        }
        controller
            .accounts
            .list_ended(id, &revision.to_string(), sent.1, tick, time);
        controller.listed.insert(kind);
        controller.enqueue_all();
        let monitor = &mut controller.watched(kind).monitor;
        monitor.watching = true;
        monitor.half_taken = false;
        monitor.shown = monitor.shown.max(revision);
        controller.books.ended(&Errand::List(kind), now);
        if again {
            self.paths.note(Path::ObjectsRelisted);
        }
        self.say(|_| {
            format!(
                "controller {who}: list of all {kind:?}s at r{revision}: {page:?}, sent at {}",
                sent.0
            )
        });
        for index in 0..self.object_log.len() {
            let object = &self.object_log[index].object;
            if object.kind == kind && object.revision > revision {
                self.deliver_object(who, index);
            }
        }
        self.note_clouds(who);
        self.arrived(sent.0);
    }

    fn classes_come(&mut self, who: usize, incarnation: u64) {
        let (tick, time, carries) = (self.tick(), server_time(self.now), self.class_carries);
        let fails = !self.is_calm() && self.chance.percent(self.plot.failing_lists);
        let Some(controller) = self.alive(who, incarnation) else {
            return;
        };
        if fails {
            controller.accounts.device_classes_failing();
            self.paths.note(Path::ClassesFailed);
            return self.after(1_000, Event::ListClasses { who, incarnation });
        }
        controller.class_carries = Some(carries);
        let classes = BTreeMap::from([(CLASS.to_owned(), carries.then(|| EXTENDED.to_owned()))]);
        controller.accounts.device_classes_listed(&classes, tick, time);
        self.say(|_| format!("controller {who}: device classes are listed"));
        self.busy = self.now;
        self.note_all_found(who);
    }

    fn namespace_list_comes(&mut self, call: NamespaceListCall, answer: Option<&(u64, Vec<Stored>)>) {
        let NamespaceListCall {
            who,
            incarnation,
            kind,
            in_namespace,
            sent,
        } = call;
        let (tick, time, now) = (self.tick(), server_time(self.now), self.now);
        let space = namespace(in_namespace);
        self.say(|_| format!("controller {who}: list of {kind:?}s in {space}, sent at {sent}, answers {answer:?}"));
        let objects = answer.map(|(_, stored)| {
            stored
                .iter()
                .map(|object| object.object(&mut self.views))
                .collect::<Vec<Object>>()
        });
        let Some(controller) = self.alive(who, incarnation) else {
            return;
        };
        let Watched { id, monitor, .. } = controller.watched(kind);
        let (id, half_taken, shown) = (*id, monitor.half_taken, monitor.shown);
        controller.books.ended(&Errand::Evidence(kind, in_namespace), now);
        let path = match (&answer, &objects) {
            (Some((revision, _)), Some(objects)) => {
                let revision = *revision;
                let listed = (id, space.as_str(), revision.to_string());
                controller
                    .accounts
                    .namespace_listed(listed.0, listed.1, &listed.2, objects, tick, time);
                controller.enqueue_all();
                if half_taken {
                    Path::EvidenceMidList
                } else if revision > shown {
                    Path::EvidenceTaken
                } else {
                    Path::EvidenceOld
                }
            }
            _ => {
                controller.accounts.namespace_list_failed(id, &space);
                Path::EvidenceFailed
            }
        };
        if path == Path::EvidenceFailed {
            // It is asked for again two seconds after it was sent.
            controller.books.trouble(sent, now.max(sent + 2_000));
        }
        self.paths.note(path);
        self.note_clouds(who);
        self.arrived(sent);
    }

    // ---- what is done about it

    /// Monitors what is needed, and looks at every quota that something happened to.
    pub(crate) fn drive(&mut self, who: usize) {
        let (tick, time, now) = (self.tick(), server_time(self.now), self.now);
        let leads = self.leads[who];
        let Some(controller) = &mut self.controllers[who] else {
            return;
        };
        let incarnation = controller.incarnation;
        let mut starts = Vec::new();
        if controller.accounts.take_wanted_changed() {
            let needed: BTreeSet<KindId> = controller.accounts.needed_kinds().collect();
            for kind in KINDS {
                let Watched { id, monitor, dropped } = controller.watched(kind);
                let (id, connected) = (*id, monitor.connection != 0);
                if needed.contains(&id) && !connected {
                    starts.push((kind, std::mem::take(dropped)));
                } else if !needed.contains(&id) && connected {
                    *monitor = Monitor::default();
                    *dropped = true;
                    controller.accounts.kind_dropped(id, tick, time);
                    controller.listed.remove(&kind);
                    controller.books.ended(&Errand::List(kind), now);
                    self.paths.note(Path::KindDropped);
                }
            }
        }
        let dirty = controller.accounts.take_dirty();
        let queued = if self.rule == Rule::Upstream && leads {
            std::mem::take(&mut controller.queue)
        } else {
            BTreeSet::new()
        };
        let expires = controller.accounts.next_deadline().map(|at| after(at).max(now));
        if let Some(at) = expires
            && controller.expires.is_none_or(|planned| planned > at)
        {
            controller.expires = Some(at);
            self.at(at, Event::Expire { who, incarnation });
        }
        for (kind, dropped) in starts {
            let connection = self.unique();
            if let Some(controller) = &mut self.controllers[who] {
                controller.watched(kind).monitor = Monitor {
                    connection,
                    ..Monitor::default()
                };
                controller.books.began(Errand::List(kind), now);
            }
            if dropped {
                self.paths.note(Path::KindTakenUp);
                self.note_all_found(who);
            }
            self.after(1, Event::List { who, kind, connection });
        }
        match self.rule {
            Rule::Kubequota => dirty.iter().for_each(|key| self.look(who, key)),
            Rule::Upstream => queued.iter().for_each(|key| self.count_anew(who, key)),
        }
    }

    /// Only who leads does anything. A standby's accounts follow.
    fn look(&mut self, who: usize, key: &QuotaKey) {
        let (tick, now) = (self.tick(), self.now);
        if !self.leads[who] || self.rule == Rule::Upstream {
            return;
        }
        let Some(controller) = &mut self.controllers[who] else {
            return;
        };
        // A quota is in one worker's hands at a time, until the write is answered.
        if controller.writing.contains_key(key) {
            return;
        }
        let incarnation = controller.incarnation;
        let plan = controller.accounts.plan(key, tick);
        for list in &plan.lists {
            controller.accounts.namespace_list_sent(*list, &key.namespace, tick);
        }
        let listed = |kind: &Kind| plan.lists.contains(&controller.kinds[*kind as usize].id);
        let lists: Vec<Kind> = KINDS.into_iter().filter(listed).collect();
        let in_namespace = spot(key).0;
        for kind in &lists {
            controller.books.began(Errand::Evidence(*kind, in_namespace), now);
        }
        if let Some(write) = &plan.write {
            controller.accounts.write_sent(write.clone(), tick);
        }
        if let Some(at) = plan.again_at {
            let at = (at - Tick::default()).as_nanos().div_ceil(1_000_000);
            let at = u64::try_from(at).unwrap().max(now + 1);
            let planned = controller.looks.get(key);
            if planned.is_none_or(|planned| *planned > at || *planned <= now) {
                controller.looks.insert(key.clone(), at);
                let key = key.clone();
                self.at(at, Event::Look { who, incarnation, key });
            }
        }
        for kind in lists {
            let delay = self.latency(self.plot.slow_lists, 8_000);
            if !self.is_calm() && self.chance.percent(self.plot.failing_lists) {
                // Troubles come together.
                let soon = self.chance.between(1, 1_000);
                self.after(soon, Event::Act(Act::BreakObjects { who, kind }));
            }
            self.say(|_| format!("controller {who}: list of {kind:?}s in {} is sent", key.namespace));
            let call = NamespaceListCall {
                who,
                incarnation,
                kind,
                in_namespace,
                sent: now,
            };
            self.after(delay, Event::AnswerNamespaceList(call));
        }
        if let Some(write) = plan.write {
            self.send(who, write);
        }
    }

    /// What upstream's controller does: once all is listed, `used` becomes what is observed.
    fn count_anew(&mut self, who: usize, key: &QuotaKey) {
        let Some(controller) = &mut self.controllers[who] else {
            return;
        };
        let Some(quota) = controller.accounts.quota(key) else {
            return;
        };
        if !controller.is_listed() || controller.writing.contains_key(key) {
            controller.queue.insert(key.clone());
            return;
        }
        let Some(used) = controller.accounts.inventory().ledger().used(key).cloned() else {
            return;
        };
        let hard = quota.spec.hard.clone();
        if quota.status.used.as_ref() == Some(&used) && quota.status.hard.as_ref() == Some(&hard) {
            return;
        }
        let write = StatusWrite {
            quota: key.clone(),
            resource_version: quota.resource_version.clone(),
            hard,
            used,
            gone_from_hard: Vec::new(),
            gone_from_used: Vec::new(),
            last_charges: None,
        };
        self.send(who, write);
    }

    fn send(&mut self, who: usize, write: StatusWrite) {
        let sent = self.now;
        self.say(|_| {
            let StatusWrite {
                quota,
                resource_version,
                used,
                ..
            } = &write;
            format!("controller {who}: write of {quota} at r{resource_version} is sent: used {used}")
        });
        self.judge_over_count(who, &write);
        let (there, back) = (
            self.latency(self.plot.slow_writes, 8_000),
            self.latency(self.plot.slow_writes, 8_000),
        );
        let lost = !self.is_calm() && self.chance.percent(self.plot.lost_writes);
        let arrives = !lost || self.chance.percent(70);
        let Some(controller) = &mut self.controllers[who] else {
            return;
        };
        let incarnation = controller.incarnation;
        let key = write.quota.clone();
        let status = controller.accounts.quota(&key).map(|quota| &quota.status);
        let raises = write.used.iter().any(|(name, value)| {
            let before = status.and_then(|status| status.used(name.as_str()));
            before.is_none_or(|before| before < value)
        });
        controller.writing.insert(key.clone(), raises);
        controller.books.began(Errand::Write(key.clone()), sent);
        let in_time = !lost && there + back <= GIVEN_UP;
        if arrives {
            let answer_in = in_time.then_some(back);
            self.after(
                there,
                Event::Write {
                    who,
                    incarnation,
                    write,
                    sent,
                    answer_in,
                },
            );
        } else {
            self.paths.note(Path::WriteLost);
        }
        if !in_time {
            let result = WriteResult::Unsettled {
                retry_after: Duration::from_millis(100),
            };
            self.after(
                GIVEN_UP,
                Event::WriteAnswer {
                    who,
                    incarnation,
                    key,
                    result,
                    sent,
                },
            );
        }
    }

    /// A write reaches the server.
    fn write(&mut self, who: usize, incarnation: u64, write: StatusWrite, sent: Ms, answer_in: Option<Ms>) {
        let guard: u64 = write.resource_version.parse().unwrap();
        let spot = spot(&write.quota);
        let result = match self.quotas.get(&spot).filter(|quota| quota.revision == guard).cloned() {
            None => {
                self.paths.note(Path::Conflict);
                WriteResult::Superseded
            }
            Some(before) => {
                let used = amounts(&write.used);
                let hard = amounts(&write.hard).map(|hard| hard.is_some());
                let quota = StoredQuota {
                    status_hard: Some(hard),
                    used: Some(used),
                    ..before.clone()
                };
                let is_same = before.status_hard.unwrap_or_default() == hard && before.used.unwrap_or_default() == used;
                if !is_same {
                    self.say(|_| format!("controller {who}: write of {} lands", write.quota));
                    self.note_landed(who, &quota, sent, answer_in);
                    let writer = answer_in.map(|_| incarnation);
                    self.put_quota(quota.clone(), false, writer);
                    // However long its sender has been gone.
                    self.arrived(sent);
                }
                self.judge_landed(&before, &quota);
                let resource_version = self.quotas[&spot].revision.to_string();
                WriteResult::Landed { resource_version }
            }
        };
        if let Some(delay) = answer_in {
            let key = write.quota;
            self.after(
                delay,
                Event::WriteAnswer {
                    who,
                    incarnation,
                    key,
                    result,
                    sent,
                },
            );
        }
    }

    fn note_landed(&mut self, who: usize, quota: &StoredQuota, sent: Ms, answer_in: Option<Ms>) {
        if self.leads == [true; 2] {
            self.paths.note(Path::TwoLead);
        }
        if !self.leads[who] {
            self.paths.note(Path::LeadsNoMore);
        }
        if answer_in.is_none() {
            let given_up = self.now > sent + GIVEN_UP;
            self.paths.note(if given_up {
                Path::LandedAfterGivenUp
            } else {
                Path::AnswerLost
            });
        }
        if quota.hard[GPU] && self.feeders(GPU).len() == 2 && quota.used(GPU).is_some() {
            self.paths.note(Path::FedByTwoKinds);
        }
    }

    fn write_answered(&mut self, who: usize, incarnation: u64, key: &QuotaKey, result: WriteResult, sent: Ms) {
        self.say(|_| format!("controller {who}: write of {key} is answered: {result:?}"));
        let (tick, now, rule) = (self.tick(), self.now, self.rule);
        let Some(controller) = self.alive(who, incarnation) else {
            return;
        };
        controller.writing.remove(key);
        controller.books.ended(&Errand::Write(key.clone()), now);
        if rule == Rule::Kubequota {
            controller.accounts.write_ended(key, result, tick);
            self.look(who, key);
        } else if !matches!(result, WriteResult::Landed { .. }) {
            let key = key.clone();
            self.after(20, Event::Look { who, incarnation, key });
        }
        self.arrived(sent);
    }
}

/// The spots of the quotas that a controller knows.
pub(crate) fn known_spots(accounts: &Accounts) -> Vec<(usize, usize)> {
    accounts.quotas().map(|quota| spot(&quota.key)).collect()
}

/// Whether a name of a quota is frozen.
pub(crate) fn is_frozen(accounts: &Accounts, at: (usize, usize), name: usize) -> bool {
    let key = key(at);
    accounts
        .frozen_names()
        .any(|(quota, frozen)| *quota == key && frozen.as_str() == NAMES[name])
}
