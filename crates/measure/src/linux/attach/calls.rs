//! Names of system calls, by number.

use laggard_model::SystemCall;

macro_rules! calls {
    ($($constant:ident),* $(,)?) => {
        &[$((libc::$constant, stringify!($constant))),*]
    };
}

/// Prefix of the constants in libc. The names of the calls lack it.
const PREFIX: &str = "SYS_";

/// System calls of every architecture that can wait or take long.
const CALLS: &[(libc::c_long, &str)] = calls![
    SYS_read,
    SYS_write,
    SYS_close,
    SYS_lseek,
    SYS_mmap,
    SYS_mprotect,
    SYS_munmap,
    SYS_brk,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_ioctl,
    SYS_pread64,
    SYS_pwrite64,
    SYS_readv,
    SYS_writev,
    SYS_sched_yield,
    SYS_mremap,
    SYS_msync,
    SYS_mincore,
    SYS_madvise,
    SYS_shmget,
    SYS_nanosleep,
    SYS_getitimer,
    SYS_setitimer,
    SYS_getpid,
    SYS_sendfile,
    SYS_socket,
    SYS_connect,
    SYS_accept,
    SYS_sendto,
    SYS_recvfrom,
    SYS_sendmsg,
    SYS_recvmsg,
    SYS_shutdown,
    SYS_bind,
    SYS_listen,
    SYS_clone,
    SYS_execve,
    SYS_exit,
    SYS_wait4,
    SYS_kill,
    SYS_uname,
    SYS_semop,
    SYS_semtimedop,
    SYS_msgsnd,
    SYS_msgrcv,
    SYS_fcntl,
    SYS_flock,
    SYS_fsync,
    SYS_fdatasync,
    SYS_truncate,
    SYS_ftruncate,
    SYS_getcwd,
    SYS_chdir,
    SYS_gettimeofday,
    SYS_getrlimit,
    SYS_getrusage,
    SYS_sysinfo,
    SYS_times,
    SYS_ptrace,
    SYS_getuid,
    SYS_syslog,
    SYS_setuid,
    SYS_rt_sigpending,
    SYS_rt_sigtimedwait,
    SYS_rt_sigqueueinfo,
    SYS_rt_sigsuspend,
    SYS_sigaltstack,
    SYS_statfs,
    SYS_fstatfs,
    SYS_sched_setparam,
    SYS_sched_getparam,
    SYS_sched_setscheduler,
    SYS_sched_getscheduler,
    SYS_mlock,
    SYS_munlock,
    SYS_mlockall,
    SYS_munlockall,
    SYS_prctl,
    SYS_setrlimit,
    SYS_sync,
    SYS_mount,
    SYS_umount2,
    SYS_gettid,
    SYS_readahead,
    SYS_futex,
    SYS_sched_setaffinity,
    SYS_sched_getaffinity,
    SYS_io_setup,
    SYS_io_destroy,
    SYS_io_getevents,
    SYS_io_submit,
    SYS_io_cancel,
    SYS_getdents64,
    SYS_restart_syscall,
    SYS_fadvise64,
    SYS_timer_create,
    SYS_timer_settime,
    SYS_timer_gettime,
    SYS_clock_settime,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_exit_group,
    SYS_epoll_ctl,
    SYS_tgkill,
    SYS_mbind,
    SYS_mq_open,
    SYS_mq_timedsend,
    SYS_mq_timedreceive,
    SYS_waitid,
    SYS_inotify_add_watch,
    SYS_openat,
    SYS_mkdirat,
    SYS_newfstatat,
    SYS_unlinkat,
    SYS_renameat,
    SYS_pselect6,
    SYS_ppoll,
    SYS_splice,
    SYS_tee,
    SYS_sync_file_range,
    SYS_vmsplice,
    SYS_move_pages,
    SYS_utimensat,
    SYS_epoll_pwait,
    SYS_timerfd_create,
    SYS_fallocate,
    SYS_timerfd_settime,
    SYS_timerfd_gettime,
    SYS_accept4,
    SYS_signalfd4,
    SYS_eventfd2,
    SYS_epoll_create1,
    SYS_pipe2,
    SYS_preadv,
    SYS_pwritev,
    SYS_perf_event_open,
    SYS_recvmmsg,
    SYS_prlimit64,
    SYS_syncfs,
    SYS_sendmmsg,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_finit_module,
    SYS_sched_setattr,
    SYS_sched_getattr,
    SYS_renameat2,
    SYS_seccomp,
    SYS_getrandom,
    SYS_memfd_create,
    SYS_bpf,
    SYS_execveat,
    SYS_userfaultfd,
    SYS_membarrier,
    SYS_mlock2,
    SYS_copy_file_range,
    SYS_preadv2,
    SYS_pwritev2,
    SYS_statx,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_clone3,
    SYS_close_range,
    SYS_openat2,
    SYS_epoll_pwait2,
    SYS_process_madvise,
    SYS_futex_waitv,
];

/// System calls that newer architectures lack.
#[cfg(target_arch = "x86_64")]
const OLDER_CALLS: &[(libc::c_long, &str)] = calls![
    SYS_open,
    SYS_stat,
    SYS_poll,
    SYS_access,
    SYS_pipe,
    SYS_select,
    SYS_pause,
    SYS_alarm,
    SYS_fork,
    SYS_vfork,
    SYS_getdents,
    SYS_rename,
    SYS_mkdir,
    SYS_rmdir,
    SYS_creat,
    SYS_link,
    SYS_unlink,
    SYS_symlink,
    SYS_readlink,
    SYS_chmod,
    SYS_chown,
    SYS_time,
    SYS_epoll_wait,
    SYS_signalfd,
    SYS_eventfd,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER_CALLS: &[(libc::c_long, &str)] = &[];

/// Returns true if a system call of this name is known.
pub fn is_system_call(name: &str) -> bool {
    let mut calls = CALLS.iter().chain(OLDER_CALLS);
    calls.any(|(_, constant)| constant.strip_prefix(PREFIX) == Some(name))
}

/// Returns true if the system call with this number can send a packet: data, an acknowledgement
/// of data that was read, or the end of a connection.
pub(super) fn is_for_network(number: u32) -> bool {
    const NAMES: [&str; 17] = [
        "accept",
        "accept4",
        "close",
        "connect",
        "io_uring_enter",
        "read",
        "readv",
        "recvfrom",
        "recvmmsg",
        "recvmsg",
        "sendfile",
        "sendmmsg",
        "sendmsg",
        "sendto",
        "shutdown",
        "write",
        "writev",
    ];
    NAMES.contains(&system_call(number).name)
}

/// Returns the system call with this number, with its name if it is known.
pub(super) fn system_call(number: u32) -> SystemCall {
    let mut calls = CALLS.iter().chain(OLDER_CALLS);
    let constant = calls.find(|(value, _)| *value == libc::c_long::from(number));
    let name = constant.and_then(|(_, constant)| constant.strip_prefix(PREFIX));
    SystemCall {
        number,
        name: name.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_the_kernels_names() {
        let number = u32::try_from(libc::SYS_clock_nanosleep).unwrap();

        assert_eq!(system_call(number).name, "clock_nanosleep");
        assert_eq!(system_call(100_000).name, "");
        assert_eq!(system_call(100_000).to_string(), "system call 100000");
    }
}
