//! Scripted faults: rules that match requests and say what goes wrong with them.

use std::time::Duration;

use crate::kinds::GroupResource;
use crate::random::Random;
use crate::request::RequestInfo;
use crate::status::Status;
use crate::watch::WatchFault;

/// What goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Answers 403 in the words of an authorizer.
    Forbidden,
    /// Answers 404.
    NotFound,
    /// Answers 409, reason Conflict.
    Conflict,
    /// Answers 410, reason Expired.
    Expired,
    /// Answers 429 and asks to come back after so many seconds.
    TooManyRequests(u64),
    /// Answers 500.
    InternalError,
    /// Answers 503.
    Unavailable,
    /// Answers this.
    Answer(Status),
    /// Waits before the request is handled.
    Delay(Duration),
    /// Handles the request at once and keeps the answer back for a while.
    DelayAnswer(Duration),
    /// Handles the request, then the connection breaks before the answer.
    LoseAnswer,
    /// The connection breaks before the request is handled.
    Refuse,
    /// Never answers; the request isn't handled.
    Hang,
    /// Accepts a watch and never sends anything.
    SilentWatch,
    /// Each event of a watch arrives so much later than the write.
    LagWatch(Duration),
}

/// How often a rule strikes, counted over the requests that match it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Frequency {
    Always,
    First(u64),
    After(u64),
    Every(u64),
    Chance(f64),
}

/// A rule: which requests, how often, and what happens to them. What isn't set matches everything.
///
/// ```
/// use kubequota_testserver::{Action, Fault};
/// let rule = Fault::new(Action::Conflict).verb("patch").resource("resourcequotas").subresource("status").first(2);
/// ```
#[derive(Clone, Debug)]
pub struct Fault {
    action: Action,
    frequency: Frequency,
    verb: Option<String>,
    resource: Option<GroupResource>,
    version: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    subresource: Option<String>,
    user_agent: Option<String>,
    path: Option<String>,
    seen: u64,
    struck: u64,
}

impl Fault {
    /// A rule that strikes at every request.
    pub fn new(action: Action) -> Self {
        Self {
            action,
            frequency: Frequency::Always,
            verb: None,
            resource: None,
            version: None,
            namespace: None,
            name: None,
            subresource: None,
            user_agent: None,
            path: None,
            seen: 0,
            struck: 0,
        }
    }

    /// Only this verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub fn verb(mut self, verb: &str) -> Self {
        self.verb = Some(verb.to_owned());
        self
    }

    /// Only this resource: `pods`, `deployments.apps`.
    pub fn resource(mut self, resource: &str) -> Self {
        self.resource = Some(GroupResource::parse(resource));
        self
    }

    /// Only when asked for in this version.
    pub fn version(mut self, version: &str) -> Self {
        self.version = Some(version.to_owned());
        self
    }

    /// Only in this namespace; empty for requests across namespaces.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only for the object of this name.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Only for this subresource; empty for the object itself.
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    /// Only for clients whose `User-Agent` contains this.
    pub fn user_agent(mut self, part: &str) -> Self {
        self.user_agent = Some(part.to_owned());
        self
    }

    /// Only for paths that begin so, `/apis` for instance.
    pub fn path(mut self, prefix: &str) -> Self {
        self.path = Some(prefix.to_owned());
        self
    }

    /// Only the first so many matching requests.
    pub fn first(mut self, count: u64) -> Self {
        self.frequency = Frequency::First(count);
        self
    }

    /// Only the first matching request.
    pub fn once(self) -> Self {
        self.first(1)
    }

    /// Spares the first so many matching requests.
    pub fn after(mut self, count: u64) -> Self {
        self.frequency = Frequency::After(count);
        self
    }

    /// Only every so-manieth matching request; 0 means none.
    pub fn every(mut self, count: u64) -> Self {
        self.frequency = Frequency::Every(count);
        self
    }

    /// Only with this probability, drawn from the server's seed.
    pub fn chance(mut self, probability: f64) -> Self {
        self.frequency = Frequency::Chance(probability);
        self
    }

    fn matches(&self, request: &RequestInfo) -> bool {
        let fits = |wanted: &Option<String>, actual: &str| wanted.as_ref().is_none_or(|wanted| wanted == actual);
        fits(&self.verb, &request.verb)
            && fits(&self.version, &request.version)
            && fits(&self.namespace, &request.namespace)
            && fits(&self.name, &request.name)
            && fits(&self.subresource, &request.subresource)
            && self
                .resource
                .as_ref()
                .is_none_or(|r| r.group == request.group && r.plural == request.resource)
            && self
                .user_agent
                .as_ref()
                .is_none_or(|part| request.user_agent.contains(part))
            && self.path.as_ref().is_none_or(|prefix| request.path.starts_with(prefix))
    }

    fn strikes(&mut self, random: &mut Random) -> bool {
        self.seen += 1;
        let strikes = match self.frequency {
            Frequency::Always => true,
            Frequency::First(count) => self.seen <= count,
            Frequency::After(count) => self.seen > count,
            Frequency::Every(count) => self.seen.checked_rem(count) == Some(0),
            Frequency::Chance(probability) => random.chance(probability),
        };
        self.struck += u64::from(strikes);
        strikes
    }
}

/// A rule that the server follows; with it the rule can be lifted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FaultId(u64);

/// What all rules together make of one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) delay: Duration,
    pub(crate) refuse: bool,
    pub(crate) hang: bool,
    pub(crate) answer: Option<Status>,
    pub(crate) delay_answer: Duration,
    pub(crate) lose_answer: bool,
    pub(crate) watch: WatchFault,
}

/// The rules in force.
#[derive(Debug)]
pub(crate) struct Faults {
    rules: Vec<(FaultId, Fault)>,
    next: u64,
    random: Random,
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            rules: Vec::new(),
            next: 0,
            random: Random::new(seed),
        }
    }

    pub(crate) fn add(&mut self, fault: Fault) -> FaultId {
        self.next += 1;
        self.rules.push((FaultId(self.next), fault));
        FaultId(self.next)
    }

    pub(crate) fn remove(&mut self, id: FaultId) {
        self.rules.retain(|(known, _)| *known != id);
    }

    pub(crate) fn clear(&mut self) {
        self.rules.clear();
    }

    pub(crate) fn struck(&self, id: FaultId) -> u64 {
        self.rules
            .iter()
            .find(|(known, _)| *known == id)
            .map_or(0, |(_, fault)| fault.struck)
    }

    /// Asks all rules about a request. Delays add up; of several answers the first rule's counts.
    pub(crate) fn plan(&mut self, request: &RequestInfo, user: &str) -> Plan {
        let mut plan = Plan::default();
        for (_, fault) in &mut self.rules {
            if !fault.matches(request) || !fault.strikes(&mut self.random) {
                continue;
            }
            let resource = GroupResource::new(&request.group, &request.resource);
            let answer = match &fault.action {
                Action::Forbidden => Status::forbidden(request, user),
                Action::NotFound if request.name.is_empty() => Status::no_such_resource(),
                Action::NotFound => Status::not_found(&resource, &request.name),
                Action::Conflict => Status::conflict(&resource, &request.name),
                Action::Expired => Status::expired("The resourceVersion for the provided list is too old."),
                Action::TooManyRequests(seconds) => Status::too_many_requests(*seconds),
                Action::InternalError => Status::internal("scripted fault"),
                Action::Unavailable => Status::unavailable(),
                Action::Answer(status) => status.clone(),
                other => {
                    match other {
                        Action::Delay(duration) => plan.delay += *duration,
                        Action::DelayAnswer(duration) => plan.delay_answer += *duration,
                        Action::LoseAnswer => plan.lose_answer = true,
                        Action::Refuse => plan.refuse = true,
                        Action::Hang => plan.hang = true,
                        Action::SilentWatch => plan.watch.silent = true,
                        Action::LagWatch(duration) => plan.watch.lag += *duration,
                        _ => {}
                    }
                    continue;
                }
            };
            plan.answer.get_or_insert(answer);
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(verb: &str, resource: &str) -> RequestInfo {
        RequestInfo {
            verb: verb.into(),
            resource: resource.into(),
            ..RequestInfo::default()
        }
    }

    fn strikes(fault: Fault, requests: usize) -> Vec<bool> {
        let mut faults = Faults::new(1);
        faults.add(fault);
        (0..requests)
            .map(|_| faults.plan(&request("list", "pods"), "u").answer.is_some())
            .collect()
    }

    #[test]
    fn rules_strike_as_often_as_they_say() {
        let fault = || Fault::new(Action::Unavailable);
        assert_eq!(strikes(fault(), 3), [true, true, true]);
        assert_eq!(strikes(fault().first(2), 3), [true, true, false]);
        assert_eq!(strikes(fault().after(2), 3), [false, false, true]);
        assert_eq!(strikes(fault().every(2), 4), [false, true, false, true]);
        assert_eq!(strikes(fault().every(0), 2), [false, false]);
        let drawn = strikes(fault().chance(0.5), 100);
        assert_eq!(
            drawn,
            strikes(fault().chance(0.5), 100),
            "the same seed, the same faults"
        );
        assert!((30..70).contains(&drawn.iter().filter(|&&struck| struck).count()));
    }

    #[test]
    fn only_matching_requests_count() {
        let mut faults = Faults::new(1);
        let id = faults.add(Fault::new(Action::Conflict).verb("list").resource("pods").once());
        assert!(faults.plan(&request("watch", "pods"), "u").answer.is_none());
        assert!(faults.plan(&request("list", "services"), "u").answer.is_none());
        assert_eq!(
            faults
                .plan(&request("list", "pods"), "u")
                .answer
                .map(|status| status.code),
            Some(409)
        );
        assert!(faults.plan(&request("list", "pods"), "u").answer.is_none());
        assert_eq!(faults.struck(id), 1);
        faults.remove(id);
        assert_eq!(faults.struck(id), 0);
    }

    #[test]
    fn rules_add_up() {
        let mut faults = Faults::new(1);
        let second = Duration::from_secs(1);
        for action in [
            Action::Delay(second),
            Action::Delay(second),
            Action::LoseAnswer,
            Action::NotFound,
            Action::Forbidden,
        ] {
            faults.add(Fault::new(action));
        }
        let plan = faults.plan(&request("list", "pods"), "u");
        assert_eq!((plan.delay, plan.lose_answer), (second * 2, true));
        assert_eq!(plan.answer.map(|status| status.code), Some(404));
    }
}
