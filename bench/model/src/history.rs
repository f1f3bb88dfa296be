//! One history: its events in their order, and what people do.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use kubequota_core::QuotaKey;
use kubequota_core::accounts::{StatusWrite, WriteResult};
use kubequota_core::pending::Tick;

use crate::chance::Chance;
use crate::controller::Controller;
use crate::judge::{Property, SETTLED, Violation};
use crate::paths::{Counts, Path};
use crate::plot::{self, Act, Ms, Plot};
use crate::server::{
    Amounts, GPU, Kind, NAMES, Names, ObjectChange, QuotaChange, Request, Shrinkage, Spot, Stored, StoredQuota, Views,
    Wish, add,
};

/// How the controllers decide what to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// What the accounts plan.
    Kubequota,
    /// What is observed, whenever something happens that upstream's controller counts a quota anew for.
    Upstream,
}

/// A list of all objects of a kind that a controller has asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListCall {
    pub(crate) who: usize,
    pub(crate) kind: Kind,
    pub(crate) connection: u64,
    pub(crate) sent: (Ms, Tick),
}

/// A list of those of one namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamespaceListCall {
    pub(crate) who: usize,
    pub(crate) incarnation: u64,
    pub(crate) kind: Kind,
    pub(crate) in_namespace: usize,
    pub(crate) sent: Ms,
}

#[derive(Debug)]
pub(crate) enum Event {
    Act(Act),
    Judge(u32),
    Charge {
        request: u32,
        quota: u32,
        revision: u64,
    },
    Store(u32),
    StatusFalls {
        uid: u32,
        by: i64,
    },
    Readable(u32),
    Gone(u32),
    Ended(u32),
    CreateQuota {
        spot: Spot,
        hard: Names,
    },
    Start {
        who: usize,
    },
    Sample,
    // Of one connection of a controller, which later ones replace.
    Object {
        who: usize,
        kind: Kind,
        connection: u64,
        index: usize,
    },
    Quota {
        who: usize,
        connection: u64,
        index: usize,
    },
    AnswerQuotaList {
        who: usize,
        connection: u64,
    },
    QuotaList {
        who: usize,
        connection: u64,
        sent: Ms,
        revision: u64,
        quotas: Vec<StoredQuota>,
    },
    List {
        who: usize,
        kind: Kind,
        connection: u64,
    },
    AnswerList(ListCall),
    ListPages {
        call: ListCall,
        revision: u64,
        pages: Vec<Vec<Stored>>,
    },
    // Of one life of a controller.
    ListClasses {
        who: usize,
        incarnation: u64,
    },
    Class {
        who: usize,
        incarnation: u64,
        carries: bool,
    },
    AnswerNamespaceList(NamespaceListCall),
    NamespaceList {
        call: NamespaceListCall,
        answer: Option<(u64, Vec<Stored>)>,
    },
    /// A write reaches the server; `answer_in` says how long its answer takes, if that comes in time.
    Write {
        who: usize,
        incarnation: u64,
        write: StatusWrite,
        sent: Ms,
        answer_in: Option<Ms>,
    },
    WriteAnswer {
        who: usize,
        incarnation: u64,
        key: QuotaKey,
        result: WriteResult,
        sent: Ms,
    },
    Look {
        who: usize,
        incarnation: u64,
        key: QuotaKey,
    },
    Expire {
        who: usize,
        incarnation: u64,
    },
}

pub(crate) struct History {
    pub(crate) plot: Plot,
    pub(crate) rule: Rule,
    pub(crate) chance: Chance,
    pub(crate) now: Ms,
    /// Events so far, so that no two share a tick.
    count: u64,
    /// What is to come, by when and by its place in `waiting`.
    events: BinaryHeap<Reverse<(Ms, usize)>>,
    waiting: Vec<Option<Event>>,
    ids: u64,

    pub(crate) revision: u64,
    pub(crate) objects: BTreeMap<u32, Stored>,
    pub(crate) quotas: BTreeMap<Spot, StoredQuota>,
    pub(crate) class_carries: bool,
    pub(crate) object_log: Vec<ObjectChange>,
    pub(crate) quota_log: Vec<QuotaChange>,
    pub(crate) requests: BTreeMap<u32, Request>,
    pub(crate) views: Views,

    pub(crate) controllers: [Option<Controller>; 2],
    pub(crate) leads: [bool; 2],

    /// When something last happened that the controllers must come to terms with.
    pub(crate) busy: Ms,
    pub(crate) shrinkages: Vec<Shrinkage>,
    /// What was raised, by whoever admits or edits.
    pub(crate) raises: Vec<(Ms, Spot, Amounts)>,
    /// What nobody was charged for, by namespace: growth by the status of pods, and claims made for pods.
    pub(crate) grown: Vec<(Ms, usize, Amounts)>,
    /// What the known limits of the rule may hide, by quota: what people take off `used` is believed.
    pub(crate) hidden: BTreeMap<u32, Amounts>,
    pub(crate) paths: Counts,
    pub(crate) violations: Vec<Violation>,
    pub(crate) trace: Option<Vec<String>>,
}

impl History {
    pub(crate) fn new(seed: u64, rule: Rule, views: Views, traced: bool) -> Self {
        let plot = Plot::new(seed);
        let mut history = History {
            chance: Chance::new(seed, 2),
            rule,
            now: 0,
            count: 0,
            events: BinaryHeap::new(),
            waiting: Vec::new(),
            ids: 0,
            revision: 100,
            objects: BTreeMap::new(),
            quotas: BTreeMap::new(),
            class_carries: plot.class_carries,
            object_log: Vec::new(),
            quota_log: Vec::new(),
            requests: BTreeMap::new(),
            views,
            controllers: [None, None],
            leads: [false; 2],
            busy: 0,
            shrinkages: Vec::new(),
            raises: Vec::new(),
            grown: Vec::new(),
            hidden: BTreeMap::new(),
            paths: Counts::default(),
            violations: Vec::new(),
            trace: traced.then(Vec::new),
            plot,
        };
        for in_namespace in 0..history.plot.namespaces {
            for slot in 0..history.plot.quotas {
                let hard = if history.plot.steady {
                    [true; NAMES.len()]
                } else {
                    plot::names(&mut history.chance)
                };
                let at = history.chance.between(0, 500);
                history.at(
                    at,
                    Event::CreateQuota {
                        spot: (in_namespace, slot),
                        hard,
                    },
                );
            }
        }
        for (at, act) in history.plot.acts.clone() {
            history.at(at, Event::Act(act));
        }
        if history.plot.steady {
            history.at(1_000, Event::Sample);
        }
        history
    }

    pub(crate) fn at(&mut self, at: Ms, event: Event) {
        self.events.push(Reverse((at.max(self.now), self.waiting.len())));
        self.waiting.push(Some(event));
    }

    pub(crate) fn after(&mut self, delay: Ms, event: Event) {
        self.at(self.now + delay, event);
    }

    pub(crate) fn unique(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    pub(crate) fn id(&mut self) -> u32 {
        u32::try_from(self.unique()).unwrap()
    }

    pub(crate) fn tick(&self) -> Tick {
        Tick::after_start(Duration::from_millis(self.now) + Duration::from_nanos(self.count % 1_000_000))
    }

    pub(crate) fn say(&mut self, line: impl FnOnce(&Self) -> String) {
        if self.trace.is_some() {
            let line = format!(
                "{:>7.3}s  {}",
                Duration::from_millis(self.now).as_secs_f64(),
                line(self)
            );
            self.trace.get_or_insert_default().push(line);
        }
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.now > self.plot.end
    }

    /// How long a request to the server or its answer takes.
    pub(crate) fn latency(&mut self, slow: u64, most: Ms) -> Ms {
        if !self.is_calm() && self.chance.percent(slow) {
            self.chance.between(300, most)
        } else {
            self.chance.between(1, 60)
        }
    }

    /// Something that was under way for long keeps the cluster from being quiet.
    pub(crate) fn arrived(&mut self, since: Ms) {
        if self.now > since + 1_000 {
            self.busy = self.now;
        }
    }

    pub(crate) fn run(&mut self) {
        while let Some(Reverse((at, place))) = self.events.pop() {
            let deadline = self.busy.max(self.plot.end) + SETTLED;
            if at > deadline {
                break;
            }
            self.now = at;
            self.count += 1;
            if let Some(event) = self.waiting[place].take() {
                self.step(event);
            }
            for who in 0..2 {
                self.drive(who);
            }
        }
        self.now = self.busy.max(self.plot.end) + SETTLED;
        self.judge_settled();
    }

    pub(crate) fn violated(&mut self, property: Property, line: String) {
        self.say(|_| format!("*** {property:?}: {line}"));
        self.violations.push(Violation { property, line });
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Act(act) => self.act(act),
            Event::Judge(id) => self.judge(id),
            Event::Charge {
                request,
                quota,
                revision,
            } => self.charge(request, quota, revision),
            Event::Store(id) => self.store(id),
            Event::StatusFalls { uid, by } => {
                if let Some(object) = self.objects.get(&uid).cloned() {
                    let allocated = object.allocated - by;
                    let allocated = if allocated > object.cpu { allocated } else { 0 };
                    self.put(Stored { allocated, ..object }, &BTreeMap::new());
                }
            }
            Event::Readable(uid) => {
                if let Some(object) = self.objects.get(&uid).cloned() {
                    self.put(
                        Stored {
                            readable: true,
                            ..object
                        },
                        &BTreeMap::new(),
                    );
                }
            }
            Event::Gone(uid) => self.delete(uid),
            Event::Ended(uid) => {
                if let Some(pod) = self.objects.get(&uid).cloned() {
                    self.paths.note(Path::GraceRanOut);
                    self.note_orphans(&pod);
                }
            }
            Event::CreateQuota { spot, hard } => self.create_quota(spot, hard),
            Event::Start { who } => self.start(who),
            Event::Sample => {
                self.judge_busy();
                if !self.is_calm() {
                    self.after(500, Event::Sample);
                }
            }
            event => self.controller_step(event),
        }
    }

    // ---- people

    fn some_object(&mut self, fits: impl Fn(&Stored) -> bool) -> Option<Stored> {
        let all: Vec<u32> = self
            .objects
            .values()
            .filter(|object| fits(object))
            .map(|object| object.uid)
            .collect();
        let picked = self.chance.next();
        let uid = all.get(usize::try_from(picked % all.len().max(1) as u64).unwrap())?;
        self.objects.get(uid).cloned()
    }

    fn some_quota(&mut self) -> Option<StoredQuota> {
        let picked = self.chance.index(self.quotas.len().max(1));
        self.quotas.values().nth(picked).cloned()
    }

    fn act(&mut self, act: Act) {
        self.say(|_| format!("{act:?}"));
        self.busy = self.now;
        let is_live_pod = |object: &Stored| object.kind == Kind::Pod && object.ends.is_none();
        let nobody = BTreeMap::new();
        match act {
            Act::Create { kind, cpu, gpu, life } => {
                let namespace = self.chance.index(self.plot.namespaces);
                self.ask_to_create(kind, namespace, (cpu, gpu), None, life);
            }
            Act::ClaimForPod { gpu } => {
                let fits = |object: &Stored| is_live_pod(object) && object.gpu > 0;
                if let Some(pod) = self.some_object(fits) {
                    self.ask_to_create(Kind::Claim, pod.namespace, (0, gpu), Some(pod.uid), None);
                }
            }
            Act::Resize { by } => {
                // Asking for what the status has already is charged nothing. That growth nobody charged cannot be told from charged
                // growth afterwards, and may hide a pending raise of its size: a known limit of the rule.
                let fits = |object: &Stored| is_live_pod(object) && object.allocated == 0;
                let Some(object) = self.some_object(fits) else { return };
                let resized = Stored {
                    cpu: (object.cpu + by).max(1),
                    ..object.clone()
                };
                let (was, is) = (self.usage(&object), self.usage(&resized));
                let change = std::array::from_fn(|name| (is[name] - was[name]).max(0));
                let Stored {
                    uid,
                    revision,
                    namespace,
                    ..
                } = object;
                self.request(
                    namespace,
                    Wish::Resize {
                        uid,
                        revision,
                        cpu: resized.cpu,
                    },
                    change,
                );
            }
            Act::StatusGrows { by, back_after } => {
                let Some(object) = self.some_object(is_live_pod) else {
                    return;
                };
                let (uid, allocated) = (object.uid, object.cpu.max(object.allocated) + by);
                self.paths.note(Path::GrownByStatus);
                self.grown.push((self.now, object.namespace, [0, by, 0, 0, 0]));
                self.put(Stored { allocated, ..object }, &nobody);
                self.after(back_after, Event::StatusFalls { uid, by });
            }
            Act::Delete => {
                if let Some(object) = self.some_object(|_| true) {
                    self.delete(object.uid);
                }
            }
            Act::Terminate { seconds, gone_after } => {
                let Some(object) = self.some_object(is_live_pod) else {
                    return;
                };
                let ends = (self.now / 1000 + seconds) * 1000;
                self.after(gone_after, Event::Gone(object.uid));
                self.at(ends + 1, Event::Ended(object.uid));
                self.put(
                    Stored {
                        ends: Some(ends),
                        ..object
                    },
                    &nobody,
                );
                self.busy = ends.max(self.now);
            }
            Act::Spoil { back_after } => {
                let Some(object) = self.some_object(|object| object.readable) else {
                    return;
                };
                self.after(back_after, Event::Readable(object.uid));
                self.put(
                    Stored {
                        readable: false,
                        ..object
                    },
                    &nobody,
                );
            }
            Act::TouchQuota => {
                if let Some(quota) = self.some_quota() {
                    self.put_quota(quota, false, None);
                }
            }
            Act::EditHard { names } => {
                let Some(quota) = self.some_quota() else { return };
                let changed: Names = std::array::from_fn(|name| names[name] != quota.hard[name]);
                for name in (0..NAMES.len()).filter(|name| changed[*name]) {
                    // Taken out, what was charged is void; put in, all that is stored will be found.
                    for request in self.requests.values_mut() {
                        request.charged.entry(quota.uid).and_modify(|charged| charged[name] = 0);
                    }
                }
                self.charge_all_stored(&quota, changed);
                self.paths.note(Path::HardEdited);
                self.put_quota(StoredQuota { hard: names, ..quota }, false, None);
            }
            Act::RecreateQuota { after } => {
                let Some(quota) = self.some_quota() else { return };
                self.paths.note(Path::QuotaRecreated);
                self.after(
                    after,
                    Event::CreateQuota {
                        spot: quota.spot,
                        hard: quota.hard,
                    },
                );
                self.put_quota(quota, true, None);
            }
            Act::EditUsed { by } => self.edit_used(by),
            Act::WipeStatus => {
                let Some(quota) = self.some_quota() else { return };
                self.paths.note(Path::UsedWiped);
                // What is stored will be found, what is in flight may not.
                let in_flight = self
                    .requests
                    .values()
                    .filter_map(|request| request.charged.get(&quota.uid));
                in_flight.for_each(|charged| add(self.hidden.entry(quota.uid).or_default(), charged));
                self.put_quota(
                    StoredQuota {
                        status_hard: None,
                        used: None,
                        ..quota
                    },
                    false,
                    None,
                );
            }
            Act::ClassChanges => self.class_changes(),
            Act::BreakObjects { who, kind } => self.break_objects(who, kind),
            Act::BreakQuotas { who } => self.break_quotas(who),
            Act::Restart { who, after } => {
                if self.controllers[who].take().is_some() {
                    if self.leads[who] && self.requests.values().any(|request| !request.charged.is_empty()) {
                        self.paths.note(Path::Restarted);
                    }
                    self.after(after, Event::Start { who });
                }
            }
            Act::Start { who } => self.start(who),
            Act::Crash { who } => self.controllers[who] = None,
            Act::Lead { who, leads } => self.lead(who, leads),
        }
    }

    fn ask_to_create(
        &mut self,
        kind: Kind,
        namespace: usize,
        (cpu, gpu): (i64, i64),
        owner: Option<u32>,
        life: Option<Ms>,
    ) {
        let object = Stored {
            kind,
            namespace,
            uid: 0,
            revision: 0,
            cpu,
            gpu,
            owner,
            allocated: 0,
            readable: true,
            ends: None,
            raised_at: 0,
            charged: BTreeMap::new(),
        };
        let change = self.usage(&object);
        self.request(namespace, Wish::Create { object, life }, change);
    }

    fn edit_used(&mut self, by: i64) {
        let Some(quota) = self.some_quota() else { return };
        let Some(before) = quota.used else { return };
        let used = before.map(|used| used.map(|used| (used + by).max(0)));
        let changed: Amounts = std::array::from_fn(|name| used[name].unwrap_or(0) - before[name].unwrap_or(0));
        if by > 0 {
            self.paths.note(Path::UsedRaised);
            self.raises.push((self.now, quota.spot, changed));
        } else {
            self.paths.note(Path::UsedLowered);
            let hidden = self.hidden.entry(quota.uid).or_default();
            for (hidden, changed) in hidden.iter_mut().zip(changed) {
                *hidden -= changed;
            }
        }
        self.put_quota(
            StoredQuota {
                used: Some(used),
                ..quota
            },
            false,
            None,
        );
    }

    /// The kinds that feed a name.
    pub(crate) fn feeders(&self, name: usize) -> &'static [Kind] {
        match name {
            2 => &[Kind::ConfigMap],
            4 => &[Kind::Claim],
            GPU if self.class_carries => &[Kind::Pod, Kind::Claim],
            _ => &[Kind::Pod],
        }
    }
}
