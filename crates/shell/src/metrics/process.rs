//! Metrics of this process, read from Linux' `/proc`; elsewhere there are none.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// The unit of times in `/proc`. The kernel has a fixed 100 for programs on every architecture that Rust has tokio for,
/// whatever its own clock does.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads this process' use of memory, CPU and file descriptors whenever it is asked. What can't be read is left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessMetrics(());

impl ProcessMetrics {
    /// Nothing is read before the first scrape.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let mut put = |name: &str, help: &str, metric: &dyn EncodeMetric| {
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };

        let stat = read("/proc/self/stat");
        if let Some(seconds) = cpu_seconds(&stat) {
            put(
                "process_cpu_seconds",
                "User and system CPU time in seconds",
                &ConstCounter::new(seconds),
            )?;
        }
        if let Some(bytes) = resident_bytes(&read("/proc/self/status")) {
            put(
                "process_resident_memory_bytes",
                "Resident memory size in bytes",
                &ConstGauge::new(bytes),
            )?;
        }
        if let Some(seconds) = start_seconds(&stat, &read("/proc/stat")) {
            put(
                "process_start_time_seconds",
                "Start time in seconds since the epoch",
                &ConstGauge::new(seconds),
            )?;
        }
        if let Ok(entries) = std::fs::read_dir("/proc/self/fd") {
            // One of them is the directory being read.
            let open = u64::try_from(entries.count().saturating_sub(1)).unwrap_or(u64::MAX);
            put(
                "process_open_fds",
                "Number of open file descriptors",
                &ConstGauge::new(open),
            )?;
        }
        Ok(())
    }
}

/// A field of `/proc/PID/stat` by its number in proc(5). The second one, the command's name, may hold anything, so
/// counting begins behind its last parenthesis.
fn stat_field(stat: &str, number: usize) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    Some((stat_field(stat, 14)? + stat_field(stat, 15)?) / TICKS_PER_SECOND)
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

/// The start of the process is counted from the start of the system.
fn start_seconds(stat: &str, system_stat: &str) -> Option<f64> {
    let boot: f64 = system_stat
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()?;
    Some(boot + stat_field(stat, 22)? / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "42 (a) b (c) S 1 42 42 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 5 0 12345 1000 200 0";

    #[test]
    fn the_proc_files_are_read_right() {
        assert_eq!(cpu_seconds(STAT), Some(3.0));
        assert_eq!(
            start_seconds(STAT, "cpu 1 2 3\nbtime 1700000000\nprocesses 4\n"),
            Some(1_700_000_123.45)
        );
        assert_eq!(
            resident_bytes("Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t3\n"),
            Some(2 * 1024 * 1024)
        );
    }

    #[test]
    fn what_is_not_there_is_left_out() {
        assert_eq!(cpu_seconds(""), None);
        assert_eq!(start_seconds(STAT, ""), None);
        assert_eq!(resident_bytes("Name:\tx\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_plausible() {
        let registry = super::super::Registry::new();
        registry.register_collector(ProcessMetrics::new());
        let value = |metric: &str| -> f64 {
            let lines = super::super::tests::lines(&registry, metric);
            lines[0].rsplit_once(' ').unwrap().1.parse().unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 100_000.0);
        assert!(value("process_cpu_seconds_total") >= 0.0);
        assert!(value("process_open_fds") >= 3.0);
        let now = jiff::Timestamp::now().as_second() as f64;
        let started = value("process_start_time_seconds");
        assert!(started <= now + 2.0 && started > now - 86400.0, "{started} {now}");
    }
}
