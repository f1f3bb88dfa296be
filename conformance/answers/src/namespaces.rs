//! What quotas use in a namespace, counted anew and kept up through a history.

use jiff::Timestamp;
use kubequota_core::inventory::Inventory;
use kubequota_core::usage::recount;
use kubequota_core::{ObjectId, Quantity, Quota, ResourceList};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Mistake;
use crate::lists::{Texts, texts};
use crate::objects::{kind, observe_class, quota, read, time};

/// Quotas, and what happened in their namespace.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Question {
    /// The kinds that are only counted.
    #[serde(default)]
    kinds: Vec<String>,
    /// The quotas as they are at the end.
    #[serde(default)]
    quotas: Vec<Box<RawValue>>,
    #[serde(default)]
    history: Vec<Event>,
    /// The time at the end.
    #[serde(deserialize_with = "time")]
    now: Timestamp,
}

#[derive(Deserialize)]
struct Event {
    #[serde(deserialize_with = "time")]
    at: Timestamp,
    what: What,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
enum What {
    /// An object of a kind is there, as this says.
    Set {
        kind: String,
        object: Box<RawValue>,
    },
    /// An object of a kind is gone.
    Delete {
        kind: String,
        object: Box<RawValue>,
    },
    DeviceClass(Box<RawValue>),
    DeleteDeviceClass(String),
    /// A quota appears, or its scopes become these: the number of it, and the quota as it is then.
    Quota(usize, Box<RawValue>),
}

/// For each quota what it uses.
#[derive(Serialize)]
pub(crate) struct Answer {
    /// Summed over all objects.
    recount: Vec<Texts>,
    /// Kept up from event to event.
    ledger: Vec<Texts>,
}

/// Sums as decimals: which format a sum has depends on the object that came first, which upstream takes in no order.
fn decimals(list: &ResourceList) -> Texts {
    let one = Quantity::from_units(1);
    let decimal = |quantity: &Quantity| &one + quantity - &one;
    let list: ResourceList = list.iter().map(|(name, sum)| (name.clone(), decimal(sum))).collect();
    texts(&list)
}

struct Namespace {
    inventory: Inventory,
    quotas: Vec<Option<Quota>>,
}

impl Namespace {
    /// Tells the ledger what a quota counts now.
    fn settle(&mut self, index: usize) {
        if let Some(quota) = &self.quotas[index] {
            let feed = self.inventory.feed(quota.spec.hard.names(), |_| true);
            self.inventory
                .ledger_mut()
                .set_quota(&quota.key, feed, quota.spec.selector.clone());
        }
    }

    fn settle_all(&mut self) {
        for index in 0..self.quotas.len() {
            self.settle(index);
        }
    }

    fn happen(&mut self, event: &Event) -> Result<(), Mistake> {
        match &event.what {
            What::Set { kind: name, object } => {
                let kind = kind(&mut self.inventory, name)?;
                let object = read(self.inventory.registry().evaluator(kind).as_ref(), object)?;
                self.inventory.observe(kind, &object, event.at);
            }
            What::Delete { kind: name, object } => {
                let kind = kind(&mut self.inventory, name)?;
                let metadata = read(self.inventory.registry().evaluator(kind).as_ref(), object)?.metadata;
                let id = ObjectId::of(&metadata);
                self.inventory.remove(kind, &metadata.namespace, id, event.at);
            }
            What::DeviceClass(class) => {
                observe_class(&mut self.inventory, class, event.at)?;
                self.settle_all();
            }
            What::DeleteDeviceClass(name) => {
                self.inventory.remove_device_class(name, event.at);
                self.settle_all();
            }
            What::Quota(index, text) => {
                let slot = self.quotas.get_mut(*index);
                *slot.ok_or_else(|| Mistake::part("quota")(index))? = Some(quota(text)?);
                self.settle(*index);
            }
        }
        Ok(())
    }

    fn recount(&self, quota: &Quota) -> ResourceList {
        let feed = self.inventory.feed(quota.spec.hard.names(), |_| true);
        let (registry, ledger) = (self.inventory.registry(), self.inventory.ledger());
        let namespace = &*quota.key.namespace;
        let charges = registry.iter().flat_map(|(kind, _)| {
            let ids = ledger.ids(namespace, kind);
            ids.filter_map(move |id| Some((kind, ledger.charge(namespace, kind, id)?)))
        });
        recount(&feed, &quota.spec.selector, charges)
    }
}

impl Question {
    pub(crate) fn answer(&self) -> Result<Answer, Mistake> {
        let mut namespace = Namespace {
            inventory: Inventory::new(),
            quotas: self.quotas.iter().map(|_| None).collect(),
        };
        for name in &self.kinds {
            kind(&mut namespace.inventory, name)?;
        }
        let mut last = Timestamp::MIN;
        for event in &self.history {
            if event.at < last {
                return Err(Mistake::part("history")(&"goes back in time"));
            }
            last = event.at;
            // Time passes before something else happens.
            namespace.inventory.expire(event.at);
            namespace.happen(event)?;
        }
        namespace.inventory.expire(self.now);
        let mut answer = Answer {
            recount: Vec::new(),
            ledger: Vec::new(),
        };
        for (index, text) in self.quotas.iter().enumerate() {
            let quota = quota(text)?;
            if namespace.quotas[..index]
                .iter()
                .flatten()
                .any(|other| other.key == quota.key)
            {
                return Err(Mistake::part("quotas")(&format!("{} is there twice", quota.key)));
            }
            let told = namespace.quotas[index].as_ref();
            if told.is_none_or(|told| (&told.key, &told.spec) != (&quota.key, &quota.spec)) {
                return Err(Mistake::part("history")(&format!(
                    "quota {index} is not told as it is at the end"
                )));
            }
            answer.recount.push(decimals(&namespace.recount(&quota)));
            let used = namespace.inventory.ledger().used(&quota.key);
            answer.ledger.push(decimals(used.unwrap_or(&ResourceList::new())));
        }
        Ok(answer)
    }
}
