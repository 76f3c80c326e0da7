//! Flood of packets over the loopback device (Jones and Regehr 1999, 4.3): each is
//! received in a softirq on the sender's CPU, and dropped if the receiver's buffer is
//! full.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};

use super::{DisturbError, Hit, Site, clock};
use crate::scheduling::Policy;

const PACKET: [u8; 64] = [0; 64];

pub(super) fn run(site: &Site<'_>) -> Result<Vec<Hit>, DisturbError> {
    site.in_thread(|| {
        let (sender, _receiver) = connect().map_err(site.needs("open a loopback socket"))?;
        site.place(Policy::Other)?;
        site.rounds(|_| {
            let start = clock::now();
            let end = start + site.plan.length;
            while clock::now() < end {
                sender
                    .send(&PACKET)
                    .map_err(site.needs("send a packet over the loopback device"))?;
            }
            Ok(site.hit_since(start))
        })
    })
}

fn connect() -> io::Result<(UdpSocket, UdpSocket)> {
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    sender.connect(receiver.local_addr()?)?;
    Ok((sender, receiver))
}
