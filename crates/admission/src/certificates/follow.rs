//! Values that come from files, read again when those change.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::CertificateError;

/// How often files are looked at. The kubelet takes a minute and more to bring a changed Secret, so this adds nothing.
pub(super) const EVERY: Duration = Duration::from_secs(5);

/// A task that ends when this is dropped.
#[derive(Debug)]
pub(super) struct Task(pub(super) JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What the files hold now, and then whatever they come to hold. They are compared by content, so any way of changing
/// them will do: mounts of Secrets swap a symbolic link. Contents that can't be used leave the value as it is.
///
/// # Errors
/// What can't be used now.
pub(super) fn follow<T: Send + Sync + 'static>(
    what: &'static str,
    paths: Vec<PathBuf>,
    read: impl Fn(&[Vec<u8>]) -> Result<T, CertificateError> + Send + 'static,
) -> Result<(watch::Receiver<T>, Task), CertificateError> {
    let mut used = contents(&paths)?;
    let (sender, receiver) = watch::channel(read(&used)?);
    let task = async move {
        let mut trouble = Trouble::default();
        loop {
            tokio::time::sleep(EVERY).await;
            let found = contents(&paths);
            if found.as_ref().is_ok_and(|found| *found == used) {
                trouble = Trouble::default();
                continue;
            }
            match found.and_then(|found| Ok((read(&found)?, found))) {
                Ok((value, found)) => {
                    used = found;
                    trouble = Trouble::default();
                    sender.send_replace(value);
                    info!("{what} changed, and new connections use what is there now");
                }
                Err(error) => {
                    if trouble.lasts(&error.to_string()) {
                        warn!("{what} changed and can't be used, so what was there before stays in use: {error}");
                    }
                }
            }
        }
    };
    Ok((receiver, Task(tokio::spawn(task))))
}

/// Small files, most often in memory.
fn contents(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, CertificateError> {
    let read = |path: &PathBuf| {
        std::fs::read(path).map_err(|source| CertificateError::Unreadable {
            path: path.clone(),
            source,
        })
    };
    paths.iter().map(read).collect()
}

/// What was wrong when the files were last looked at, and how often in a row.
#[derive(Debug, Default)]
struct Trouble {
    said: String,
    times: u32,
}

impl Trouble {
    /// Whether it is worth a line: at the second look, because two files are not changed at one instant, and then once
    /// in ten minutes.
    fn lasts(&mut self, error: &str) -> bool {
        const AGAIN: u32 = 120;
        if self.said != error {
            *self = Trouble {
                said: error.to_owned(),
                times: 0,
            };
        }
        self.times += 1;
        self.times % AGAIN == 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_is_told_when_it_lasts_and_seldom_then() {
        let mut trouble = Trouble::default();
        let told: Vec<u32> = (1..=250).filter(|_| trouble.lasts("a")).collect();
        assert_eq!(told, [2, 122, 242]);
        assert!(!trouble.lasts("b"));
        assert!(trouble.lasts("b"));
    }
}
