//! Settings of the memory allocator.

use crate::threads::Workload;

/// Has the allocator keep freed memory for the next tensor. To be called before any other thread starts.
///
/// A pass of a model, and a training step more so, makes and drops thousands of tensors of a megabyte or
/// more. By default glibc hands each back to the kernel and gets it again page by page: a twentieth of a
/// prompt's time, a sixth of a training step's. Where records are read there are no tensors, but millions of small texts
/// on every core: with one arena for all, threads would wait for one another half of the time.
pub(crate) fn configure(workload: Workload) {
    if workload == Workload::Files {
        return;
    }
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        const LARGEST: libc::c_int = 1 << 30;
        // SAFETY: these only change settings of the allocator.
        #[allow(unsafe_code)]
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGEST);
            libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
            // The heaps of further arenas go back to the kernel each time that one is empty.
            libc::mallopt(libc::M_ARENA_MAX, 1);
            // What is cut off around a tensor that libtorch wants aligned would be kept apart from it when both
            // are free, and the next tensor of that size no longer fit: 150 MiB of holes after a prompt.
            libc::mallopt(libc::M_MXFAST, 0);
        }
    }
}
