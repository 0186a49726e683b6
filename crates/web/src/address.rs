//! Which IP addresses are on the public internet.
//!
//! An address is public if the IANA special-purpose registries
//! (<https://www.iana.org/assignments/iana-ipv4-special-registry>, …`ipv6-special-registry`) call it globally reachable,
//! with exceptions that are all stricter: anycast services without a web server, prefixes that contain an IPv4
//! address (a translator would reach a private one), and 168.63.129.16.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[cfg(test)]
mod tests;

/// Allowed ports on the public internet.
pub(crate) const PORTS: [u16; 4] = [80, 443, 8080, 8443];
/// The same, for error messages.
pub(crate) const ALLOWED_PORTS: &str = "80, 443, 8080 and 8443";

/// IPv4 ranges that are not public: first address, length of the prefix, what it is.
const V4: [([u8; 4], u32, &str); 19] = [
    ([0, 0, 0, 0], 8, "an address of this machine"),
    ([10, 0, 0, 0], 8, "in a private network"),
    ([100, 64, 0, 0], 10, "in a provider's internal network"),
    ([127, 0, 0, 0], 8, "an address of this machine"),
    // The hosts of the cloud metadata services, 169.254.169.254 and 169.254.170.2, are here.
    ([169, 254, 0, 0], 16, "link-local"),
    ([172, 16, 0, 0], 12, "in a private network"),
    ([192, 0, 0, 0], 24, "reserved"),
    ([192, 0, 2, 0], 24, "reserved for documentation"),
    ([192, 31, 196, 0], 24, "reserved"),
    ([192, 52, 193, 0], 24, "reserved"),
    ([192, 88, 99, 0], 24, "reserved"),
    ([192, 168, 0, 0], 16, "in a private network"),
    ([192, 175, 48, 0], 24, "reserved"),
    ([198, 18, 0, 0], 15, "reserved for benchmarks"),
    ([198, 51, 100, 0], 24, "reserved for documentation"),
    ([203, 0, 113, 0], 24, "reserved for documentation"),
    ([224, 0, 0, 0], 4, "a multicast address"),
    ([240, 0, 0, 0], 4, "reserved"),
    // Public by the registries, but the virtual machines of Azure reach their host by it, which answers with secrets.
    ([168, 63, 129, 16], 32, "the address of a cloud's metadata service"),
];

/// IPv6 ranges within 2000::/3 that are not public. Everything outside of 2000::/3 is refused.
const V6: [([u16; 8], u32, &str); 5] = [
    // Among them Teredo (2001::/32), which contains IPv4 addresses.
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, "reserved"),
    ([0x2001, 0x0db8, 0, 0, 0, 0, 0, 0], 32, "reserved for documentation"),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, "an IPv4 address inside an IPv6 address"),
    ([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48, "reserved"),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, "reserved for documentation"),
];

/// What an address is if it is not on the public internet, for instance `in a private network`.
pub fn not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => v4(address),
        IpAddr::V6(address) => v6(address),
    }
}

fn v4(address: Ipv4Addr) -> Option<&'static str> {
    let bits = u32::from(address);
    V4.iter()
        .find(|(base, length, _)| has_prefix32(bits, u32::from_be_bytes(*base), *length))
        .map(|row| row.2)
}

fn v6(address: Ipv6Addr) -> Option<&'static str> {
    // The kernel connects to the IPv4 address.
    if let Some(mapped) = address.to_ipv4_mapped() {
        return v4(mapped);
    }
    if address.is_loopback() || address.is_unspecified() {
        return Some("an address of this machine");
    }
    let bits = u128::from(address);
    let [first, ..] = address.segments();
    if first & 0xe000 != 0x2000 {
        return Some(match first {
            first if first & 0xfe00 == 0xfc00 => "in a private network",
            first if first & 0xffc0 == 0xfe80 => "link-local",
            first if first & 0xff00 == 0xff00 => "a multicast address",
            0 | 0x64 => "an IPv4 address inside an IPv6 address",
            _ => "reserved",
        });
    }
    V6.iter()
        .find(|(base, length, _)| has_prefix128(bits, u128::from(Ipv6Addr::from(*base)), *length))
        .map(|row| row.2)
}

fn has_prefix32(bits: u32, base: u32, length: u32) -> bool {
    (bits ^ base).checked_shr(32 - length).unwrap_or(0) == 0
}

fn has_prefix128(bits: u128, base: u128, length: u32) -> bool {
    (bits ^ base).checked_shr(128 - length).unwrap_or(0) == 0
}
