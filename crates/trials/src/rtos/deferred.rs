//! Whether deferred work has a priority: a thread is woken while a softirq receives packets.
//!
//! The kernel reports the order of the events, so no time is compared.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use laggard_bpf::object::{LoadedObject, ObjectRefused};
use laggard_bpf::value::Value as _;
use laggard_measure::linux::obstacle::{Help, Obstacle};
use laggard_measure::linux::policy;
use laggard_model::{Absence, Cpu, Nanos, RtosDeferred};
use libbpf_rs::{MapCore as _, MapFlags};

use super::trial::refused;
use crate::objects;
use shared::SoftirqOrder;

#[allow(dead_code, unreachable_pub, reason = "generated")]
mod shared {
    include!(concat!(env!("OUT_DIR"), "/softirq_order.rs"));
}

/// Length of a packet, bytes.
const PACKET_BYTES: usize = 1_024;
/// Number of packets that are sent before any is read.
const BURST: usize = 32;

/// Programs that watch one CPU, and a thread that makes its softirq receive packets.
#[derive(Debug)]
pub(super) struct DeferredWatch {
    loaded: LoadedObject,
    is_over: Arc<AtomicBool>,
    sender: Option<JoinHandle<()>>,
}

impl DeferredWatch {
    /// Starts to watch threads with this real-time priority.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses the programs, or without a loopback device.
    pub(super) fn start(cpu: Cpu, priority: u8) -> Result<Self, Absence> {
        let loaded = load(cpu, priority).map_err(|refused| {
            let help = if nix::unistd::geteuid().is_root() {
                Help::Doctor
            } else {
                Help::Rights
            };
            Obstacle::System(refused.reason).absence(&help)
        })?;
        let is_over = Arc::new(AtomicBool::new(false));
        let loopback = |err: io::Error| refused("sending to itself (loopback device)", &err);
        let socket = socket().map_err(loopback)?;
        let over = Arc::clone(&is_over);
        let thread = policy::thread("lag/packets");
        let sender = thread.and_then(|thread| thread.spawn(move || send(&socket, cpu, &over)));
        Ok(Self {
            loaded,
            is_over,
            sender: Some(sender.map_err(|err| refused("a thread", &err))?),
        })
    }

    /// Returns the order of wakeups and softirqs so far.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel does not return it.
    pub(super) fn read(&self) -> Result<RtosDeferred, Absence> {
        let read = || -> Result<SoftirqOrder, ObjectRefused> {
            let map = self.loaded.map("orders")?;
            let bytes = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
            let bytes = bytes.map_err(|err| ObjectRefused::because(err.to_string()))?;
            let order = bytes.and_then(|bytes| SoftirqOrder::from_bytes(&bytes));
            Ok(order.unwrap_or_default())
        };
        let order =
            read().map_err(|refused| Obstacle::System(refused.reason).absence(&Help::Doctor))?;
        Ok(RtosDeferred {
            woken: order.woken,
            preempted: order.preempted,
            longest_wait: Nanos::from_ns(order.longest_wait_ns),
        })
    }
}

impl Drop for DeferredWatch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // If the sender panicked, there are fewer wakeups to count.
        let _ = self.sender.take().map(JoinHandle::join);
    }
}

fn load(cpu: Cpu, priority: u8) -> Result<LoadedObject, ObjectRefused> {
    let object = objects::SOFTIRQ_ORDER;
    let mut loaded = object.load(&[], &[], |open| {
        for (name, value) in [
            ("watched_cpu", cpu.0),
            ("watched_priority", 99 - u32::from(priority)),
        ] {
            object.set_input(open, name, &value.to_ne_bytes())?;
        }
        Ok(())
    })?;
    loaded.attach()?;
    Ok(loaded)
}

/// Opens a socket that sends to itself.
fn socket() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(socket.local_addr()?)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Sends and receives on `cpu` with the policy of normal threads. A full queue drops packets.
fn send(socket: &UdpSocket, cpu: Cpu, is_over: &AtomicBool) {
    if policy::pin(cpu).is_err() {
        return;
    }
    let mut packet = [0; PACKET_BYTES];
    while !is_over.load(Ordering::Relaxed) {
        for _ in 0..BURST {
            let _ = socket.send(&packet);
        }
        while socket.recv(&mut packet).is_ok() {}
    }
}
