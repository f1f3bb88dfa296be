//! The moments at which a charge changes with no event: a deleted pod whose grace runs out.

use std::time::Duration;

use tokio::time::sleep;

use crate::state::Shared;

/// While the server's time is not known, and since it may be set, deadlines are looked at this often.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// A charge changes strictly after its moment.
const JUST_AFTER: Duration = Duration::from_millis(1);

/// Lets charges change at their moment, for ever.
pub(crate) async fn run(state: Shared) {
    loop {
        let next = state.read(kubequota_core::accounts::Accounts::next_deadline);
        let Some(next) = next else {
            state.deadlines.notified().await;
            continue;
        };
        let wait = match state.cluster.clock().now() {
            // A moment that has passed gives a negative duration, which is no wait.
            Some(now) => {
                Duration::try_from(next.duration_since(now))
                    .unwrap_or(Duration::ZERO)
                    .min(LOOK_AGAIN)
                    + JUST_AFTER
            }
            None => LOOK_AGAIN,
        };
        tokio::select! {
            () = sleep(wait) => state.update(|accounts, now, time| accounts.expire(now, time)),
            () = state.deadlines.notified() => {}
        }
    }
}
