//! One batch: the requests of a namespace that waited together, judged until each has its verdict.
//!
//! The first look is at what the cache knows. Whoever fits is let through once what it is charged has been written, guarded by the
//! revision of the quota, for many requests at once. A conflict, or a refusal that what is known can't prove, is judged again on quotas
//! read live. What was written for a request that then is not let through is given back. Of a write whose answer was lost the quota itself
//! tells whether it has landed ([`LastCharges`]).

use std::sync::Arc;
use std::time::Duration;

use kubequota_cluster::backoff::{Backoff, Random};
use kubequota_cluster::{ApiResource, Known, WriteOutcome};
use kubequota_core::accounts::StatusWrite;
use kubequota_core::decision::{Raise, Refusal};
use kubequota_core::{Quota, QuotaKey, ResourceList};
use kubequota_wire::json::Quotas;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::case::{Case, Surroundings};
use crate::engine::Engine;
use crate::last_charges::LastCharges;
use crate::plan::{Booked, CaseId, Plan, Write, plan};

/// No call of a batch takes longer: whoever waits has to be answered.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// What was charged to requests that gave up is given back within this time, or left to the quota controller.
const GIVING_BACK: Duration = Duration::from_secs(10);

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// It may pass, and is charged so much by each quota named.
    Allowed(Vec<(QuotaKey, ResourceList)>),
    /// It does not fit.
    Refused(Refusal),
    /// There was no verdict in time.
    Undecided(String),
}

/// A request that waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) case: Arc<Case>,
    pub(crate) deadline: Instant,
    pub(crate) verdict: oneshot::Sender<Verdict>,
}

/// Quotas as one look shows them.
struct Look {
    quotas: Vec<Quota>,
    /// Those that are known to be what the server has.
    certain: Vec<bool>,
}

/// A write whose answer was lost.
struct Unanswered {
    number: u64,
    /// It lands at this revision of its quota or never.
    resource_version: String,
    write: Write,
}

pub(crate) struct Batch<'a> {
    engine: &'a Engine,
    namespace: &'a str,
    cases: Vec<Arc<Case>>,
    /// Who still waits.
    open: Vec<Option<Waiting>>,
    /// Who was let through and keeps its charges.
    passed: Vec<bool>,
    booked: Booked,
    /// Writes that were sent and not answered: they have landed, will, or won't.
    unanswered: Vec<Unanswered>,
    /// What went wrong last, for those who get no verdict.
    trouble: String,
    /// The last attempt met a failure that trying again at once would meet again.
    failing: bool,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(engine: &'a Engine, namespace: &'a str, waiting: Vec<Waiting>) -> Self {
        Batch {
            engine,
            namespace,
            cases: waiting.iter().map(|waiting| waiting.case.clone()).collect(),
            passed: vec![false; waiting.len()],
            open: waiting.into_iter().map(Some).collect(),
            booked: Booked::default(),
            unanswered: Vec::new(),
            trouble: "the quota could not be written in time".to_owned(),
            failing: false,
        }
    }

    /// Answers everyone.
    pub(crate) async fn run(mut self) {
        let mut random = Random::new(None);
        let mut after_failures = Backoff::new(Duration::from_millis(10), Duration::from_millis(500));
        let mut after_conflicts = Backoff::new(Duration::from_millis(1), Duration::from_millis(100));
        let mut look = self.known();
        let mut giving_back_until: Option<Instant> = None;
        let mut attempts = 0_u32;
        loop {
            self.give_up();
            if self.is_over() {
                return;
            }
            // With nobody left to answer there is still something to give back.
            if self.open.iter().all(Option::is_none) {
                let until = *giving_back_until.get_or_insert_with(|| Instant::now() + GIVING_BACK);
                if Instant::now() >= until {
                    self.engine.left_charged(self.namespace, &self.trouble);
                    return;
                }
            }
            self.failing = look.is_none();
            if let Some(look) = look.take() {
                self.attempt(look).await;
                if self.is_over() {
                    return;
                }
            }
            attempts += 1;
            let pause = match attempts {
                _ if self.failing => after_failures.next(&mut random),
                // What is known is often old: whoever meets that goes on at once.
                1 => Duration::ZERO,
                _ => after_conflicts.next(&mut random),
            };
            if !pause.is_zero() {
                let ends = self.open.iter().flatten().map(|waiting| waiting.deadline).min();
                let pause = Instant::now() + pause;
                sleep_until(ends.map_or(pause, |ends| ends.min(pause))).await;
                self.give_up();
            }
            look = self.live().await;
        }
    }

    /// Whether everyone is answered and nobody is charged in vain.
    fn is_over(&self) -> bool {
        self.open.iter().all(Option::is_none)
            && self.booked.is_only_for(|case| self.passed[case])
            && self.unanswered.is_empty()
    }

    /// Whoever ran out of time is told so; whoever has hung up is forgotten.
    fn give_up(&mut self) {
        let now = Instant::now();
        for place in &mut self.open {
            if place
                .as_ref()
                .is_some_and(|waiting| waiting.deadline <= now || waiting.verdict.is_closed())
                && let Some(waiting) = place.take()
            {
                let _ = waiting.verdict.send(Verdict::Undecided(self.trouble.clone()));
            }
        }
    }

    /// When the last of those who wait has to be answered.
    fn ends(&self) -> Instant {
        let deadlines = self.open.iter().flatten().map(|waiting| waiting.deadline);
        deadlines.max().unwrap_or_else(|| Instant::now() + CALL_TIMEOUT)
    }

    /// What the cache has; `None` where a quota there can't be judged by.
    fn known(&self) -> Option<Look> {
        let known = self.engine.quotas.in_namespace(self.namespace);
        let mut look = Look {
            quotas: Vec::with_capacity(known.len()),
            certain: Vec::with_capacity(known.len()),
        };
        for (_, Known { quota, own_write, .. }) in known {
            look.quotas.push(Quota::clone(quota.ok()?.as_ref()));
            look.certain.push(own_write);
        }
        Some(look)
    }

    /// What the server has.
    async fn live(&mut self) -> Option<Look> {
        let resource = ApiResource::resource_quotas();
        let list = self.engine.cluster.list_all(&resource, Some(self.namespace), Quotas);
        let ends = self.ends().min(Instant::now() + CALL_TIMEOUT);
        let page = match timeout_at(ends, list).await {
            Ok(Ok(page)) => page,
            Ok(Err(error)) => {
                self.trouble = format!("the namespace's quotas could not be read: {error}");
                return None;
            }
            Err(_) => {
                self.trouble = "the namespace's quotas could not be read in time".to_owned();
                return None;
            }
        };
        self.engine
            .quotas
            .listed(self.namespace, &page.listed.revision, page.objects.clone());
        let mut quotas = Vec::with_capacity(page.objects.len());
        for (metadata, quota) in page.objects {
            match quota {
                Ok(quota) => quotas.push(quota),
                Err(error) => {
                    self.trouble = format!("quota {} can't be read: {error}", metadata.name);
                    return None;
                }
            }
        }
        self.booked.retain_quotas(&quotas);
        self.settle_unanswered(&quotas);
        Some(Look {
            certain: vec![true; quotas.len()],
            quotas,
        })
    }

    /// Whether it is open what this quota has been charged.
    fn is_in_doubt(&self, quota: &Quota) -> bool {
        self.unanswered
            .iter()
            .any(|unanswered| unanswered.write.uid == quota.uid)
    }

    /// Finds out from live quotas what became of writes that were not answered.
    fn settle_unanswered(&mut self, quotas: &[Quota]) {
        for Unanswered {
            number,
            resource_version,
            write,
        } in std::mem::take(&mut self.unanswered)
        {
            // With the quota is gone what was charged to it.
            let Some(quota) = quotas.iter().find(|quota| quota.uid == write.uid) else {
                continue;
            };
            let landed = LastCharges::read(quota.last_charges.as_deref()).of(&self.engine.charges_as);
            if landed == Some(number) {
                self.engine.metrics.compensated(self.booked.landed(&write));
            } else if quota.resource_version == resource_version {
                self.unanswered.push(Unanswered {
                    number,
                    resource_version,
                    write,
                });
            }
        }
    }

    /// Writes and answers as far as this look carries. Quotas are written one after the other, and whoever is charged by one that could
    /// not be written is left out of those after it: what is charged in vain can be given back, but whoever counts can't tell that from
    /// an object that is still to come.
    async fn attempt(&mut self, mut look: Look) {
        let mut stuck = vec![false; self.cases.len()];
        // The quotas before this one have had their write.
        let mut next = 0;
        let Plan { allowed, refused, .. } = 'planned: loop {
            let plan = self.plan(&look, &stuck);
            let is_charged = |case: CaseId, raise: &Raise| {
                let quota = &look.quotas[raise.quota];
                raise.quota >= next || !self.is_in_doubt(quota) && self.booked.holds(&quota.uid, case, &raise.by)
            };
            let left_out = plan.allowed.iter().filter(|(case, raises)| {
                let mut raises = raises.iter();
                !raises.all(|raise| is_charged(*case, raise))
            });
            let left_out: Vec<CaseId> = left_out.map(|(case, _)| *case).collect();
            if !left_out.is_empty() {
                for case in left_out {
                    stuck[case] = true;
                }
                continue;
            }
            let done = next;
            for write in plan.writes.iter().filter(|write| write.quota >= done) {
                next = write.quota + 1;
                if !self.write(write, &look.quotas[write.quota]).await {
                    continue 'planned;
                }
                let used = look.quotas[write.quota].status.used.get_or_insert_default();
                for (name, value) in &write.used {
                    used.insert(name.clone(), value.clone());
                }
                // A write that landed at its revision proves what it was worked out from.
                look.certain[write.quota] = true;
            }
            break plan;
        };
        for (case, raises) in allowed {
            let charged = raises
                .into_iter()
                .map(|raise| (look.quotas[raise.quota].key.clone(), raise.by))
                .collect();
            self.answer(case, Verdict::Allowed(charged));
        }
        for (case, refusal) in refused {
            let proof = refusal.quota().map(|name| {
                let quotas = look.quotas.iter().zip(&look.certain);
                quotas
                    .into_iter()
                    .any(|(quota, certain)| *certain && &*quota.key.name == name)
            });
            if proof.unwrap_or_else(|| look.certain.iter().all(|certain| *certain)) {
                self.answer(case, Verdict::Refused(refusal));
            }
        }
    }

    /// Plans for those who are open and not stuck. Who is stuck keeps what it is charged, until the next attempt.
    fn plan(&self, look: &Look, stuck: &[bool]) -> Plan {
        let inventory = self.engine.inventory.read();
        let around = Surroundings {
            inventory: &inventory,
            now: self.engine.now(),
            limited: &self.engine.limited,
        };
        let open = self.open.iter().zip(stuck).enumerate();
        let open = open.filter(|(_, (place, stuck))| place.is_some() && !**stuck);
        plan(
            &look.quotas,
            &self.booked,
            |case| self.passed[case] || stuck[case],
            |quota| self.is_in_doubt(quota),
            open.map(|(case, _)| case),
            |case, quotas| self.cases[case].judge(quotas, &around),
        )
    }

    /// Writes, and takes note of what became of it; whether it has landed.
    async fn write(&mut self, write: &Write, quota: &Quota) -> bool {
        if !write.used.is_empty() || self.is_in_doubt(quota) {
            let number = self.engine.charges_as.next();
            let note = LastCharges::read(quota.last_charges.as_deref()).with(&self.engine.charges_as, number);
            let request = StatusWrite {
                quota: quota.key.clone(),
                resource_version: quota.resource_version.clone(),
                hard: ResourceList::new(),
                used: write.used.clone(),
                gone_from_hard: Vec::new(),
                gone_from_used: Vec::new(),
                last_charges: Some(note.to_string()),
            };
            let timeout = self.ends().saturating_duration_since(Instant::now()).min(CALL_TIMEOUT);
            match self.engine.writer.write(&request, timeout).await {
                WriteOutcome::Landed { quota: Ok(quota), .. } => self.engine.quotas.landed(*quota),
                // The watch will show a quota whose answer can't be read.
                WriteOutcome::Landed { .. } => {}
                WriteOutcome::Conflict | WriteOutcome::Gone => {
                    self.engine.metrics.conflict();
                    return false;
                }
                WriteOutcome::Rejected { message, .. } => {
                    return self.fails(format!("the server does not take status.used: {message}"));
                }
                WriteOutcome::TooMany { .. } => return self.fails("the server wants fewer requests".to_owned()),
                WriteOutcome::Refused(error) => return self.fails(error.to_string()),
                WriteOutcome::Unknown(error) => {
                    self.unanswered.push(Unanswered {
                        number,
                        resource_version: request.resource_version,
                        write: write.clone(),
                    });
                    return self.fails(error.to_string());
                }
            }
            // At one revision only one lands.
            self.unanswered.retain(|unanswered| unanswered.write.uid != write.uid);
        }
        self.engine.metrics.compensated(self.booked.landed(write));
        true
    }

    fn fails(&mut self, trouble: String) -> bool {
        self.trouble = trouble;
        self.failing = true;
        false
    }

    fn answer(&mut self, case: CaseId, verdict: Verdict) {
        if let Some(waiting) = self.open[case].take() {
            let allows = matches!(verdict, Verdict::Allowed(_));
            // Who has hung up meanwhile is not let through, and gives back what it was charged.
            self.passed[case] = waiting.verdict.send(verdict).is_ok() && allows;
        }
    }
}
