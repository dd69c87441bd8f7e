//! Cost of a call in the jail: `calls PYTHON VIDEO` prints the medians in milliseconds, as `ci/compare/pyvision_tool.py` does for
//! the release's tool.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use paravt_jail::{Episode, Jail, Limits, Outcome};

/// Lines of the table, and code of each.
const CODES: [(&str, &str); 3] = [
    ("print", "print(1)"),
    ("frame", "print(video_clue_0[10].asnumpy().mean())"),
    ("figure", "plt.imshow(video_clue_0[10].asnumpy()); plt.show()"),
];
const EPISODES: usize = 20;
const CALLS: usize = 200;

fn milliseconds(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64() * 1000.0
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn run(episode: &mut Episode, code: &str) {
    assert_eq!(episode.run(code).unwrap().outcome, Outcome::Done);
}

fn main() {
    let [python, video]: [PathBuf; 2] =
        std::env::args_os().skip(1).map(PathBuf::from).collect::<Vec<_>>().try_into().unwrap();
    let jail = Jail::new(&python, Limits::default()).unwrap();
    let start = || jail.start(&video).unwrap();
    let starts = (0..EPISODES).map(|_| milliseconds(|| drop(start()))).collect();
    let cold = (0..EPISODES).map(|_| milliseconds(|| run(&mut start(), CODES[0].1))).collect();
    // A model thinks longer than the interpreter starts.
    let ready = (0..EPISODES).map(|_| {
        let mut episode = start();
        std::thread::sleep(Duration::from_secs(2));
        milliseconds(|| run(&mut episode, CODES[0].1))
    });
    let ready = median(ready.collect());
    let ends = (0..EPISODES).map(|_| {
        let mut episode = start();
        run(&mut episode, CODES[0].1);
        milliseconds(|| drop(episode))
    });
    println!("start and kill without waiting  {:8.2}", median(starts));
    println!("first call, cold                {:8.2}", median(cold));
    println!("first call, 2 s after the start {ready:8.2}");
    println!("end of an episode               {:8.2}", median(ends.collect()));
    let mut episode = start();
    for (name, code) in CODES {
        let calls = (0..CALLS).map(|_| milliseconds(|| run(&mut episode, code))).collect();
        println!("warm call, {name:<21}{:8.2}", median(calls));
    }
}
