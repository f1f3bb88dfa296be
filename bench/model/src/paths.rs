//! What histories went through: a model that never gets somewhere proves nothing about it.

macro_rules! paths {
    ($($path:ident: $text:literal,)*) => {
        /// Something that a history can go through.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Path { $($path,)* }

        /// All of them, in the order they are printed in.
        pub(crate) const PATHS: &[(Path, &str)] = &[$((Path::$path, $text),)*];
    };
}

paths! {
    StoredLate: "admitted, stored more than a second later",
    NeverStored: "admitted, never stored",
    PartlyCharged: "charged to one quota, given up at the next",
    ShortLived: "deleted before the watch showed it stored",
    NeverShown: "stored and deleted while its watch was broken",
    GrownByStatus: "grown by its status, which nobody raised",
    GrownByOwner: "a claim grown because its pod went or ended",
    GrownByClass: "claims grown by a device class",
    ShrunkInPlace: "shrunk in place",
    GraceRanOut: "a pod whose deletion grace ran out",
    GrowthBeforeRaise: "growth shown before its raise",
    HardEdited: "edit of hard",
    UsedRaised: "used raised by hand",
    UsedLowered: "used lowered by hand",
    UsedWiped: "status taken out by hand",
    QuotaRecreated: "a quota made anew under its name",
    FedByAnotherKind: "a name fed by another set of kinds than before",
    FedByTwoKinds: "write of a name that two kinds feed",
    ClassesFailed: "device classes that can't be listed",
    Frozen: "a kind frozen in a namespace by what can't be read",
    Thawed: "thawed",
    KindDropped: "a kind dropped, since no quota names it",
    KindTakenUp: "a dropped kind taken up again",
    ObjectsRelisted: "objects listed again after a 410",
    QuotasRelisted: "quotas listed again after a 410",
    Stalled: "an event held up by a stalled watch",
    ListFailed: "a list of all namespaces that failed",
    ListHalfTaken: "a list that failed after its first page was taken in",
    EvidenceTaken: "a list of one namespace taken in",
    EvidenceOld: "a list of one namespace older than its watch",
    EvidenceMidList: "a list of one namespace between pages of a list of all",
    EvidenceFailed: "a list of one namespace that failed",
    Conflict: "a write that came too late",
    AnswerLost: "a write that landed, its answer lost",
    WriteLost: "a write that never arrived",
    LandedAfterGivenUp: "a write that landed after its answer was given up",
    SightingHeld: "a quota seen while an own write was under way that raises it",
    Restarted: "restart with charges in flight",
    TakenOver: "a standby taking over with charges in flight",
    TwoLead: "a write that landed while two led",
    LeadsNoMore: "a write that landed after its sender's lead",
    OverCountJudged: "write judged for over-counting",
    BusyJudged: "used judged for over-counting in a busy namespace",
}

/// How often histories went through each.
#[derive(Clone, Debug)]
pub(crate) struct Counts(Vec<u64>);

impl Default for Counts {
    fn default() -> Self {
        Counts(vec![0; PATHS.len()])
    }
}

impl Counts {
    pub(crate) fn note(&mut self, path: Path) {
        self.0[path as usize] += 1;
    }

    pub(crate) fn of(&self, path: Path) -> u64 {
        self.0[path as usize]
    }

    pub(crate) fn add(&mut self, other: &Counts) {
        for (sum, count) in self.0.iter_mut().zip(&other.0) {
            *sum += count;
        }
    }
}
