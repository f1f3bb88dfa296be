//! The workers: for each quota that is handed out, its plan is carried out.

use std::time::Duration;

use kubequota_cluster::writer::{StatusWriter, WriteOutcome};
use kubequota_core::QuotaKey;
use kubequota_core::accounts::{Plan, StatusWrite};
use kubequota_core::registry::KindId;
use kubequota_shell::metrics::SyncResult;
use tokio::time::Instant;

use crate::queue::Queue;
use crate::state::Shared;

/// A difference that lasts this long is told in a dry run: longer than a charge may be pending.
const LASTING: Duration = Duration::from_secs(20);

/// Nobody grants a permission within less.
const FORBIDDEN_PAUSE: Duration = Duration::from_secs(5);

/// Works a queue off until it is closed.
pub(crate) async fn work(state: Shared, queue: Queue) {
    let writer = StatusWriter::new(state.cluster.without_rate());
    while let Some(item) = queue.get().await {
        let _busy = state.drain.guard(format!("sync of quota {}", item.key));
        let result = sync(&state, &writer, &item.key).await;
        state.metrics.kubequota.synced(result);
    }
}

async fn sync(state: &Shared, writer: &StatusWriter, key: &QuotaKey) -> SyncResult {
    let dry = state.dry_run.is_some();
    if !dry && state.update(|accounts, now, _| accounts.plan(key, now).write.is_some()) {
        // What is to be written is worked out once it can be sent: what happened meanwhile is in it.
        state.cluster.turn().await;
    }
    let planned = state.update(|accounts, now, _| {
        let plan = accounts.plan(key, now);
        for kind in &plan.lists {
            accounts.namespace_list_sent(*kind, &key.namespace, now);
        }
        if let (Some(write), false) = (&plan.write, dry) {
            accounts.write_sent(write.clone(), now);
        }
        accounts.quota(key).cloned().map(|quota| (quota, plan))
    });
    let Some((quota, Plan { write, lists, again_at })) = planned else {
        return SyncResult::Gone;
    };
    if let Some(at) = again_at {
        state.primary.add_at(key.clone(), state.instant(at));
    }
    let deferred = again_at.is_some() || !lists.is_empty();
    for kind in lists {
        tokio::spawn(list(state.clone(), kind, key.clone()));
    }
    if let Some(dry_run) = &state.dry_run {
        dry_run.export(&quota, write.as_ref());
        let about = format!("dry run, quota {key}");
        match (&write, dry_run.differs_since(key, write.is_some())) {
            // Whoever keeps the quotas needs a moment too: what differs for long is worth a line.
            (Some(write), Some(since)) if since.elapsed() >= LASTING => {
                state.trouble_such_as(&about, "the status should be another", &would_write(write));
            }
            (_, Some(since)) => state.primary.add_at(key.clone(), since + LASTING),
            _ => state.trouble_over(&about),
        }
        return if write.is_some() || deferred {
            SyncResult::Deferred
        } else {
            SyncResult::Unchanged
        };
    }
    match write {
        Some(write) => carry_out(state, writer, &write).await,
        None if deferred => SyncResult::Deferred,
        None => {
            state.settled(key);
            SyncResult::Unchanged
        }
    }
}

fn would_write(write: &StatusWrite) -> String {
    format!("would write hard {} and used {}", write.hard, write.used)
}

async fn carry_out(state: &Shared, writer: &StatusWriter, write: &StatusWrite) -> SyncResult {
    let key = &write.quota;
    let about = format!("status of quota {key}");
    let outcome = writer.write(write, state.options.write_timeout).await;
    let (synced, trouble) = match &outcome {
        WriteOutcome::Landed { .. } => (SyncResult::Written, None),
        WriteOutcome::Conflict => (SyncResult::Conflict, None),
        WriteOutcome::Gone => (SyncResult::Gone, None),
        WriteOutcome::Rejected { message, .. } => (
            SyncResult::Error,
            Some(format!("the server does not take it: {message}")),
        ),
        WriteOutcome::TooMany { .. } => (SyncResult::Error, Some("the server wants fewer requests".to_owned())),
        WriteOutcome::Refused(error) | WriteOutcome::Unknown(error) => (SyncResult::Error, Some(error.to_string())),
    };
    let pause = match trouble {
        Some(trouble) => {
            state.primary.retried();
            let pause = state.failed(key);
            match &outcome {
                WriteOutcome::Refused(error) if error.is_forbidden() => {
                    state.forbidden(key, &trouble);
                    pause.max(FORBIDDEN_PAUSE)
                }
                WriteOutcome::Unknown(error) if state.cluster.is_told(error) => pause,
                WriteOutcome::Unknown(_) | WriteOutcome::TooMany { .. } => {
                    state.unanswered(key, &trouble);
                    pause
                }
                _ => {
                    state.trouble(&about, &trouble);
                    pause
                }
            }
        }
        None => {
            state.succeeded(key);
            state.trouble_over(&about);
            Duration::ZERO
        }
    };
    match synced {
        SyncResult::Written => {
            state.metrics.kubequota.status_written();
            state.replenished(key);
            tracing::debug!(quota = %key, used = %write.used, "status written");
        }
        SyncResult::Conflict => state.metrics.kubequota.write_conflict(),
        _ => {}
    }
    state.update(|accounts, now, _| accounts.write_ended(key, outcome.result(pause), now));
    synced
}

/// Lists one kind in one namespace, for what only a consistent list can tell.
async fn list(state: Shared, kind: KindId, key: QuotaKey) {
    let _busy = state.drain.guard(format!("list in namespace {}", key.namespace));
    let Ok(_turn) = state.lists.acquire().await else { return };
    state.metrics.kubequota.evidence_list();
    let (id, shape) = state.read(|accounts| {
        let evaluator = accounts.inventory().registry().evaluator(kind);
        (evaluator.group_resource().clone(), evaluator.view_kind())
    });
    let namespace = &*key.namespace;
    let Some(resource) = state.version_in_use(&id) else {
        return state.update(|accounts, _, _| accounts.namespace_list_failed(kind, namespace));
    };
    let about = format!("list of {id} in namespace {namespace}");
    let began = Instant::now();
    match state.cluster.list_all(&resource, Some(namespace), shape).await {
        Ok(page) => {
            state.trouble_over(&about);
            tracing::debug!(%id, namespace, objects = page.objects.len(), took = ?began.elapsed(), "listed for evidence");
            state.update(|accounts, now, time| {
                accounts.namespace_listed(kind, namespace, &page.listed.revision, &page.objects, now, time);
            });
        }
        Err(error) => {
            state.trouble(&about, &error.to_string());
            state.update(|accounts, _, _| accounts.namespace_list_failed(kind, namespace));
        }
    }
}
