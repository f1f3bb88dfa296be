//! `kubequota controller`: keeps `status.used` of every ResourceQuota right.

use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgAction, ValueEnum};
use kubequota_controller::Options;

use crate::process::{self, EXIT_CODES, Ended, ProcessArgs, duration};

const EXAMPLES: &str = "\
Examples:
  # Look only: export and log what would be written, beside the cluster's own quota controller
  kubequota controller --kubeconfig ~/.kube/config --dry-run

  # In place of kube-controller-manager's (--controllers=*,-resourcequota-controller), in a pod
  kubequota controller --logging-format=json

  # The same beside kubequota's webhook, with kube-apiserver's ResourceQuota plugin off
  kubequota controller --logging-format=json --enforced-by=webhook";

/// Keep status.used of every ResourceQuota right
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Args {
    /// Compute and export, write nothing
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    controller: ControllerArgs,

    /// Who refuses what would exceed a quota
    #[arg(long, value_name = "WHO", value_enum, default_value_t = Enforcer::Plugin)]
    enforced_by: Enforcer,

    /// An admitted create is stored within this time of its charge, or never [default: 10s, with the webhook 35s]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = duration)]
    admission_grace: Option<Duration>,

    #[command(flatten)]
    process: ProcessArgs,
}

/// Who refuses what would exceed a quota.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Enforcer {
    /// kube-apiserver's ResourceQuota plugin
    Plugin,
    /// kubequota's webhook: new limits come into force once it is asked for them. With a webhook that does not keep its configuration itself
    /// (--manage-webhook=false) nobody says so: use plugin, and --admission-grace=35s
    Webhook,
}

impl Enforcer {
    /// How long after its charge a create may be stored: another webhook may hold it up for 30 s, beside kubequota's.
    pub(crate) fn usual_grace(self) -> Duration {
        match self {
            Enforcer::Plugin => Duration::from_secs(10),
            Enforcer::Webhook => Duration::from_secs(35),
        }
    }

    /// How long new limits wait for the webhook's word.
    pub(crate) fn patience(self) -> Option<Duration> {
        match self {
            Enforcer::Plugin => None,
            Enforcer::Webhook => Some(Duration::from_secs(10)),
        }
    }
}

/// What a controller is told, whatever it runs beside.
#[derive(Debug, clap::Args)]
pub(crate) struct ControllerArgs {
    /// Quotas that are synced at the same time
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u16).range(1..))]
    concurrent_resource_quota_syncs: u16,

    /// How often everything is recounted; 0 turns that off
    #[arg(long, value_name = "DURATION", default_value = "5m", allow_hyphen_values = true, value_parser = duration)]
    resource_quota_sync_period: Duration,

    /// Not there yet: run one replica, and leave this out or false
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", action = ArgAction::Set, value_parser = no_leader_election)]
    leader_elect: bool,
}

impl ControllerArgs {
    pub(crate) fn options(&self, enforced_by: Enforcer, admission_grace: Option<Duration>) -> Options {
        Options {
            concurrent_syncs: self.concurrent_resource_quota_syncs.into(),
            sync_period: self.resource_quota_sync_period,
            admission_grace: admission_grace.unwrap_or(enforced_by.usual_grace()),
            enforcement_patience: enforced_by.patience(),
            ..Options::default()
        }
    }
}

fn no_leader_election(text: &str) -> Result<bool, String> {
    match text {
        "false" => Ok(false),
        "true" => Err("leader election does not exist yet: run one replica, and leave --leader-elect out".to_owned()),
        _ => Err("true or false".to_owned()),
    }
}

/// Runs it, until a signal or a failure ends it.
pub(crate) fn run(args: &Args) -> ExitCode {
    let options = Options {
        dry_run: args.dry_run,
        ..args.controller.options(args.enforced_by, args.admission_grace)
    };
    process::run(&args.process, |process| {
        let parts = process.clone();
        process.work(async { Ended::by(kubequota_controller::run(options, parts.cluster, parts.shell).await) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leader_election_is_refused() {
        assert_eq!(no_leader_election("false"), Ok(false));
        assert!(no_leader_election("true").is_err());
        assert!(no_leader_election("maybe").is_err());
    }
}
