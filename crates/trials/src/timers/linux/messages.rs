//! Timed waits for an action of another process.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixDatagram;

use laggard_model::Nanos;

use super::wait::{calendar_in, failed_with, timespec, timeval, zero};
use crate::message_queue::unnamed;
use laggard_measure::{Served, TimedWait};

/// Socket that does not receive messages.
pub(super) struct Socket {
    own: UnixDatagram,
    /// Kept open, so that the wait ends only by its timeout.
    _other: UnixDatagram,
}

impl Socket {
    pub(super) fn open() -> io::Result<Self> {
        let (own, other) = UnixDatagram::pair()?;
        Ok(Self { own, _other: other })
    }

    fn set(&self, length: Nanos) -> io::Result<()> {
        let time = timeval(length);
        let size = libc::socklen_t::try_from(size_of_val(&time)).unwrap_or(0);
        let (level, option) = (libc::SOL_SOCKET, libc::SO_RCVTIMEO);
        // SAFETY: `time` is valid for reads of the given size.
        zero(unsafe {
            libc::setsockopt(
                self.own.as_raw_fd(),
                level,
                option,
                (&raw const time).cast(),
                size,
            )
        })
    }

    fn receive(&self) -> io::Result<()> {
        let mut byte = 0_u8;
        // SAFETY: `byte` is valid for a byte.
        let result = unsafe { libc::recv(self.own.as_raw_fd(), (&raw mut byte).cast(), 1, 0) };
        failed_with(libc::EAGAIN, i64::try_from(result).unwrap_or(0))
    }
}

impl TimedWait for Socket {
    fn once(&mut self, length: Nanos) -> io::Result<()> {
        self.set(length)?;
        self.receive()
    }

    fn begin(&mut self, first: Nanos, period: Nanos) -> io::Result<Nanos> {
        self.set(period)?;
        Ok(first)
    }

    fn next(&mut self, _: Nanos, _: Nanos) -> io::Result<Served> {
        self.receive().map(|()| Served::One)
    }
}

/// Message queue without a name. It does not receive messages.
pub(super) struct MessageQueue(OwnedFd);

impl MessageQueue {
    const MESSAGE_BYTES: usize = 8;

    pub(super) fn open() -> io::Result<Self> {
        unnamed("timers", libc::O_RDONLY, Self::MESSAGE_BYTES).map(Self)
    }

    pub(super) fn wait(&self, length: Nanos) -> io::Result<()> {
        let mut message = [0_u8; Self::MESSAGE_BYTES];
        let time = calendar_in(length);
        let no_priority = std::ptr::null_mut::<u32>();
        // SAFETY: `message` is valid for the given size, `time` for reads.
        let result = unsafe {
            libc::syscall(
                libc::SYS_mq_timedreceive,
                self.0.as_raw_fd(),
                message.as_mut_ptr(),
                Self::MESSAGE_BYTES,
                no_priority,
                &raw const time,
            )
        };
        failed_with(libc::ETIMEDOUT, result)
    }
}

/// System V semaphore that is never released.
pub(super) struct SystemVSemaphore(libc::c_int);

impl SystemVSemaphore {
    pub(super) fn open() -> io::Result<Self> {
        // In a separate namespace the set is removed with the thread, however it ends. Without
        // the right to a namespace, the set exists until it is removed. SAFETY: the arguments are
        // integers.
        unsafe { libc::unshare(libc::CLONE_NEWIPC) };
        // SAFETY: the arguments are integers.
        match unsafe { libc::semget(libc::IPC_PRIVATE, 1, 0o600 | libc::IPC_CREAT) } {
            ..0 => Err(io::Error::last_os_error()),
            set => Ok(Self(set)),
        }
    }

    pub(super) fn wait(&self, length: Nanos) -> io::Result<()> {
        let mut take = libc::sembuf {
            sem_num: 0,
            sem_op: -1,
            sem_flg: 0,
        };
        let time = timespec(length);
        // SAFETY: one operation and the time are valid for reads.
        let result = unsafe {
            libc::syscall(
                libc::SYS_semtimedop,
                self.0,
                &raw mut take,
                1,
                &raw const time,
            )
        };
        failed_with(libc::EAGAIN, result)
    }
}

impl Drop for SystemVSemaphore {
    fn drop(&mut self) {
        // SAFETY: this value owns the set.
        unsafe { libc::semctl(self.0, 0, libc::IPC_RMID) };
    }
}
