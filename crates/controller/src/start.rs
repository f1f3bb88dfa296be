//! Putting the controller together (upstream's `startResourceQuotaController`).

use std::time::Duration;

use kubequota_cluster::{ApiResource, Cluster, Monitor, MonitorHandle, Sink, Versions};
use kubequota_core::{FieldError, Metadata, Quota};
use kubequota_shell::Shell;
use kubequota_wire::json::Quotas;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::options::Options;
use crate::quotas::QuotaSink;
use crate::state::{Shared, State};
use crate::{expiry, kinds, resync, sync};

/// Gauges are brought up to date, and the heart beats, this often.
const BEAT: Duration = Duration::from_secs(5);

/// Without a beat for this long the process should be restarted.
const STALE: Duration = Duration::from_secs(60);

/// Runs the controller until it is told to drain. Workers finish what is in their hands; the caller waits for that with
/// [`Drain::wait`](kubequota_shell::drain::Drain::wait). Returns whether it ended because it was told to, and not by a failure (which starts
/// the drain).
pub async fn run(options: Options, cluster: Cluster, shell: Shell) -> bool {
    work(options, cluster, shell, |monitor, quotas| monitor.spawn(quotas))
        .await
        .0
}

/// As [`run`], and what the watch of quotas shows is told to `follower` too, before the controller takes it in: so the parts of one
/// process need one watch. It goes on until the handle that is returned is dropped.
pub async fn run_and_feed<F>(options: Options, cluster: Cluster, shell: Shell, follower: F) -> (bool, MonitorHandle)
where
    F: Sink<(Metadata, Result<Quota, FieldError>)> + 'static,
{
    work(options, cluster, shell, |monitor, quotas| {
        monitor.spawn((follower, quotas))
    })
    .await
}

/// Runs it, with the watch of quotas as `watch` spawns it.
async fn work(
    options: Options,
    cluster: Cluster,
    shell: Shell,
    watch: impl FnOnce(Monitor<Quotas>, QuotaSink) -> MonitorHandle,
) -> (bool, MonitorHandle) {
    let Shell {
        metrics,
        readiness,
        liveness,
        drain,
    } = shell;
    let heartbeat = liveness.heartbeat("controller", STALE);
    let _working = drain.guard("controller");
    let state = State::new(options, cluster, metrics, readiness, drain);
    tracing::info!(
        workers = state.options.concurrent_syncs,
        dry_run = state.options.dry_run,
        "starting the quota controller"
    );

    let quotas = Versions::from(ApiResource::resource_quotas());
    let quotas = watch(state.monitor(&quotas, Quotas), QuotaSink::new(state.clone()));

    let mut tasks = JoinSet::new();
    tasks.spawn(kinds::run(state.clone()));
    tasks.spawn(resync::run(state.clone()));
    tasks.spawn(expiry::run(state.clone()));
    let mut workers = JoinSet::new();
    for _ in 0..state.options.concurrent_syncs {
        for queue in [&state.primary, &state.missing_usage] {
            workers.spawn(sync::work(state.clone(), queue.clone()));
        }
    }
    let beats = async {
        let mut beats = interval(BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beats.tick().await;
            // This takes the lock on the accounts, so a beat means that they can be used.
            state.export();
            heartbeat.beat(Instant::now());
        }
    };
    let told = tokio::select! {
        () = state.drain.signal() => true,
        () = beats => false,
        Some(ended) = tasks.join_next() => report(&state, ended),
        Some(ended) = workers.join_next() => report(&state, ended),
    };
    tracing::info!("shutting the quota controller down");
    // Nothing new comes in; what is queued is left to the next start, what is being written is finished.
    tasks.abort_all();
    state.primary.close();
    state.missing_usage.close();
    while workers.join_next().await.is_some() {}
    (told, quotas)
}

/// A task that should go on for ever has ended: the program ends in an orderly way, to be started again.
fn report(state: &Shared, ended: Result<(), tokio::task::JoinError>) -> bool {
    match ended {
        Ok(()) => tracing::error!("a task of the controller has ended: shutting down"),
        Err(error) => tracing::error!(
            "a task of the controller has failed, this is a bug, please report it: {error}; shutting down"
        ),
    }
    state.drain.start();
    false
}
