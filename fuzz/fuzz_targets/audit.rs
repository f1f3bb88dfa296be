//! Files, as `kubequota audit` takes them: YAML or JSON, objects of any kind, and the findings about them.
#![no_main]

use jiff::Timestamp;
use kubequota_report::{Audit, Drift, Files};
use kubequota_wire::files;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let audit = audit(bytes);
    let text = serde_json::to_string(&audit).expect("an audit can be written");
    assert_eq!(
        serde_json::to_string(&self::audit(bytes)).expect("an audit can be written"),
        text
    );
    for quota in &audit.quotas {
        assert!(quota.resources.is_sorted_by(|a, b| a.name < b.name));
    }
    for resource in audit.resources() {
        // What is recorded, less what is computed, is the drift.
        if let (Some(recorded), Some(computed), Some(drift)) = (&resource.recorded, &resource.computed, &resource.drift)
        {
            assert_eq!(&(computed + drift), recorded);
            assert_eq!(resource.has_drifted(), recorded != computed);
        }
        // It is told wherever there is something computed, unless a problem tells that what is recorded can't be read.
        let is_told = resource.computed.is_some() && resource.state() != Drift::NotComputed;
        assert!(is_told || resource.computed.is_none() || !audit.errors.is_empty());
    }
    for problem in &audit.errors {
        assert!(!problem.to_string().is_empty());
    }
});

fn audit(bytes: &[u8]) -> Audit {
    let now = Timestamp::from_second(1_767_225_600).expect("2026 can be told");
    let mut objects = Files::new(now, Vec::new());
    files::objects("input", bytes, &mut |found| objects.add(found));
    objects.finish()
}
