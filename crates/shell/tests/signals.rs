//! Signals end a real process as promised: this test runs itself again as a child and signals it.
#![cfg(unix)]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use kubequota_shell::{Drain, drain};

const CHILD: &str = "KUBEQUOTA_SHELL_TEST_CHILD";

/// Not a test by itself: the process that the other test starts. It drains for longer than anyone waits.
#[tokio::test]
async fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let drain = Drain::new();
    drain::watch_signals(&drain).unwrap();
    let _busy = drain.guard("busy");
    println!("\nrunning now");
    drain.signal().await;
    println!("\ndraining now");
    drain.wait(Duration::from_secs(600)).await.unwrap();
}

#[test]
fn the_first_signal_drains_and_the_second_exits() {
    for (first, second, code) in [("TERM", "TERM", 143), ("INT", "INT", 130), ("TERM", "INT", 130)] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(CHILD, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let id = child.id();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut wait_for = |wanted: &str| assert!(output.any(|line| line == wanted), "the child ended: {wanted}");
        let send = |signal: &str| {
            let status = Command::new("sh")
                .args(["-c", &format!("kill -{signal} {id}")])
                .status()
                .unwrap();
            assert!(status.success());
        };
        wait_for("running now");
        send(first);
        wait_for("draining now");
        send(second);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{first}, {second}");
    }
}
