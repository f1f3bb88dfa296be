//! Random histories of a small cluster, with the real `Accounts` of `kubequota-core` as its quota controllers.
//!
//! The cluster is a store with one revision counter, an admitter that raises `used` before it stores an object (soon, late, or never),
//! people who change objects and quotas, two controllers of which one leads (or both, for a while, or none), and for each separate
//! delayed watches of quotas and of every kind of object. Everything that can go wrong on the way does: watches stall and break, lists
//! are late or fail half-way, writes and their answers are lost, controllers restart, objects can't be read for a while. `judge` has the
//! three properties that must hold in every history; `paths` counts what the histories went through, and each must have been reached.
//!
//! The same histories are run by upstream's rule (`used` becomes what is observed): a model that would not catch it would be blind.
//!
//! `bench/run model` is this program; `cargo test` runs a small part of it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that has grown: what can't happen in the model must stop it"
)]

mod chance;
mod controller;
mod history;
mod judge;
mod paths;
mod plot;
mod server;

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Parser;
use history::{History, Rule};
use judge::{Property, Violation};
use paths::{Counts, PATHS};
use server::Views;

/// Runs random histories of a small cluster with faults, by kubequota's rule and by upstream's, and prints in how many of them
/// something was lost, left inexact or over-counted. Fails where kubequota's rule is wrong, or some path was not reached.
#[derive(Parser)]
#[command(name = "bench/run model", bin_name = "bench/run model")]
struct Arguments {
    /// How many histories.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    histories: u64,
    /// The seed of the first; the others follow.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// How many by upstream's rule; fewer tell enough.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    upstream: u64,
    /// Prints what happens in the first history, and runs no other.
    #[arg(long)]
    tell: bool,
}

/// So many wrong histories are shown.
const SHOWN: usize = 10;

/// The sum of some histories.
#[derive(Default)]
struct Results {
    histories: u64,
    /// Those with a violation, by property.
    violating: [u64; 3],
    /// Those with any.
    wrong: u64,
    /// The first of these, by seed.
    first: Vec<(u64, Vec<Violation>)>,
    counts: Counts,
}

impl Results {
    fn take(&mut self, seed: u64, history: &mut History) {
        self.histories += 1;
        self.counts.add(&history.paths);
        let violations = std::mem::take(&mut history.violations);
        for property in [Property::Lost, Property::Inexact, Property::OverCounted] {
            let violates = violations.iter().any(|violation| violation.property == property);
            self.violating[property as usize] += u64::from(violates);
        }
        if !violations.is_empty() {
            self.wrong += 1;
            self.note_first(vec![(seed, violations)]);
        }
    }

    fn note_first(&mut self, others: Vec<(u64, Vec<Violation>)>) {
        self.first.extend(others);
        self.first.sort_by_key(|(seed, _)| *seed);
        self.first.truncate(SHOWN);
    }

    fn add(&mut self, other: Results) {
        self.histories += other.histories;
        self.wrong += other.wrong;
        for (sum, count) in self.violating.iter_mut().zip(other.violating) {
            *sum += count;
        }
        self.counts.add(&other.counts);
        self.note_first(other.first);
    }

    fn unreached(&self) -> Vec<&'static str> {
        let unreached = PATHS.iter().filter(|(path, _)| self.counts.of(*path) == 0);
        unreached.map(|(_, text)| *text).collect()
    }
}

/// Runs so many histories on all processors.
fn histories(rule: Rule, seed: u64, count: u64) -> Results {
    let next = AtomicU64::new(seed);
    let run = || {
        let (mut results, mut views) = (Results::default(), Views::default());
        loop {
            let seed_now = next.fetch_add(1, Ordering::Relaxed);
            if seed_now >= seed + count {
                return results;
            }
            let mut history = History::new(seed_now, rule, std::mem::take(&mut views), false);
            history.run();
            results.take(seed_now, &mut history);
            views = std::mem::take(&mut history.views);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut sum = Results::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        for thread in threads {
            sum.add(thread.join().unwrap());
        }
    });
    sum
}

/// What happens in one history, line by line.
fn tell(rule: Rule, seed: u64) -> String {
    let mut history = History::new(seed, rule, Views::default(), true);
    history.run();
    let mut told = format!("{:#?}\n", history.plot);
    for line in history.trace.iter().flatten() {
        told.push_str(line);
        told.push('\n');
    }
    told
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn print(ours: &Results, upstream: &Results) {
    let row = |name: &str, results: &Results| {
        let [lost, inexact, over] = results.violating.map(thousands);
        let all = thousands(results.histories);
        println!("{name:<12} {all:>12} {lost:>12} {inexact:>12} {over:>14}");
    };
    println!("In how many histories of all");
    println!(
        "{:<12} {:>12} {:>12} {:>12} {:>14}",
        "rule", "histories", "lost", "inexact", "over-counted"
    );
    row("kubequota", ours);
    row("upstream's", upstream);
    println!("\nWhat kubequota's histories went through");
    for (path, text) in PATHS {
        println!("{:>14}  {text}", thousands(ours.counts.of(*path)));
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.tell {
        print!("{}", tell(Rule::Kubequota, arguments.seed));
        return ExitCode::SUCCESS;
    }
    let began = Instant::now();
    let ours = histories(Rule::Kubequota, arguments.seed, arguments.histories);
    let upstream = histories(
        Rule::Upstream,
        arguments.seed,
        arguments.upstream.min(arguments.histories),
    );
    print(&ours, &upstream);
    println!("\n{} s", began.elapsed().as_secs());
    let mut failed = false;
    if ours.wrong > 0 {
        failed = true;
        println!("{} histories are wrong, the first with", ours.wrong);
    }
    for (seed, violations) in &ours.first {
        println!("--seed {seed} --tell");
        for Violation { property, line } in violations {
            println!("    {property:?}: {line}");
        }
    }
    for path in ours.unreached() {
        failed = true;
        println!("not reached: {path}");
    }
    if upstream.violating[Property::Lost as usize] == 0 {
        failed = true;
        println!("upstream's rule was not caught");
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_and_all_is_exact_in_the_end() {
        let results = histories(Rule::Kubequota, 1, 3_000);
        if let Some((seed, violations)) = results.first.first() {
            panic!(
                "{} histories are wrong: {violations:#?}\n{}",
                results.wrong,
                tell(Rule::Kubequota, *seed)
            );
        }
        assert_eq!(results.unreached(), Vec::<&str>::new());
    }

    /// So that a wrong one can be looked at.
    #[test]
    fn the_same_seed_is_the_same_history() {
        for seed in 1..8 {
            assert_eq!(tell(Rule::Kubequota, seed), tell(Rule::Kubequota, seed), "seed {seed}");
        }
    }

    /// The model can tell right from wrong: writing what is observed loses what is admitted, and much of the time.
    #[test]
    fn upstreams_rule_is_caught() {
        let results = histories(Rule::Upstream, 1, 300);
        let [lost, inexact, over_counted] = results.violating;
        assert!(lost > 30 && inexact > 30 && over_counted > 0, "{:?}", results.violating);
    }
}
