//! What is to happen in a history, worked out from its seed.

use crate::chance::Chance;
use crate::server::{KINDS, Kind, NAMES, Names};

/// Milliseconds since the history began.
pub(crate) type Ms = u64;

pub(crate) const GRACE: Ms = 10_000;

/// What people, and fate, do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// `gpu` is what a pod asks for, or the devices of a claim.
    Create {
        kind: Kind,
        cpu: i64,
        gpu: i64,
        life: Option<Ms>,
    },
    /// The scheduler makes the claim for what a pod asks for.
    ClaimForPod {
        gpu: i64,
    },
    Resize {
        by: i64,
    },
    /// The status of a pod asks for more than its spec for a while, which admission never sees.
    StatusGrows {
        by: i64,
        back_after: Ms,
    },
    Delete,
    /// A deletion whose grace runs out before the object goes.
    Terminate {
        seconds: u64,
        gone_after: Ms,
    },
    /// An object can't be read for a while.
    Spoil {
        back_after: Ms,
    },
    TouchQuota,
    EditHard {
        names: Names,
    },
    RecreateQuota {
        after: Ms,
    },
    /// Someone edits `used`.
    EditUsed {
        by: i64,
    },
    /// Someone takes the status out.
    WipeStatus,
    /// The device class carries the extended resource, or does no more.
    ClassChanges,
    BreakObjects {
        who: usize,
        kind: Kind,
    },
    BreakQuotas {
        who: usize,
    },
    Restart {
        who: usize,
        after: Ms,
    },
    Start {
        who: usize,
    },
    Crash {
        who: usize,
    },
    Lead {
        who: usize,
        leads: bool,
    },
}

/// While these last, a watch delivers nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stalls {
    pub(crate) objects: Vec<(Ms, Ms)>,
    pub(crate) quotas: Vec<(Ms, Ms)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Plot {
    /// When all this is over, and nothing is slow or fails any more.
    pub(crate) end: Ms,
    /// Long and busy, without faults: for what is over-counted meanwhile.
    pub(crate) steady: bool,
    pub(crate) namespaces: usize,
    pub(crate) quotas: usize,
    pub(crate) class_carries: bool,
    pub(crate) acts: Vec<(Ms, Act)>,
    /// From the raise to the store, for requests that take their time.
    pub(crate) delays: (Ms, Ms),
    /// These are percentages.
    pub(crate) fails: u64,
    pub(crate) slow_lists: u64,
    pub(crate) failing_lists: u64,
    pub(crate) lost_writes: u64,
    pub(crate) slow_writes: u64,
    pub(crate) object_latency: Ms,
    pub(crate) quota_latency: Ms,
    pub(crate) stalls: [Stalls; 2],
}

impl Plot {
    pub(crate) fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed, 1);
        if chance.percent(2) {
            Plot::steady(&mut chance)
        } else {
            Plot::eventful(&mut chance)
        }
    }

    fn eventful(c: &mut Chance) -> Self {
        let end = c.between(2_000, 20_000);
        let stalls = |c: &mut Chance| {
            let mut stalls = Vec::new();
            for _ in 0..c.one_of(&[0, 0, 1, 2]) {
                let from = c.between(0, end);
                stalls.push((from, (from + c.between(300, 15_000)).min(end)));
            }
            stalls
        };
        let both = |c: &mut Chance| Stalls {
            objects: stalls(c),
            quotas: stalls(c),
        };
        let mut plot = Plot {
            end,
            steady: false,
            namespaces: c.one_of(&[1, 1, 2]),
            quotas: c.one_of(&[1, 1, 2]),
            class_carries: c.percent(70),
            acts: Vec::new(),
            delays: c.one_of(&[(1, 40), (1, 3_000), (1, GRACE - 1), (1, GRACE - 1)]),
            fails: c.one_of(&[0, 5, 30]),
            slow_lists: c.one_of(&[0, 10, 50]),
            failing_lists: c.one_of(&[0, 0, 20]),
            lost_writes: c.one_of(&[0, 0, 5, 20]),
            slow_writes: c.one_of(&[0, 5, 20]),
            object_latency: c.one_of(&[10, 100, 1_000]),
            quota_latency: c.one_of(&[10, 100, 1_000]),
            stalls: [both(c), both(c)],
        };
        let faults = c.one_of(&[0, 5, 15]);
        let odd = c.one_of(&[0, 10, 40]);
        for _ in 0..c.one_of(&[5, 15, 30, 60]) {
            let at = c.between(0, end);
            let act = if c.percent(faults) {
                fault(c)
            } else if c.percent(odd) {
                oddity(c)
            } else {
                ordinary(c)
            };
            plot.acts.push((at, act));
        }
        plot.plan_leaders(c);
        plot
    }

    fn steady(c: &mut Chance) -> Self {
        let end = c.between(20_000, 35_000);
        let latency = c.one_of(&[10, 100]);
        let every = c.one_of(&[150, 300, 600]);
        let mut plot = Plot {
            end,
            steady: true,
            namespaces: 1,
            quotas: 1,
            class_carries: true,
            acts: vec![(0, Act::Start { who: 0 }), (0, Act::Lead { who: 0, leads: true })],
            delays: c.one_of(&[(1, 40), (1, 3_000), (1, GRACE - 1)]),
            fails: c.one_of(&[0, 5, 30, 60]),
            slow_lists: 0,
            failing_lists: 0,
            lost_writes: 0,
            slow_writes: 0,
            object_latency: latency,
            quota_latency: latency,
            stalls: Default::default(),
        };
        let mut at = 1_000;
        // Where nothing is ever deleted, only a list can tell what failed.
        let only_creates = c.percent(50);
        while at < end {
            let act = ordinary(c);
            match act {
                Act::Create { kind, cpu, gpu, .. } if only_creates => {
                    plot.acts.push((
                        at,
                        Act::Create {
                            kind,
                            cpu,
                            gpu,
                            life: None,
                        },
                    ));
                }
                _ if only_creates => {}
                act => plot.acts.push((at, act)),
            }
            at += c.between(1, 2 * every);
        }
        plot
    }

    /// Who leads when. In the end one does.
    fn plan_leaders(&mut self, c: &mut Chance) {
        let mut leader = 0;
        self.acts.push((c.between(0, 500), Act::Start { who: 0 }));
        self.acts.push((0, Act::Lead { who: 0, leads: true }));
        if c.percent(40) {
            let cold = c.percent(30);
            if !cold {
                self.acts.push((c.between(0, 2_000), Act::Start { who: 1 }));
            }
            let overlap = c.percent(60);
            let mut at = c.between(300, 8_000);
            while at < self.end {
                let next = 1 - leader;
                let later = (at + c.between(0, 4_000)).min(self.end);
                let (takes, gives) = if overlap { (at, later) } else { (later, at) };
                self.acts.push((takes, Act::Lead { who: next, leads: true }));
                self.acts.push((
                    gives,
                    Act::Lead {
                        who: leader,
                        leads: false,
                    },
                ));
                if cold {
                    self.acts.push((takes, Act::Start { who: next }));
                    self.acts.push((gives, Act::Crash { who: leader }));
                }
                leader = next;
                at = later + c.between(300, 8_000);
            }
        }
        self.acts.push((
            self.end,
            Act::Lead {
                who: 1 - leader,
                leads: false,
            },
        ));
        self.acts.push((
            self.end,
            Act::Lead {
                who: leader,
                leads: true,
            },
        ));
        self.acts.push((self.end, Act::Start { who: leader }));
    }
}

fn fault(c: &mut Chance) -> Act {
    let who = c.one_of(&[0, 0, 1]);
    match c.between(0, 4) {
        0 | 1 => Act::BreakObjects {
            who,
            kind: c.one_of(&KINDS),
        },
        2 => Act::BreakQuotas { who },
        _ => Act::Restart {
            who,
            after: c.between(10, 3_000),
        },
    }
}

fn oddity(c: &mut Chance) -> Act {
    match c.between(0, 12) {
        0 => Act::TouchQuota,
        1 | 2 => Act::EditHard { names: names(c) },
        3 => Act::RecreateQuota {
            after: c.between(1, 3_000),
        },
        4 => Act::EditUsed {
            by: c.one_of(&[-2, -1, 1, 2, 3]),
        },
        5 => Act::Spoil {
            back_after: c.between(10, 8_000),
        },
        6 => Act::Terminate {
            seconds: c.between(0, 3),
            gone_after: c.between(0, 8_000),
        },
        7 => Act::ClassChanges,
        8 if c.percent(30) => Act::WipeStatus,
        8 | 9 => Act::ClaimForPod { gpu: c.amount(1, 3) },
        _ => Act::StatusGrows {
            by: c.amount(1, 3),
            back_after: c.between(10, 8_000),
        },
    }
}

fn ordinary(c: &mut Chance) -> Act {
    let life = c.percent(30).then(|| c.between(1, 1_500));
    let create = |kind, cpu, gpu| Act::Create { kind, cpu, gpu, life };
    match c.between(0, 10) {
        0..=3 => create(Kind::Pod, c.amount(1, 3), c.one_of(&[0, 0, 1, 2])),
        4 => create(Kind::ConfigMap, 0, 0),
        5 | 6 => create(Kind::Claim, 0, c.amount(1, 3)),
        7 => Act::Resize { by: c.amount(1, 2) },
        8 => Act::Resize { by: -c.amount(1, 2) },
        _ => Act::Delete,
    }
}

/// What a quota limits.
pub(crate) fn names(c: &mut Chance) -> Names {
    let all = c.percent(15);
    let mut names = [false; NAMES.len()];
    for (name, percent) in names.iter_mut().zip([60, 60, 30, 50, 30]) {
        *name = all || c.percent(percent);
    }
    names
}
