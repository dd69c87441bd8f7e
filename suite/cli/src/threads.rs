//! How many threads compute what.

use std::sync::Once;

/// Kind of work of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Records and data, no model in this process.
    Files,
    /// Passes of a model, if anything.
    Inference,
    /// Whole micro-batches side by side: single products need no threads of their own.
    Training,
}

/// Configures the threads of this process; to be called before any other thread starts.
///
/// candle shares single operations among threads that spin while they wait: small tensors lose several
/// times what they gain, most of all on a busy machine. Its operations run on the thread that asks; the
/// kernels of this suite and large products use rayon's threads.
pub(crate) fn configure(workload: Workload) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let wanted = std::env::var("RAYON_NUM_THREADS").ok().and_then(|text| text.parse().ok());
        let threads = wanted.unwrap_or(cores);
        let products = if workload == Workload::Training { 1 } else { threads };
        // polars has a pool of its own.
        let pools =
            [("CANDLE_NUM_THREADS", 1), ("RAYON_NUM_THREADS", products), ("POLARS_MAX_THREADS", threads)];
        for (name, value) in pools {
            // SAFETY: nothing else runs yet that could read the environment at the same time.
            #[allow(unsafe_code)]
            unsafe {
                std::env::set_var(name, value.to_string());
            }
        }
        // Set directly, so that the variable above speaks to candle alone. An earlier pool stays.
        let _ = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    });
}
