//! The periodic full recalculation, as upstream's `enqueueAll`: every quota is counted anew, and synced.

use tokio::time::{Instant, sleep_until};

use crate::state::Shared;

/// Recounts everything every sync period, for ever.
pub(crate) async fn run(state: Shared) {
    let period = state.options.sync_period;
    if period.is_zero() {
        tracing::info!("the periodic full recount is off (--resource-quota-sync-period=0)");
        return std::future::pending().await;
    }
    let mut next = Instant::now() + period;
    loop {
        sleep_until(next).await;
        let began = Instant::now();
        // One quota at a time, so that events don't wait behind all of them.
        for key in state.read(|accounts| accounts.quotas().map(|quota| quota.key.clone()).collect::<Vec<_>>()) {
            state.update(|accounts, _, _| accounts.recount(&key));
            tokio::task::yield_now().await;
        }
        state.metrics.kubequota.resynced(began.elapsed());
        next = Instant::now().max(next + period);
    }
}
