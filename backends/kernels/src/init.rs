//! Parallel first-touch initialisation of outputs.

use rayon::prelude::*;

/// `count` values in tasks of `task` values: `fill` gets a task's number and its values, which are zero.
/// `vec![0.0; count]` would clear all of them on the calling thread, while the others wait.
pub(crate) fn par_init<T: Copy + Default + Send>(
    count: usize,
    task: usize,
    fill: impl Fn(usize, &mut [T]) + Sync,
) -> Vec<T> {
    let mut values = Vec::with_capacity(count);
    values.spare_capacity_mut()[..count].par_chunks_mut(task).enumerate().for_each(|(number, part)| {
        part.iter_mut().for_each(|value| {
            value.write(T::default());
        });
        // SAFETY: every value of the part was written just before.
        fill(number, unsafe { part.assume_init_mut() });
    });
    // SAFETY: the chunks partition the first `count` values, and every task has written all of its chunk.
    unsafe { values.set_len(count) };
    values
}

/// `count` zeros.
pub(crate) fn par_zeros(count: usize) -> Vec<f32> {
    par_init(count, 1 << 16, |_, _| ())
}
