//! Coverage of the nominal 95 % intervals on simulated runs, before and after the correction for few
//! videos.
//!
//!     cargo run -p paravt-reports --example coverage [DRAWS]
#![allow(clippy::unwrap_used)]

#[path = "../tests/all/common/simulate.rs"]
mod simulate;

use simulate::{CLUSTERS, CORRELATIONS, Kind, QUESTIONS, coverage, monte_carlo_error};

fn main() {
    let draws: usize = std::env::args().nth(1).map_or(20_000, |draws| draws.parse().unwrap());
    println!(
        "Coverage of 95 % intervals, {QUESTIONS} questions a video, {draws} runs each (± {:.1} points)",
        100.0 * monte_carlo_error(draws)
    );
    println!("before: CR0 with the normal quantile; now: CR1 with t(G-1), score interval for shares\n");
    print!("| | ICC |");
    for videos in CLUSTERS {
        print!(" {videos} videos |");
    }
    println!("\n|---|--:|{}", "--:|".repeat(CLUSTERS.len()));
    for kind in Kind::ALL {
        for correlation in CORRELATIONS {
            print!("| {} | {correlation} |", kind.name());
            for videos in CLUSTERS {
                let (before, now) = coverage(kind, videos, correlation, draws);
                print!(" {:.1} → {:.1} |", 100.0 * before, 100.0 * now);
            }
            println!();
        }
    }
}
